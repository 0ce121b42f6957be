"""A response that stays open until its client goes, or we end it; and the one clock for all.

Many of them are idle for hours, so an open stream costs no task of its own: the task which the
ASGI server made for the request waits for the client to go, and what is to be sent is sent by a
task that lives as long as the sending.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.protocol import sse
from django_mcp.pubsub import bus
from django_mcp.transports.http.request import HttpError, Receive
from django_mcp.transports.http.response import STREAM_HEADERS, Send

logger = logging.getLogger("django_mcp")

Reauthenticate = Callable[[], Awaitable[Principal]]
"""Finds out once more who calls; raises Refused when she may call no longer."""

TICK = 15.0
"""Seconds between two looks at all streams, where no keep-alive is wanted."""
CHECK_AFTER = 60.0
"""Seconds between two looks whether the caller may still listen."""
MAX_BUFFERED = 1024 * 1024
"""Bytes that may wait for a client which does not read; then its stream is ended."""


class SseStream:
    """One response which stays open. A sibling says what is written to it."""

    __slots__ = (
        "_checked_at",
        "_ending",
        "_pump",
        "_receive",
        "_reauthenticate",
        "_send",
        "_started",
        "_task",
        "_waiting",
        "gone",
        "principal",
    )

    def __init__(
        self, send: Send, receive: Receive, *, principal: Principal, reauthenticate: Reauthenticate
    ) -> None:
        self.principal = principal
        self.gone = False
        """Whether nothing can be sent any more."""
        self._send = send
        self._receive = receive
        self._reauthenticate = reauthenticate
        self._task: asyncio.Task[Any] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._waiting = b""
        self._started = False
        self._ending = False
        self._checked_at = asyncio.get_running_loop().time()

    # Writing.

    def write(self, events: bytes) -> None:
        """Send events, soon; a client that does not read them loses its stream."""
        if self.gone:
            return
        if len(self._waiting) > MAX_BUFFERED:
            logger.warning("A client does not read its stream, which is ended")
            self._waiting = b""
            self.end()
            return
        self._waiting += events
        if self._pump is None:
            self._pump = asyncio.ensure_future(self._drain())

    @property
    def is_stuck(self) -> bool:
        """Whether what was written before has not been taken yet."""
        return self.gone or self._pump is not None

    async def flush(self) -> None:
        """Wait until everything written so far has been handed to the server."""
        while self._pump is not None:
            await asyncio.shield(self._pump)

    async def _drain(self) -> None:
        try:
            if not self._started:
                self._started = True
                start = {"type": "http.response.start", "status": 200}
                await self._send({**start, "headers": [*STREAM_HEADERS]})
            while self._waiting:
                body, self._waiting = self._waiting, b""
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        except OSError:
            self.gone = True  # Some servers say so when their client has gone.
        finally:
            self._pump = None

    # Staying open.

    async def hold(self) -> None:
        """Wait until the client goes, or ``end`` is called."""
        streams = _streams_here()
        self._task = asyncio.current_task()
        streams.add(self)
        try:
            while not self._ending and (await self._receive())["type"] != "http.disconnect":
                pass
            self.gone = not self._ending
        except asyncio.CancelledError:
            if not self._ending or self._task is None:
                self.gone = True
                raise
            self._task.uncancel()
        finally:
            self._task = None
            streams.discard(self)

    def end(self) -> None:
        """Let ``hold`` return, so that the response is ended from here."""
        if not self._ending:
            self._ending = True
            if self._task is not None:
                self._task.cancel()

    async def finish(self, last: bytes = b"") -> None:
        """Send the last event, and with it the end of the response."""
        await self.flush()
        if not self.gone:
            self.gone = True
            await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def beat(self, now: float, *, sign: bool) -> None:
        """One look: give a sign of life, and see now and then whether all is still well."""
        if sign and self._started:
            self.write(sse.KEEP_ALIVE)
        if now - self._checked_at >= _tick_interval(CHECK_AFTER):
            self._checked_at = now
            bus.spawn(self.check())

    async def check(self) -> None:
        """End the stream of a caller who may not call any more."""
        try:
            principal = await self._reauthenticate()
        except HttpError:
            self.end()
            return
        if principal.key == self.principal.key:
            self.principal = principal
        else:
            self.end()


class _Streams:
    """The open streams of an event loop, and the timer that looks at them all.

    While there are none it keeps no reference to its loop, by whose end it is forgotten.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._streams: dict[SseStream, None] = {}
        self.counts: Counter[tuple[type, str]] = Counter()

    def add(self, stream: SseStream) -> None:
        self._streams[stream] = None
        self.counts[type(stream), stream.principal.key] += 1
        if self._timer is None:
            self._schedule()

    def discard(self, stream: SseStream) -> None:
        self._streams.pop(stream, None)
        key = type(stream), stream.principal.key
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        if not self._streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> int:
        streams = tuple(self._streams)
        for stream in streams:
            stream.end()
        return len(streams)

    def _schedule(self) -> None:
        interval = _tick_interval(conf.get().sse_ping_interval or TICK)
        self._timer = asyncio.get_running_loop().call_later(interval, self._beat)

    def _beat(self) -> None:
        self._schedule()
        now, sign = asyncio.get_running_loop().time(), conf.get().sse_ping_interval is not None
        for stream in tuple(self._streams):
            stream.beat(now, sign=sign)


def _tick_interval(seconds: float) -> float:
    """The interval, or a shorter one: an open stream must not let its session expire."""
    return min(seconds, conf.get().session_idle_timeout / 3)


_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, _Streams] = WeakKeyDictionary()


def _streams_here() -> _Streams:
    loop = asyncio.get_running_loop()
    streams = _streams.get(loop)
    if streams is None:
        streams = _streams[loop] = _Streams()
    return streams


def count(kind: type[SseStream], principal: Principal) -> int:
    """How many streams of this kind the principal has open on the running event loop."""
    return _streams_here().counts[kind, principal.key]


def end_all() -> int:
    """End every open stream of the running event loop, each in its own way; how many there were."""
    return _streams_here().end()
