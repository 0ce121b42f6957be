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
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from django_mcp import registry
from django_mcp.approvals.life_cycle import Event
from django_mcp.approvals.models import Approval, fingerprint
from django_mcp.auth.base import Principal
from django_mcp.frame.frame import Frame
from django_mcp.runtime import threads
from django_mcp.stores.retries import run_retried
from django_mcp.transports.in_process import DjangoInProcessCaller

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


class NotRun(Exception):
    """The call cannot be carried out; the message is for its caller and for the approver."""


@dataclass(slots=True)
class ApprovedRun:
    """The right to make one approved call."""

    server: str
    tool: str
    digest: str
    is_used: bool = False

    def take(self, server: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Use the right for this call; False if it is another one, or the right was used."""
        is_same = (self.server, self.tool) == (server, tool)
        if self.is_used or not is_same or fingerprint(server, tool, arguments) != self.digest:
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
    context = threads.context_of_nobody()
    running = threads.in_scope(_run, row, frame)
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

    The thread has an event loop of its own, and goes on afterwards.
    """

    def in_loop() -> None:
        try:
            asyncio.run(threads.in_scope(_run, row))
        except Exception:
            logger.exception("The approved call %s could not be run", row.pk)

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
            logger.exception("The lease of the approved call %s could not be renewed", row.pk)


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
        server, principal, arguments = await run_retried(_prepare, row)
    except NotRun as error:
        return Event.FAIL, str(error), True
    current_run.set(ApprovedRun(row.server, row.tool, fingerprint(row.server, row.tool, arguments)))
    params = {"name": row.tool, "arguments": arguments}
    call_as = DjangoInProcessCaller().call_as
    response = await call_as(server, principal, "tools/call", params, frame=frame)
    if (rejected := response.get("error")) is not None:
        if frame is None and "requiredCapabilities" in (rejected.get("data") or ()):
            logger.error(
                "The tool %s requested input, but its approved run has no client", row.tool
            )
            return Event.FAIL, NO_CLIENT, True
        return Event.FAIL, f"The call was rejected: {rejected['message']}", True
    result = _kept(response["result"])
    return Event.COMPLETE, result, bool(result.get("isError"))


def _prepare(row: Approval) -> tuple[Any, Principal, dict[str, Any]]:
    try:
        call = row.stored_call()
    except ValueError as error:
        raise NotRun("The stored arguments could not be verified, so nothing was done.") from error
    try:
        server = registry.get(row.server)
    except LookupError as error:
        raise NotRun("The server of this call does not exist any more.") from error
    user = _user(row)
    principal = Principal(
        scheme=call["scheme"],
        subject=call["subject"],
        user=user,
        scopes=frozenset(call["scopes"]),
        claims=call["claims"],
    )
    return server, principal, call["arguments"]


def _user(row: Approval) -> Any:
    """Return the caller as they are now; raises NotRun if they may not call any more."""
    if not row.user_key:
        return AnonymousUser()
    user = get_user_model()._default_manager.filter(pk=row.user_key).first()
    if user is None or not user.is_active:
        raise NotRun("The account of the caller was disabled, so nothing was done.")
    return user


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    """Return what belongs to the result of the tool, and not to one response."""
    own = {name: member for name, member in result.items() if name in OWN}
    meta = result.get("_meta") or {}
    kept = {key: value for key, value in meta.items() if not key.startswith(FRAMEWORK)}
    return {**own, "_meta": kept} if kept else own
