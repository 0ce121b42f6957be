"""Running a stored task by its id: every runner calls ``run`` in the process that it chose.

A run starts its task, which leases the row; it waits for a slot, makes the Frame of the stored call
again (``restore``), and answers that as a request. The permissions of the caller are checked then,
since they may have changed. ``Run.follow`` stores how it ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils import translation

from django_mcp import registry, stores
from django_mcp.core.concurrency.fair_slots import FairSlots
from django_mcp.core.dispatch import handle
from django_mcp.core.dispatch.handle import Site
from django_mcp.core.frame.client.base import Client
from django_mcp.core.frame.client.bidirectional import BidirectionalClient
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    InternalError,
    McpError,
    MissingClientCapability,
)
from django_mcp.core.protocol.jsonrpc import RequestInfo
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.server import Server
from django_mcp.models import McpTask
from django_mcp.pubsub import bus, session_messages, switches
from django_mcp.pubsub.session_messages import CONNECTION_BOUND
from django_mcp.runtime import pools, request_scope
from django_mcp.runtime.process import interpreter
from django_mcp.tasks import calls, store
from django_mcp.tasks.calls import CallerGone
from django_mcp.tasks.clients import PageClient, TaskClient
from django_mcp.tasks.run import OUTAGE, UNLIMITED, Run, new_lease_owner, until_available
from django_mcp.transports import frames, site
from django_mcp.transports.http import paths
from django_mcp.transports.loop_exchange import LoopExchange

logger = logging.getLogger("django_mcp")

NO_SERVER = "The server of this call does not exist any more, so nothing was done"
NOT_VERIFIED = "The stored call could not be verified, so nothing was done"


async def run(task_id: str, slots: FairSlots = UNLIMITED) -> None:
    """Run the task with this id, unless it was started, cancelled or deleted before.

    The handler begins when one of the ``slots`` is free; the lease is renewed meanwhile.
    """
    if (job := INSTALLED.jobs.get(task_id)) is not None:
        await job()
        return
    request_scope.use_pool(pools.TASKS)
    lease_owner = new_lease_owner()
    start = partial(store.get().start, task_id, lease_owner)
    # The message of the task does not come again.
    started = await until_available(start, OUTAGE, "A task cannot be started; trying again")
    if started is None:
        return
    row, task = started
    running = Run(task, lease_owner, slots.slot(row.user_key or row.caller))
    await running.follow(asyncio.create_task(_answer(row, running)))


def run_in_new_loop(task_id: str) -> None:
    """``run`` for a synchronous worker process, which has no event loop.

    Raises ImproperlyConfigured if its threads are greenlets.
    """

    async def read_switches_and_run() -> None:
        await switches.read()
        await run(task_id)

    interpreter.refuse_greenlets(interpreter.FOR_WORKERS)
    bus.run_in_temporary_loop(read_switches_and_run)


async def _answer(row: McpTask, run: Run) -> bytes:
    """The response to the stored call, when the run has its slot."""

    def failed(error: McpError) -> bytes:
        return jsonrpc.encode(jsonrpc.error(None, BY_VERSION[row.version].error(error)))

    async with run.slot:
        try:
            text = "The caller of a task cannot be read; trying again"
            frame, call = await until_available(partial(restore, row, run), OUTAGE, text)
        except CallerGone as error:
            return failed(AuthenticationRequired(str(error)))
        except LookupError:
            logger.exception("A task cannot be run")
            return failed(InternalError(NO_SERVER))
        except ValueError:
            logger.exception("A task cannot be run")
            return failed(InternalError(NOT_VERIFIED))
        with translation.override(call["language"]):
            body = await handle.answer(frame, site_of(frame, call["changed"]["assigns"]))
        lacks_client = isinstance(frame.exchange.error, MissingClientCapability)
        if lacks_client and not isinstance(frame.client, TaskClient):
            logger.error(
                "The tool %s requested input, but its approved run has no client", row.tool
            )
        return body


async def restore(row: McpTask, run: Run) -> tuple[Frame, Mapping[str, Any]]:
    """The Frame of a stored call for its run, and the call as it was stored.

    A call that needed an approval is granted its run. Raises CallerGone, LookupError for a server
    that this process does not have, and ValueError for a row that was changed, or not approved.
    """
    call = store.call_of(row)
    server = registry.find(row.server)
    if server is None:
        raise LookupError(f"This process has no MCP server {row.server!r}")
    registry.make_ready(server)
    principal = await calls.caller_of(row.user_key, call)
    private, assigns = await _state(row, call, server)
    exchange = LoopExchange(server, principal)
    exchange.may_start_tasks = False
    exchange.is_task_run = True
    exchange.in_pool = partial(pools.run_task, run.slot.call)  # type: ignore[arg-type]
    if call["is_task"] and BY_VERSION[row.version].has(Feature.TASKS):
        exchange.receive_message = run.add
    frame = Frame(
        assigns,
        user=principal.user,
        auth=principal,
        request=RequestInfo(call["id"], "tools/call", call["params"]),
        initialized=True,
        client=_client(exchange, private, call, run),
        cancellation=exchange,
        private=private,
        exchange=exchange,
    )
    run.cancellation = exchange
    extension = call.get("granted_by")
    if extension is not None:
        grant = INSTALLED.grants.get(extension)
        if grant is None:
            raise ValueError(f"The call needs a grant of {extension}, which is not installed")
        await grant(row, call)
    return frame, call


def _client(exchange: LoopExchange, private: Any, call: Mapping[str, Any], run: Run) -> Client:
    """The client of a stored call. That of a plain call knows nothing of the run."""
    server = exchange.server
    revision = private["revision"]
    if "answered_for" in call:
        return PageClient(run, server, revision, call["answered_for"], exchange)
    if not call["is_task"]:
        return BidirectionalClient(server, revision, {}, exchange, None, None, None)
    progress_token = None
    log_level = None
    if revision.has(Feature.TASKS):
        progress_token = (call["params"].get("_meta") or {}).get("progressToken")
        if server.capabilities.has("logging"):
            log_level = private.get("log_level")
    return TaskClient(
        run,
        server,
        revision,
        private["client_capabilities"],
        exchange,
        progress_token,
        log_level,
    )


async def _state(
    row: McpTask, call: Mapping[str, Any], server: Server
) -> tuple[Any, dict[str, Any]]:
    """The private data and the assigns of the Frame, with the changes of the middleware.

    They are those of the session as it is now, if it is in a store, or as stored with the call.
    """
    session_id = call["session_id"]
    session = None
    if session_id is not None and CONNECTION_BOUND not in session_id:
        session = await stores.sessions().load(session_id)
    if session is not None:
        private = {
            **frames.private_of(server, session),
            "log_level": frames.session_level(session),
        }
        assigns = dict(session.assigns)
    else:
        revision = server.by_version[row.version]
        private = {
            "server": server,
            "revision": revision,
            "protocol_version": revision.version,
            "client_info": call["client_info"],
            "client_capabilities": call["client_capabilities"],
        }
        assigns = call.get("assigns", {})
        if session_id is not None:
            private["session_id"] = session_id
            private["components"] = call.get("components", {})
            private["log_level"] = call.get("log_level") or frames.DEFAULT_LOG_LEVEL
    changed = call["changed"]
    private |= changed["private"]
    if "components" in changed:
        private["components"] = changed["components"]
    private["path_params"] = paths.from_text(server.path, call["path_params"])
    return private, {**assigns, **changed["assigns"]}


def site_of(frame: Frame, assigned: Mapping[str, Any]) -> Site:
    """The functions of the site for the Frame of a stored call.

    The values that middleware ``assigned`` override frame processors, as they did in the request.
    """
    functions = site.get()
    if assigned and functions.process is not None:
        process = functions.process

        async def assign_again(frame: Frame) -> Frame:
            return (await process(frame)).with_request_assigns(assigned)

        functions = replace(functions, process=assign_again)
    session_id = frame.get_mcp_session_id()
    if session_id is not None and CONNECTION_BOUND in session_id:
        # The process with the connection commits changes of its session, and publishes them.
        async def commit(session_id: str, _: str, changes: Sequence[Change]) -> None:
            await session_messages.change_connection(session_id, changes)

        async def publish(server: Server, session_id: str, changes: Sequence[Change]) -> None:
            pass

        functions = replace(functions, commit=commit, publish=publish)
    return functions
