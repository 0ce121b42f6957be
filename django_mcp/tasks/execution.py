"""Running a stored task by its id: what every runner calls where the task should run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils import translation

from django_mcp.core.concurrency.fair_slots import FairSlots
from django_mcp.core.dispatch import handle
from django_mcp.core.dispatch.handle import Site
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    InternalError,
    McpError,
    MissingClientCapability,
)
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.core.protocol.tasks import Task
from django_mcp.core.server.server import Server
from django_mcp.models import McpTask
from django_mcp.pubsub import bus, publisher, switches
from django_mcp.pubsub.publisher import CONNECTION_BOUND
from django_mcp.runtime import pools, request_scope
from django_mcp.runtime.process import greenlets
from django_mcp.tasks import calls, store
from django_mcp.tasks.calls import CallerGone, Execution, Restored
from django_mcp.tasks.clients import TaskClient
from django_mcp.tasks.run import OUTAGE, UNLIMITED, Run, new_holder, until_available
from django_mcp.transports import site

logger = logging.getLogger("django_mcp")


JOBS: dict[str, Callable[[], Awaitable[object]]] = {}
"""Work of extensions that the runner of the site runs where tasks run, by a name which is submitted
like the id of a task. It keeps its own rows: it may be submitted too often, or get lost."""

GRANTS: dict[str, Callable[[McpTask, Mapping[str, Any]], Awaitable[None]]] = {}
"""Functions of extensions that hold calls, by the name of the extension. Before a call runs that it
has held, the function verifies the row and the stored call, and grants the run, or raises
ValueError."""


async def run(task_id: str, slots: FairSlots = UNLIMITED) -> None:
    """Run the task with this id, unless it was started, cancelled or deleted before.

    The handler begins when one of the ``slots`` is free; the lease is held meanwhile.
    """
    if (job := JOBS.get(task_id)) is not None:
        await job()
        return
    request_scope.use_pool(pools.TASKS)
    holder = new_holder()
    tasks = store.get()

    async def start() -> tuple[McpTask, Task] | None:
        row = await tasks.start(task_id, holder)
        task = None if row is None else await tasks.held(task_id, holder)
        return None if row is None or task is None else (row, task)

    # The message of the task does not come again.
    started = await until_available(start, OUTAGE, "A task cannot be started; trying again")
    if started is None:
        return
    row, task = started
    running = Run(task, holder, slots.slot(row.user_key or row.caller))
    await running.follow(asyncio.create_task(_answer(row, running)))


def run_in_new_loop(task_id: str) -> None:
    """``run`` for a synchronous worker process, which has no event loop.

    Raises ImproperlyConfigured if its threads are greenlets.
    """
    greenlets.refuse_to_run_tasks()
    bus.run_in_temporary_loop(_read_switches_and_run, task_id)


async def _read_switches_and_run(task_id: str) -> None:
    await switches.read()
    await run(task_id)


async def _answer(row: McpTask, running: Run) -> bytes:
    async with running.slot:
        try:
            restore = partial(_restore, row, running)
            text = "The caller of a task cannot be read; trying again"
            restored = await until_available(restore, OUTAGE, text)
        except CallerGone as error:
            return _failed(row, AuthenticationRequired(str(error)))
        except LookupError:
            logger.exception("A task cannot be run")
            return _failed(row, InternalError(NO_SERVER))
        except ValueError:
            logger.exception("A task cannot be run")
            return _failed(row, InternalError(NOT_VERIFIED))
        with translation.override(restored.language):
            body = await handle.answer(restored.frame, site_of(restored))
        outcome = restored.frame.exchange.error
        has_client = isinstance(restored.frame.client, TaskClient)
        if isinstance(outcome, MissingClientCapability) and not has_client:
            logger.error(
                "The tool %s requested input, but its approved run has no client", row.tool
            )
        return body


NO_SERVER = "The server of this call does not exist any more, so nothing was done"
NOT_VERIFIED = "The stored call could not be verified, so nothing was done"


async def _restore(row: McpTask, running: Run) -> Restored:
    """The stored call; one that an extension has held is granted its run.

    The client of a call that was no task knows nothing of its run.
    """
    facts = store.call_of(row)
    is_session = BY_VERSION[row.version].has(Feature.TASKS)
    is_task = facts["is_task"]
    store_message = running.add if is_session and is_task else None
    has_run = is_task or "answered_for" in facts
    execution = Execution(running if has_run else None, store_message, running.slot)
    restored = await calls.restore(row, facts, execution)
    running.cancellation = restored.frame.exchange
    extension = facts.get("held_by")
    if extension is not None:
        if extension not in GRANTS:
            raise ValueError(f"{extension} has held the call, and is not installed")
        await GRANTS[extension](row, facts)
    return restored


def site_of(restored: Restored) -> Site:
    """The functions of the site, as a stored call needs them."""
    functions = site.get()
    if restored.assigned and functions.process is not None:
        process = functions.process

        async def assign_again(frame: Frame) -> Frame:
            return (await process(frame)).with_request_assigns(restored.assigned)

        functions = replace(functions, process=assign_again)
    session_id = restored.frame.get_mcp_session_id()
    if session_id is not None and CONNECTION_BOUND in session_id:
        functions = replace(functions, commit=_commit_on_connection, publish=_publish_nothing)
    return functions


async def _commit_on_connection(session_id: str, _: str, changes: Sequence[Change]) -> None:
    """Pass changes on to the connection which has the session, in whatever process it is."""
    await publisher.change_connection(session_id, changes)


async def _publish_nothing(server: Server, session_id: str, changes: Sequence[Change]) -> None:
    """Do nothing: the connection publishes its commits."""


def _failed(row: McpTask, error: McpError) -> bytes:
    """The response to a call that has no Frame."""
    return jsonrpc.encode(jsonrpc.error(None, BY_VERSION[row.version].error(error)))
