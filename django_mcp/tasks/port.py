"""The functions of this app that dispatch calls, which must not import it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django_mcp.core.dispatch import visibility
from django_mcp.core.dispatch.invocation import Answer
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import Json, TooManyRequests
from django_mcp.core.protocol.tasks import Task
from django_mcp.core.server.tasks import Call
from django_mcp.stores.base import StoreFull
from django_mcp.tasks import calls, changes, delivery, hand_over, runners, store, submission
from django_mcp.tasks.calls import owner_of
from django_mcp.tasks.run import new_holder
from django_mcp.tasks.store import NewTask


class DjangoTasks:
    async def start(self, frame: Frame, ttl_ms: int | None) -> Task:
        return await begin(calls.describe(frame, ttl_ms))

    async def run_or_hand_over(self, frame: Frame, call: Call, after: float) -> Answer | Task:
        return await hand_over.run(frame, call, after)

    async def get(self, frame: Frame, task_id: str) -> Task | None:
        task = await store.get().load(task_id, owner_of(frame))
        is_visible = task is not None and await visibility.may_see_call(frame, task.tool)
        return task if is_visible else None

    async def page(
        self, frame: Frame, after: Sequence[str] | None, limit: int
    ) -> tuple[list[Task], Sequence[str] | None]:
        rows = store.get()
        owner = owner_of(frame)
        called = await rows.tools(owner)
        tools = [tool for tool in called if await visibility.may_see_call(frame, tool)]
        return await rows.page(owner, tools, after, limit)

    async def update(
        self, frame: Frame, task_id: str, responses: Mapping[str, Json]
    ) -> Task | None:
        if await self.get(frame, task_id) is None:
            return None
        stored = {key: {"result": response} for key, response in responses.items()}
        return await delivery.answer(task_id, owner_of(frame), stored)

    async def cancel(self, frame: Frame, task_id: str) -> Task | None:
        if await self.get(frame, task_id) is None:
            return None
        changed = await store.get().change(task_id, tasks.cancel, owner=owner_of(frame))
        return None if changed is None else await changes.publish(changed)

    async def wait(self, frame: Frame, task_id: str) -> Task | None:
        if await self.get(frame, task_id) is None:
            return None
        return await delivery.Delivery(frame.exchange, task_id, owner_of(frame)).wait()


async def begin(new: NewTask) -> Task:
    """Store a task, and have it run; raises TooManyRequests if its caller has too many."""
    runner = runners.get()
    # A process which runs the task itself is answerable for it from the beginning.
    holder = new_holder() if runner.runs_here else None
    try:
        task = await store.get().create(new, holder=holder, is_started=False)
    except StoreFull as error:
        raise TooManyRequests(str(error)) from error
    await submission.submit(task.id)
    return task


async def cancel(task_id: str) -> bool:
    """Cancel a task of any owner, for the site; False if it has ended or does not exist."""
    try:
        changed = await store.get().change(task_id, tasks.cancel)
    except tasks.TaskEnded:
        return False
    if changed is None:
        return False
    await changes.publish(changed)
    return True
