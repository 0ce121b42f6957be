"""``events/stream``: a stream of the events that follow a position.

A stream looks at the table when a hint says that something was committed, and every READ seconds,
because hints may be lost. It sends a heartbeat when nothing else was sent for a while.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from django_mcp import Frame, McpError
from django_mcp.contrib.events import errors, occurrences, outbox, recipients
from django_mcp.contrib.events.declaration import EventComponent
from django_mcp.contrib.events.methods import polling
from django_mcp.contrib.events.methods.polling import StreamParams
from django_mcp.contrib.events.recipients import Terminated
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol.errors import InternalError
from django_mcp.extensions import Serve, Stream
from django_mcp.pubsub import bus

READ = 5.0
"""Seconds between two looks at the table without a hint."""
RENEW = 60.0
"""Seconds until the interest of a stream is renewed."""
HEARTBEAT = 20.0
"""Seconds between two heartbeats; the draft demands one in 30 seconds."""
AT_ONCE = 50
"""Occurrences that are read at once."""
ACTIVE = "notifications/events/active"
EVENT = "notifications/events/event"
HEARTBEAT_METHOD = "notifications/events/heartbeat"
ERROR = "notifications/events/error"
TERMINATED = "notifications/events/terminated"
LIST_CHANGED = "notifications/events/list_changed"
NOTIFICATIONS = (ACTIVE, EVENT, HEARTBEAT_METHOD, ERROR, TERMINATED, LIST_CHANGED)


@polling.outside_transactions
async def stream(params: StreamParams, frame: Frame) -> Serve:
    """Accept a stream; raises McpError for an invalid one."""
    component = await recipients.find_event(frame, params.name, "push")
    arguments = component.event.read_arguments(params.arguments)
    start = polling.position_of(frame, params)
    await polling.begin(frame, component)
    if start is None:
        start = await polling.in_thread(frame, occurrences.last_position)
    return EventStream(component, arguments, params, start).serve


class EventStream:
    """One open stream, at its position."""

    def __init__(
        self, component: EventComponent, arguments: Any, params: StreamParams, position: int
    ) -> None:
        self._component = component
        self._arguments = arguments
        self._max_age = params.max_age
        self._position = position
        self._has_news = asyncio.Event()
        self._is_active = False
        self._sent_at = 0.0
        self._renewed_at = asyncio.get_running_loop().time()

    async def serve(self, to: Stream) -> None:
        """Send events until the subscriber may not have them any more."""
        await bus.here().subscribe(outbox.GROUP, self._receive)
        try:
            while True:
                await self._send_following(to)
                is_due = asyncio.get_running_loop().time() - self._sent_at >= HEARTBEAT
                if self._is_active and is_due:
                    self._send(to, HEARTBEAT_METHOD, self._cursor(to, self._position))
                with suppress(TimeoutError):  # A hint may be lost: it looks again in any case.
                    async with asyncio.timeout(READ):
                        await self._has_news.wait()
                self._has_news.clear()
        except Terminated as ended:
            to.send(TERMINATED, {"error": ended.to_json()})
        finally:
            bus.here().unsubscribe(outbox.GROUP, self._receive)

    def _receive(self, message: bus.Message) -> None:
        server = self._component.event.server
        if server is not None and message == {"server": server.name, "event": self._component.name}:
            self._has_news.set()

    async def _send_following(self, to: Stream) -> None:
        """Send the events after the position, in batches; an error passes."""
        has_more = True
        while has_more:
            try:
                frame = await recipients.with_current_user(to.frame)
                component = await recipients.ask_again(frame, self._component.name, "push")
                now = asyncio.get_running_loop().time()
                if now >= self._renewed_at + RENEW:
                    self._renewed_at = now
                    await polling.begin(frame, component)
                batch, described = await polling.in_thread(frame, self._read, frame, component)
            except Terminated:
                raise
            except McpError as error:
                self._fail(to, error)
                return
            except Exception as error:
                log_repeated(logging.ERROR, "Events of a stream cannot be read", exc_info=error)
                self._fail(to, InternalError())
                return
            if not self._is_active or batch.is_truncated:
                # At the beginning, and again where events are missing.
                self._is_active = True
                active = {**self._cursor(to, self._position), "truncated": batch.is_truncated}
                self._send(to, ACTIVE, active)
            for occurrence, event in zip(batch.occurrences, described, strict=True):
                if event is not None:
                    self._send(to, EVENT, {**event, **self._cursor(to, occurrence.position or 0)})
            self._position = batch.position
            has_more = batch.has_more

    def _read(
        self, frame: Frame, component: EventComponent
    ) -> tuple[occurrences.Batch, list[dict[str, Any] | None]]:
        max_age = None if self._is_active else self._max_age
        batch = polling.after(frame, component, self._position, AT_ONCE, max_age)
        described = recipients.describe(component, self._arguments, frame, batch.occurrences)
        return batch, described

    def _fail(self, to: Stream, error: McpError) -> None:
        if self._is_active:
            code = errors.codes().get(error.reason, -32603)
            self._send(to, ERROR, {"error": {"code": code, "message": error.message}})

    def _cursor(self, to: Stream, position: int) -> dict[str, Any]:
        return {"cursor": occurrences.cursor_of_frame(to.frame, self._component.name, position)}

    def _send(self, to: Stream, method: str, params: dict[str, Any]) -> None:
        to.send(method, params)
        self._sent_at = asyncio.get_running_loop().time()
