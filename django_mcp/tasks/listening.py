"""``taskIds`` in the filter of ``subscriptions/listen``: the states of tasks on a stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from django_mcp.core.frame.frame import Frame
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.errors import MissingClientCapability
from django_mcp.core.protocol.tasks import FINAL
from django_mcp.extensions import ListenFilter, Stream
from django_mcp.pubsub import bus
from django_mcp.pubsub.publisher import of_task
from django_mcp.runtime import background
from django_mcp.tasks import methods, steps

READ = 4.0
"""Seconds between two reads of the tasks of a stream: hints of their changes may be lost."""


async def accept(frame: Frame, ids: Sequence[str]) -> list[str]:
    """Return those ids that name tasks of the caller."""
    if not steps.is_declared(frame):
        raise MissingClientCapability.of(steps.EXTENSION)
    return [task_id for task_id in ids if await methods.find(frame, task_id) is not None]


async def open_stream(stream: Stream, ids: Sequence[str]) -> Callable[[], None]:
    listener = Listener(stream)

    def unsubscribe() -> None:
        for task_id in ids:
            bus.here().unsubscribe(of_task(task_id), listener.receive)

    try:
        for task_id in ids:
            await bus.here().subscribe(of_task(task_id), listener.receive)
            # A task that ended before the client could listen changes no more.
            await listener.read(task_id, sends=FINAL)
    except BaseException:
        unsubscribe()  # Nobody has ``close``.
        raise
    reading = background.create_task(listener.read_again())

    def close() -> None:
        unsubscribe()
        reading.cancel()

    return close


class Listener:
    """Sends the states of tasks on one stream, as long as they belong to its caller (TASK-19)."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._states: dict[str, tuple[Any, ...]] = {}

    def receive(self, message: bus.Message) -> None:
        background.spawn(self.read(message["task"], sends=frozenset(tasks.Status)))

    async def read_again(self) -> None:
        """Read the tasks which have not ended, in case a hint was lost."""
        while active := [key for key, state in self._states.items() if state[0] not in FINAL]:
            await asyncio.sleep(READ)
            for task_id in active:
                try:
                    await self.read(task_id)
                except Exception:
                    text = "The tasks of a stream cannot be read; trying again"
                    log_repeated(logging.ERROR, text, exc_info=True)

    async def read(self, task_id: str, *, sends: frozenset[tasks.Status] = frozenset()) -> None:
        """Read a task; send it if it has changed, or has one of the statuses ``sends``."""
        task = await methods.find(self._stream.frame, task_id)
        if task is None:
            self._states.pop(task_id, None)
            return
        state = task.status, task.updated_at, task.progress, task.message
        is_changed = self._states.get(task_id, state) != state
        self._states[task_id] = state
        if is_changed or task.status in sends:
            self._stream.send(tasks.LISTEN_NOTIFICATION, tasks.detailed(task))


FILTER = ListenFilter(name="taskIds", accept=accept, open=open_stream)
