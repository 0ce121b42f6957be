"""Running an approved call, once: as its caller, with the arguments that were approved.

A call that waits with its client, as that of a task does, runs where it waits and keeps its client.
Any other runs without one.

Whoever moves the row from approved to running owns the run, and renews a lease on it. If that
process dies, the lease ends and the outcome is lost: the tool may have run, so nobody runs it
again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any

from django.utils import timezone, translation

from django_mcp.approvals.life_cycle import Event
from django_mcp.approvals.models import Approval, fingerprint
from django_mcp.dispatch import handle
from django_mcp.dispatch.reply import encode_reply
from django_mcp.frame.cancellation import Cancellation
from django_mcp.frame.frame import Frame
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc
from django_mcp.runtime import background, pools, request_scope
from django_mcp.stores.retries import run_retried
from django_mcp.tasks import calls
from django_mcp.tasks.calls import CallerGone, Execution, Restored
from django_mcp.tasks.exchange import TaskExchange
from django_mcp.tasks.execution import site_of
from django_mcp.transports import site

logger = logging.getLogger("django_mcp")

LEASE = 60.0
"""Seconds after which a run without a sign of life is lost."""
CLEAN_UP = 5.0
"""Seconds in which a cancelled handler may clean up."""
JOIN_TIMEOUT = 10.0
"""Seconds for which a page waits for the run that it has caused."""
OWN = ("content", "structuredContent", "isError")
"""The members of a result which are the tool's."""
FRAMEWORK = "io.modelcontextprotocol/"
"""The prefix of the metadata which each response adds for itself."""


@dataclass(slots=True)
class ApprovedRun:
    """The right to make one approved call."""

    server: str
    tool: str
    digest: str
    is_used: bool = False

    def take(self, server: str, tool: str, arguments: Mapping[str, Any], endpoint: str) -> bool:
        """Use the right for this call; False if it is another one, or the right was used."""
        is_same = (self.server, self.tool) == (server, tool)
        if self.is_used or not is_same:
            return False
        if fingerprint(server, tool, arguments, endpoint) != self.digest:
            return False
        self.is_used = True
        return True


current_run: ContextVar[ApprovedRun | None] = ContextVar("django_mcp.approved_run", default=None)
"""The approved call that is being carried out in this context."""


async def run(row: Approval, frame: Frame | None = None) -> None:
    """Carry out an approved call; return at once if it is not approved, or somebody else runs it.

    With the ``frame`` of the call, it has its client. It does not depend on the caller of this
    function: only a cancellation that the client requests stops it.
    """
    context = pools.context_of_nobody()
    running = request_scope.run(_run, row, frame)
    task = asyncio.get_running_loop().create_task(running, context=context)
    _running.add(task)
    task.add_done_callback(_running.discard)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if frame is not None and frame.cancellation.requested:
            task.cancel()
            await asyncio.wait({task}, timeout=CLEAN_UP)
        raise


_running: set[asyncio.Task[None]] = set()
"""The event loop has weak references only."""


def run_in_thread(row: Approval) -> None:
    """``run`` for synchronous code; return when it is done, or after JOIN_TIMEOUT seconds.

    The thread has an event loop of its own, and goes on afterwards. A process that is told to stop
    waits for it, as for a call.
    """
    done = background.accept_thread()

    def in_loop() -> None:
        try:
            asyncio.run(request_scope.run(_run, row))
        except Exception:
            logger.exception("The approved call %s could not be run", row.pk)
        finally:
            done.set_result(None)

    thread = threading.Thread(target=in_loop, name="django-mcp-approval", daemon=True)
    thread.start()
    thread.join(JOIN_TIMEOUT)


async def _run(row: Approval, frame: Frame | None = None) -> None:
    runner = token_urlsafe(16)
    if not await run_retried(row.start, runner, _lease_end()):
        return
    renewal = asyncio.ensure_future(_renew(row, runner))
    try:
        event, outcome, is_error = await _outcome(row, frame)
    except asyncio.CancelledError:
        if frame is None or not frame.cancellation.requested:
            raise  # The process stops: nobody knows how far it came.
        event, outcome, is_error = Event.FAIL, CANCELLED, True
    finally:
        renewal.cancel()
    stored = await run_retried(row.end, runner, event, outcome, is_error=is_error)
    if not stored:
        logger.error("The outcome of the approved call %s could not be stored", row.pk)


async def _renew(row: Approval, runner: str) -> None:
    while True:
        await asyncio.sleep(LEASE / 3)
        try:
            await run_retried(row.renew, runner, _lease_end())
        except Exception:
            text = "The lease of an approved call could not be renewed; trying again"
            log_repeated(logging.ERROR, text, exc_info=True)


def _lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=LEASE)


CANCELLED = "The client cancelled it while it ran: it may have been carried out in part."
NO_CLIENT = (
    "The tool requests input, which is impossible after an approval that was not given in the "
    "call itself. Have the call made as a task, or approved in the client."
)


async def _outcome(row: Approval, frame: Frame | None) -> tuple[Event, Any, bool]:
    """Make the call; return the event, the result or the message, and whether it is an error."""
    try:
        call = await run_retried(row.stored_call)
        execution = Execution(None, TaskExchange(), Cancellation())
        restored = await calls.restore(row, call, execution)
    except CallerGone:
        return Event.FAIL, "The account of the caller was disabled, so nothing was done.", True
    except LookupError:
        return Event.FAIL, "The server of this call does not exist any more.", True
    except ValueError:
        text = "The stored arguments could not be verified, so nothing was done."
        return Event.FAIL, text, True
    current_run.set(ApprovedRun(row.server, row.tool, digest_of(row, call)))
    response = await _answer(restored, frame)
    if (rejected := response.get("error")) is not None:
        if frame is None and "requiredCapabilities" in (rejected.get("data") or ()):
            logger.error(
                "The tool %s requested input, but its approved run has no client", row.tool
            )
            return Event.FAIL, NO_CLIENT, True
        return Event.FAIL, f"The call was rejected: {rejected['message']}", True
    result = _kept(response["result"])
    return Event.COMPLETE, result, bool(result.get("isError"))


async def _answer(restored: Restored, frame: Frame | None) -> dict[str, Any]:
    """The response to the call on its own ``frame``, or else on the one that was restored.

    The call on its own frame is made as the caller is now, who may have lost a permission.
    """
    if frame is not None:
        inner = restored.frame
        frame = replace(frame, user=inner.user, auth=inner.auth, request=inner.request)
        reply = await handle.answer(frame, site.get())
    else:
        with translation.override(restored.language):
            reply = await handle.answer(restored.frame, site_of(restored))
    response: dict[str, Any] = jsonrpc.decode(encode_reply(reply.message))
    return response


def digest_of(row: Approval, call: Mapping[str, Any]) -> str:
    """The fingerprint of a verified call by the present key of the site."""
    arguments = call["params"].get("arguments", {})
    return fingerprint(row.server, row.tool, arguments, call["endpoint"])


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    """Return what belongs to the result of the tool, and not to one response."""
    own = {name: member for name, member in result.items() if name in OWN}
    meta = result.get("_meta") or {}
    kept = {key: value for key, value in meta.items() if not key.startswith(FRAMEWORK)}
    return {**own, "_meta": kept} if kept else own
