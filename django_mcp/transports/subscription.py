"""The state of one listen stream, over every transport: its filter and its messages.

A method of an extension may open a stream as well, which a function of its own writes to.

| state | meaning | who moves it |
|---|---|---|
| new | it subscribes, and reads its tasks; changes are not sent | ``open``, at its end: open |
| open | changes are sent | ``close``: closed |
| closed | nothing is sent | nobody |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.frame import Frame
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, subscriptions, tasks
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.protocol.tasks import FINAL, Task
from django_mcp.core.server.extensions import INSTALLED, Serve
from django_mcp.core.server.server import server_of
from django_mcp.core.server.tasks import TASKS
from django_mcp.pubsub import announcements, bus, publisher
from django_mcp.pubsub.coalescing import Coalescer
from django_mcp.runtime import background

Write = Callable[[bytes], None]


def of(
    frame: Frame, wanted: Filter | Serve, write: Write, end: Callable[[], object]
) -> Subscription | ServedStream:
    """The state of the stream that a request opens; ``end`` ends it for the server."""
    if isinstance(wanted, Filter):
        return Subscription(frame, wanted, write)
    return ServedStream(frame, wanted, write, end)


class ServedStream:
    """A stream of which a function of an extension sends the notifications."""

    def __init__(self, frame: Frame, serve: Serve, write: Write, end: Callable[[], object]) -> None:
        self.frame = frame
        self._serve = serve
        self._write = write
        self._end = end
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the function; ``close`` must follow, also after a cancellation."""
        self._task = background.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._serve(self)
        finally:
            self._end()

    def send(self, method: str, params: Json, /) -> None:
        meta = {**(params.get("_meta") or {}), **subscriptions.meta(self.frame.request_id)}
        self._write(jsonrpc.encode(jsonrpc.notification(method, {**params, "_meta": meta})))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def reauthenticated(self, principal: Principal) -> None:
        self.frame = replace(self.frame, user=principal.user, auth=principal)


READ_TASKS = 4.0
"""Seconds between two reads of the tasks of a stream: hints of their changes may be lost."""


class Subscription:
    def __init__(self, frame: Frame, wanted: Filter, write: Callable[[bytes], None]) -> None:
        self._frame = frame
        self._wanted = wanted
        self._write = write
        self._id = subscriptions.encoded_id(frame.request_id)
        self._is_open = False
        self._groups: list[str | None] = []
        self._coalescer = Coalescer(self._send_soon)
        self._states: dict[str, tuple[Any, ...]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._closers: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Subscribe and acknowledge; ``close`` must follow, also after a cancellation."""
        # The stream may be open for days, and its request may be large. The coroutines that wait
        # for its end refer to the parameters too, so they are cleared, not replaced.
        cast("dict[str, Any]", self._frame.message.params).clear()
        # In this order: once the client reads this, later notifications are sent to it.
        server = server_of(self._frame)
        # Changes of lists are announced without a URI.
        groups: list[str | None] = [None] if self._wanted.lists else []
        groups += self._wanted.uris
        for uri in groups:
            self._groups.append(uri)
            await announcements.here().subscribe(server, uri, self._receive)
        for task_id in self._wanted.tasks:
            await bus.here().subscribe(publisher.of_task(task_id), self._receive)
            await self._changed_task(task_id)
        if self._wanted.tasks:
            self._reading = background.create_task(self._read_tasks())
        for name, values in self._wanted.of_extensions.items():
            _, listen_filter = INSTALLED.filters[name]
            self._closers.append(await listen_filter.open(self._frame, values, self._notify))
        acknowledgement = subscriptions.acknowledgement(self._frame.request_id, self._wanted)
        self._write(jsonrpc.encode(acknowledgement))
        self._is_open = True
        # A task that ended before the client could listen changes no more.
        for task_id, state in tuple(self._states.items()):
            if state[0] in FINAL:
                await self._changed_task(task_id, is_hint=True)

    def close(self) -> None:
        self._is_open = False
        self._coalescer.close()
        for uri in self._groups:
            announcements.here().unsubscribe(server_of(self._frame), uri, self._receive)
        self._groups.clear()
        for task_id in self._wanted.tasks:
            bus.here().unsubscribe(publisher.of_task(task_id), self._receive)
        if self._reading is not None:
            self._reading.cancel()
        for close in self._closers:
            close()
        self._closers.clear()

    def reauthenticated(self, principal: Principal) -> None:
        self._frame = replace(self._frame, user=principal.user, auth=principal)

    def _receive(self, message: bus.Message) -> None:
        if "task" in message:
            background.spawn(self._send_task(message["task"]))
            return
        method = message["method"]
        uri = message.get("uri")
        if uri is not None or method in self._wanted.methods:
            self._coalescer.add((method, uri))

    def _send_soon(self, change: Any) -> None:
        method, uri = change
        if uri is None:
            self._send(method, None)
        else:
            background.spawn(self._send_update(method, uri))

    async def _send_update(self, method: str, uri: str) -> None:
        """Send an update of a resource, if the client may still read it (SUB-11)."""
        if await visibility.is_readable(self._frame, uri):
            self._send(method, uri)

    async def _send_task(self, task_id: str) -> None:
        """Send the present state of a task, if it still belongs to the caller (TASK-19)."""
        await self._changed_task(task_id, is_hint=True)

    async def _read_tasks(self) -> None:
        """Read the tasks which have not ended, in case a hint was lost."""
        while active := self._active_tasks():
            await asyncio.sleep(READ_TASKS)
            for task_id in active:
                try:
                    await self._changed_task(task_id)
                except Exception:
                    text = "The tasks of a stream cannot be read; trying again"
                    log_repeated(logging.ERROR, text, exc_info=True)

    def _active_tasks(self) -> list[str]:
        return [task_id for task_id, state in self._states.items() if state[0] not in FINAL]

    async def _changed_task(self, task_id: str, *, is_hint: bool = False) -> None:
        """Read a task, and send it after a hint, or if it has changed."""
        task: Task | None = await TASKS.get().get(self._frame, task_id)
        if task is None:
            self._states.pop(task_id, None)
            return
        state = task.status, task.updated_at, task.progress, task.message
        is_changed = self._states.get(task_id, state) != state
        self._states[task_id] = state
        if self._is_open and (is_changed or is_hint):
            meta = subscriptions.meta(self._frame.request_id)
            params = {**tasks.detailed(task), "_meta": meta}
            self._write(jsonrpc.encode(jsonrpc.notification(tasks.LISTEN_NOTIFICATION, params)))

    def _notify(self, method: str, params: Json) -> None:
        """Send a notification of an extension."""
        if self._is_open:
            of_stream = subscriptions.meta(self._frame.request_id)
            meta = {**(params.get("_meta") or {}), **of_stream}
            self._write(jsonrpc.encode(jsonrpc.notification(method, {**params, "_meta": meta})))

    def _send(self, method: str, uri: str | None) -> None:
        # Nothing may be sent before the acknowledgement (SUB-01).
        if self._is_open:
            self._write(subscriptions.change_notification(method, uri, self._id))
