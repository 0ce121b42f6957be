"""Changes of tasks: hints between processes, and notifications for clients with sessions.

A hint says that a row has changed. Where none may arrive, because no channel layer connects the
processes, the row is read at an interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from django_mcp import registry
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.core.protocol.tasks import Status, Task
from django_mcp.core.server.notifications import PUBLISHER
from django_mcp.models import McpTask
from django_mcp.pubsub import bus
from django_mcp.pubsub.publisher import of_task
from django_mcp.tasks import store
from django_mcp.tasks.store import UNAVAILABLE, Changed

POLL = 1.0
"""Seconds between two reads of a row, where hints of other processes do not arrive."""
POLL_WITH_HINTS = 5.0
"""The same where they do, because a channel layer may lose messages."""


class Hints:
    """The hints of one task that have not been looked at."""

    def __init__(self, ignored: str | None) -> None:
        self._event = asyncio.Event()
        self._ignored = ignored

    def receive(self, message: bus.Message) -> None:
        if message["by"] != self._ignored:
            self._event.set()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for a hint, or until the row should be read without one."""
        poll = POLL_WITH_HINTS if bus.here().is_connected else POLL
        try:
            async with asyncio.timeout(poll if timeout is None else min(poll, timeout)):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


@asynccontextmanager
async def hints(task_id: str, *, ignored: str | None = None) -> AsyncIterator[Hints]:
    """The hints of a task, from now on, without those that ``ignored`` has published."""
    received = Hints(ignored)
    here = bus.here()
    try:
        await here.subscribe(of_task(task_id), received.receive)
        yield received
    finally:
        here.unsubscribe(of_task(task_id), received.receive)


async def wait_while(statuses: Collection[Status], row: McpTask, timeout: float) -> None:
    """Wait while a task has one of these statuses, but not for longer than ``timeout``."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    async with hints(row.pk) as received:
        while (remaining := until - loop.time()) > 0:
            try:
                task = await store.get().load(row.pk, row.owner)
            except UNAVAILABLE:
                log_repeated(logging.ERROR, "A task cannot be read; trying again", exc_info=True)
            else:
                if task is None or task.status not in statuses:
                    return
            await received.wait(remaining)


async def publish(changed: Changed, by: str = "") -> Task:
    """Publish that a task has changed; return the task as it is now."""
    task = changed.after
    if task is not changed.before:
        await bus.publish(of_task(task.id), {"task": task.id, "by": by})
    if task.shown_status is not changed.before.shown_status:
        await _notify_session(task)
    return task


async def _notify_session(task: Task) -> None:
    """Send the status to the session that created the task (TASK-60)."""
    row = await store.get().row(task.id)
    if row is None or not BY_VERSION[row.version].has(Feature.TASKS):
        return
    call = store.call_of(row)
    if not call["is_task"]:
        return
    session_id = call.get("session_id")
    server = registry.find(row.server)
    publisher = PUBLISHER.get()
    if session_id is None or server is None or publisher is None:
        return
    params = tasks.in_session(task)
    await publisher.send_to_session(server, session_id, tasks.STATUS_NOTIFICATION, params)
