"""Calls that are continued as a task if they have not ended after some seconds.

The handler is not started again: it goes on where it is, in this process, and what it sends and
requests from then on is stored. A synchronous handler that has found no thread by then waits on.

| a call is | who moves it there | its request is answered by |
|---|---|---|
| awaited | ``run`` | what comes first of the following |
| ended | its handler, in time | the answer |
| requesting input | its handler (``HandOver.require_input``) | the input request; it is no task |
| continued | ``_continue``, after that time (``HandOver.begin``) | the task |
| kept | ``_continue``, where its row cannot be stored | the answer, however late |
| cancelled | its client, while the request is open | nobody |
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import cast

from django_mcp import conf
from django_mcp.concurrency.fair_slots import FairSlots, Slot
from django_mcp.dispatch.invocation import Answer
from django_mcp.dispatch.reply import Reply, encode_reply, error_reply
from django_mcp.frame.cancellation import Cancellation
from django_mcp.frame.client.multi_round_trip import MultiRoundTripClient
from django_mcp.frame.client.task import HandOver, HandOverClient
from django_mcp.frame.frame import Frame
from django_mcp.frame.transport import current_caller
from django_mcp.protocol import jsonrpc, tasks
from django_mcp.protocol.errors import McpError
from django_mcp.protocol.tasks import Task, TaskEnded
from django_mcp.runtime import background, pools, request_scope
from django_mcp.server.tasks import Call
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import calls, store
from django_mcp.tasks.exchange import HandOverExchange
from django_mcp.tasks.run import Run, new_holder
from django_mcp.tasks.store import UNAVAILABLE


@cache
def _slots(size: int) -> FairSlots:
    """The slots for synchronous handlers of calls which may be continued as a task."""
    return FairSlots(conf.get().sync_thread_pool_size)


CLEAN_UP = 5.0
"""Seconds in which a cancelled handler may clean up before the request is answered."""


async def run(frame: Frame, call: Call, after: float) -> Answer | Task:
    """The answer of ``call``, or the task as which it continues after so many seconds."""
    state = HandOver()
    cancellation = Cancellation()
    slot = _slots(conf.get().sync_thread_pool_size).slot(current_caller())
    exchange = HandOverExchange(frame.exchange, state, slot)
    client = HandOverClient(cast(MultiRoundTripClient, frame.client), exchange, state)
    inner = replace(frame, client=client, exchange=exchange, cancellation=cancellation)
    outer = frame.cancellation
    detach = outer.on_request(lambda: cancellation.request(outer.reason))
    request_scope.begin_handler()
    # In a scope of its own, whose database connections outlive the request.
    work = asyncio.create_task(request_scope.run(_await_long_call, call, inner))
    try:
        await asyncio.wait({work}, timeout=after)
        if not work.done() and not outer.requested and not state.requires_input:
            task = await _continue(inner, work, state, slot)
            if task is not None:
                return task
        return await work
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work}, timeout=CLEAN_UP)
        raise
    finally:
        detach()


async def run_here(frame: Frame, call: Call, task_id: str) -> Answer | None:
    """Run a task that was approved in the call itself, which has its client.

    None if somebody else has started it. Only a cancellation that the client requests stops it.
    """
    holder = new_holder()
    rows = store.get()
    if await rows.start(task_id, holder) is None:
        return None
    task = await rows.held(task_id, holder)
    assert task is not None
    # In a scope of its own, whose database connections outlive the request.
    work = asyncio.create_task(request_scope.run(_await_call, call, frame))
    running = Run(task, holder)
    running.cancellation = frame.cancellation
    following = background.create_task(running.follow(asyncio.create_task(_stored(frame, work))))
    try:
        answer = await asyncio.shield(work)
    except asyncio.CancelledError:
        if frame.cancellation.requested:
            await _cancel(task_id)
            work.cancel()
            await asyncio.wait({work}, timeout=CLEAN_UP)
        raise
    # The row has the result before the client, unless the database is away.
    await asyncio.wait({following}, timeout=CLEAN_UP)
    return answer


async def _cancel(task_id: str) -> None:
    with suppress(TaskEnded, *UNAVAILABLE):
        await store.get().change(task_id, tasks.cancel)


async def _await_long_call(call: Call, frame: Frame) -> Answer:
    request_scope.use_pool(pools.QUERIES_OF_LONG_CALLS)
    return await call(frame)


async def _await_call(call: Call, frame: Frame) -> Answer:
    return await call(frame)


async def _continue(
    frame: Frame, work: asyncio.Task[Answer], state: HandOver, slot: Slot
) -> Task | None:
    """Continue the call as a task; None if it has ended meanwhile, or its row cannot be stored."""
    holder = new_holder()
    try:
        task = await _create(frame, holder)
    except StoreFull:
        return None
    except Exception as error:
        frame.server.report("A call cannot be continued as a task", error)
        return None
    running = Run(task, holder, slot)
    running.cancellation = frame.cancellation
    if work.done() or not state.begin(running):
        await store.get().delete(task.id)
        return None
    background.spawn_accepted(running.follow(asyncio.create_task(_reply(frame, work))))
    return task


async def _create(frame: Frame, holder: str) -> Task:
    """Store the row; if the request is cancelled meanwhile, delete it again."""
    rows = store.get()
    create = partial(rows.create, calls.describe(frame, None), holder=holder, is_started=True)
    creating = asyncio.ensure_future(create())
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        creating.add_done_callback(_delete)
        raise


def _delete(creating: asyncio.Future[Task]) -> None:
    if not creating.cancelled() and creating.exception() is None:
        background.spawn(store.get().delete(creating.result().id))


async def _stored(frame: Frame, work: asyncio.Task[Answer]) -> Reply:
    """``_reply`` without what is encoded already, for a call that its client receives as well."""
    reply = await _reply(frame, work)
    return reply._replace(message=jsonrpc.decode(encode_reply(reply.message, reply.frame.message)))


async def _reply(frame: Frame, work: asyncio.Task[Answer]) -> Reply:
    """The reply of a call which has already passed through the middleware."""
    server = frame.server
    revision = frame.revision
    try:
        result, after = await work
    except McpError as error:
        return error_reply(frame, error)
    if isinstance(result, McpError):
        return error_reply(frame, result)
    info = server.get_server_info(revision)
    cache = server.cache_members
    finished = revision.serialize_result("tools/call", {**result}, server_info=info, cache=cache)
    return Reply(jsonrpc.result(frame.request_id, finished), after)
