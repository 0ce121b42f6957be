"""Changes of tasks: hints between processes, and notifications for clients with sessions.

A hint says that a row has changed. Where none may arrive, because no channel layer connects the
processes, the row is read at an interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django_mcp.protocol import tasks
from django_mcp.protocol.revisions import BY_VERSION, Feature
from django_mcp.protocol.tasks import Task
from django_mcp.pubsub import bus
from django_mcp.pubsub.publisher import of_task
from django_mcp.server.notifications import Notifications
from django_mcp.tasks import calls, store
from django_mcp.tasks.store import Changed

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
    received, here = Hints(ignored), bus.here()
    try:
        await here.subscribe(of_task(task_id), received.receive)
        yield received
    finally:
        here.unsubscribe(of_task(task_id), received.receive)


async def publish(changed: Changed, by: str = "") -> Task:
    """Publish that a task has changed; return the task as it is now."""
    before, after = changed
    if after is not before:
        await bus.publish(of_task(after.id), {"task": after.id, "by": by})
    if after.status is not before.status:
        await _notify_session(after)
    return after


async def _notify_session(task: Task) -> None:
    """Send the status to the session in which the task was created (TASK-60)."""
    row = await store.get().row(task.id)
    if row is None or not BY_VERSION[row.version].has(Feature.TASKS):
        return
    session_id, server = store.call_of(row).get("session_id"), calls.server_named(row.server)
    publisher = Notifications.publisher
    if session_id is None or server is None or publisher is None:
        return
    params = tasks.in_session(task)
    await publisher.send_to_session(server, session_id, tasks.STATUS_NOTIFICATION, params)
