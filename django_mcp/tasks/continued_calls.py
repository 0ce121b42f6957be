"""Calls that are continued as a task if they have not ended after some seconds.

The handler is not started again: it goes on in this process, and its messages and input requests
are stored from then on. A synchronous handler that still waits for a thread goes on waiting.

| a call is | who moves it there | its request is answered by |
|---|---|---|
| awaited | ``run`` | the first of the following |
| ended | its handler, in time | the answer |
| requesting input | its handler (``HandOver.require_input``) | the input request |
| continued | ``_continue``, after that time (``HandOver.begin``) | the task |
| kept | ``_continue``, where its row cannot be stored | the answer, however late |
| cancelled | its client, while the request is open | nobody |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar, cast

from django_mcp import conf
from django_mcp.core.concurrency.fair_slots import FairSlots, Slot
from django_mcp.core.dispatch import handle
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.frame.client.multi_round_trip import MultiRoundTripClient
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import current_caller
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import McpError
from django_mcp.core.protocol.tasks import Task, TaskEnded
from django_mcp.core.server.server import server_of
from django_mcp.runtime import background, pools, request_scope, rollback
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import calls, store
from django_mcp.tasks.clients import HandOver, HandOverClient
from django_mcp.tasks.run import Run, new_lease_owner
from django_mcp.tasks.store import UNAVAILABLE
from django_mcp.transports.loop_exchange import LoopExchange

T = TypeVar("T")
Call = Callable[[Frame], Awaitable[Answer]]


@cache
def _slots(size: int) -> FairSlots:
    """The slots for synchronous handlers of calls that may be continued as a task."""
    return FairSlots(conf.get().sync_thread_pool_size)


CLEAN_UP = 5.0
"""Seconds for a cancelled handler to clean up before the request is answered."""


async def run(frame: Frame, call: Call, after: float) -> Answer | Task:
    """Return the answer of ``call``, or the task that continues it ``after`` so many seconds."""
    state = HandOver()
    outer = frame.exchange
    slot = _slots(conf.get().sync_thread_pool_size).slot(current_caller())
    exchange = LoopExchange(server_of(frame), frame.principal, frame.transport, frame.session)
    exchange.may_start_tasks = False
    exchange.in_pool = partial(_run_in_slot, slot)
    # An input request of the call rolls back writes of the handler.
    exchange.run_with_rollback = partial(_run_in_slot, slot, rollback.call)
    exchange.outer = outer
    exchange.request_headers = outer.request_headers
    client = HandOverClient(cast(MultiRoundTripClient, frame.client), exchange, state)
    inner = replace(frame, client=client, exchange=exchange, cancellation=exchange)
    detach = outer.on_request(lambda: exchange.request(outer.reason))
    request_scope.begin_handler()
    # In a scope of its own, whose database connections outlive the request.
    work = asyncio.create_task(request_scope.run(_await_long_call, call, inner))
    try:
        await asyncio.wait({work}, timeout=after)
        if not work.done() and not outer.requested and not state.requires_input:
            task = await _continue(inner, work, state, slot)
            if task is not None:
                exchange.outer = None  # From now on, its messages are stored.
                return task
        return await work
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work}, timeout=CLEAN_UP)
        raise
    finally:
        detach()


async def run_here(
    frame: Frame, call: Callable[[Frame], Coroutine[Any, Any, Answer]], task_id: str
) -> Answer | None:
    """Run an approved task within its call, so that its handler has the client.

    Return None if another run has started it. Only a cancellation by the client stops it.
    """
    lease_owner = new_lease_owner()
    rows = store.get()
    started = await rows.start(task_id, lease_owner)
    if started is None:
        return None
    # In a scope of its own, whose database connections outlive the request.
    work = asyncio.create_task(request_scope.run(call, frame))
    running = Run(started[1], lease_owner)
    running.cancellation = frame.cancellation
    following = background.create_task(running.follow(asyncio.create_task(_response(frame, work))))
    try:
        answer = await asyncio.shield(work)
    except asyncio.CancelledError:
        if frame.cancellation.requested:
            with suppress(TaskEnded, *UNAVAILABLE):
                await rows.change(task_id, tasks.cancel)
            work.cancel()
            await asyncio.wait({work}, timeout=CLEAN_UP)
        raise
    # The row has the result before the client, unless the database is away.
    await asyncio.wait({following}, timeout=CLEAN_UP)
    return answer


async def _await_long_call(call: Call, frame: Frame) -> Answer:
    request_scope.use_pool(pools.QUERIES_OF_LONG_CALLS)
    return await call(frame)


async def _run_in_slot(slot: Slot, function: Callable[..., T], /, *args: Any) -> T:
    """Wait for a slot, and run ``function`` on a thread; a call that waits becomes a task."""
    async with slot:
        request_scope.begin_handler()
        return await pools.run_task(slot.call, function, *args)


async def _continue(
    frame: Frame, work: asyncio.Task[Answer], state: HandOver, slot: Slot
) -> Task | None:
    """Continue the call as a task; None if it has ended meanwhile, or its row cannot be stored."""
    lease_owner = new_lease_owner()
    try:
        task = await _create(frame, lease_owner)
    except StoreFull:
        return None
    except Exception as error:
        frame.server.report("A call cannot be continued as a task", error)
        return None
    running = Run(task, lease_owner, slot)
    running.cancellation = frame.cancellation
    if work.done() or not state.begin(running):
        await store.get().delete(task.id)
        return None
    background.spawn_accepted(running.follow(asyncio.create_task(_response(frame, work))))
    return task


async def _create(frame: Frame, lease_owner: str) -> Task:
    """Store the row; if the request is cancelled meanwhile, delete it again."""
    rows = store.get()
    create = partial(
        rows.create, calls.describe(frame, None), lease_owner=lease_owner, is_started=True
    )
    creating = asyncio.ensure_future(create())
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        creating.add_done_callback(_delete)
        raise


def _delete(creating: asyncio.Future[Task]) -> None:
    if not creating.cancelled() and creating.exception() is None:
        background.spawn(store.get().delete(creating.result().id))


async def _response(frame: Frame, work: asyncio.Task[Answer]) -> bytes:
    """The response of a call that has passed through the middleware already."""
    try:
        result, _ = await work
    except McpError as error:
        return handle.encode_error(frame, error)
    # A copy, because the client of ``run_here`` receives the result as well.
    return handle.encode_result(frame, {**result} if isinstance(result, dict) else result)
