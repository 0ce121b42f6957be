"""An SSE response which stays open until either side closes it, and one timer for all of them.

Many are idle for hours, so an open stream has no task of its own: that of its request waits for
the disconnect, and another one exists only while events are sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.concurrency.loops import PerLoop
from django_mcp.log import log_repeated
from django_mcp.protocol import sse
from django_mcp.runtime import background, request_scope
from django_mcp.server.server import Server
from django_mcp.transports import frames
from django_mcp.transports.http.request import HttpError, HttpRequest
from django_mcp.transports.http.response import STALLED, STREAM_HEADERS, Send

TICK = 15.0
"""Seconds between two ticks if SSE_PING_INTERVAL is None."""
CHECK_AFTER = 60.0
"""Seconds within which an open stream is re-authenticated."""
CHECK_TIMEOUT = 30.0
"""Seconds which that may take."""
LOOK_AGAIN = 0.05
"""Seconds between two looks at busy streams of a process that ends."""
MAX_STREAMS = 1000
"""Open streams of one kind and one caller in a process: an agent may have one for each of its
sessions, and the anonymous callers behind one proxy may count as one caller."""
MAX_BUFFERED = 1024 * 1024
"""Bytes that may wait for a client which does not read. Its stream is then closed."""


@dataclass(slots=True)
class AuthenticatedRequest:
    request: HttpRequest
    send: Send
    principal: Principal
    reauthenticate: Callable[[], Awaitable[Principal]]
    """Authenticates the request again; raises HttpError if access was revoked."""
    server: Server

    @property
    def counted_as(self) -> str:
        """By what the open streams of the caller are counted."""
        transport = self.request.caller(self.principal).transport
        return frames.counted_as(self.server, self.principal, transport)


class SseStream:
    kind: ClassVar[str]
    """Streams of one kind are counted together."""

    def __init__(self, http: AuthenticatedRequest) -> None:
        self.principal = http.principal
        self.counted_as = http.counted_as
        self.gone = False
        """Whether nothing can be sent any more."""
        self._send = http.send
        self._receive = http.request.receive
        self._reauthenticate = http.reauthenticate
        self._task: asyncio.Task[Any] | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task of the request, up to the end of the response."""
        self._pump: asyncio.Task[None] | None = None
        self._waiting = b""
        self._sending_since: float | None = None
        self._started = False
        self._ending = False
        self._loop = asyncio.get_running_loop()
        self._checked_at = self._loop.time()
        self._is_checking = False
        self.is_denied = False
        """Whether the caller may be sent nothing more."""

    def enqueue(self, events: bytes) -> None:
        """Send events soon; the stream of a client that does not read them is closed."""
        if self.gone or self.is_denied:
            return
        if len(self._waiting) > MAX_BUFFERED:
            self._cut_off()
            return
        self._waiting += events
        self._start_draining()

    def _start_draining(self) -> None:
        if self._pump is None and self._waiting and not self._is_checking:
            self._pump = asyncio.ensure_future(self._drain())

    def _cut_off(self) -> None:
        text = "A stream is closed because its client does not read it"
        log_repeated(logging.WARNING, text)
        self._waiting, self.gone = b"", True
        if self._pump is not None and self._sending_since is not None:
            self._pump.cancel()
        self.end()

    @property
    def buffered(self) -> int:
        """Bytes that wait for the client."""
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether what the stream carries has to be finished before the process may end it."""
        return False

    @property
    def is_stuck(self) -> bool:
        return self.gone or self._pump is not None

    async def flush(self) -> None:
        while self._pump is not None:
            await asyncio.shield(self._pump)

    async def _drain(self) -> None:
        try:
            self._sending_since = self._loop.time()
            if not self._started:
                self._started = True
                start = {"type": "http.response.start", "status": 200}
                await self._send({**start, "headers": [*STREAM_HEADERS]})
            while self._waiting and not self._is_checking:
                body, self._waiting = self._waiting, b""
                self._sending_since = self._loop.time()
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        except OSError:
            self.gone = True  # Some servers raise this after a disconnect.
        except asyncio.CancelledError:
            if not self.gone:  # Otherwise ``_cut_off`` did it.
                raise
        finally:
            self._pump = self._sending_since = None

    @contextmanager
    def open_within(self, limit: int, rejection: Exception) -> Iterator[None]:
        """Count the stream as open; raises ``rejection`` if its caller has ``limit`` of its kind.

        ``tick`` and ``end_all`` reach the stream within the block.
        """
        streams = _streams_here()
        if streams.counts[self.kind, self.counted_as] >= limit:
            raise rejection
        streams.add(self)
        self.task = asyncio.current_task()
        if streams.are_ending:
            streams.end_idle()
        try:
            yield
        finally:
            streams.discard(self)

    async def wait_until_closed(self) -> None:
        """Wait until the client disconnects or ``end`` is called."""
        self._task = asyncio.current_task()
        try:
            await request_scope.release_thread()
            while not self._ending and (await self._receive())["type"] != "http.disconnect":
                pass
            self.gone |= not self._ending
        except asyncio.CancelledError:
            if not self._ending or self._task is None:
                self.gone = True
                raise
            self._task.uncancel()
        finally:
            self._task = None

    def end(self) -> None:
        """Let ``wait_until_closed`` return, so that the response can be finished."""
        if not self._ending:
            self._ending = True
            if self._task is not None:
                self._task.cancel()

    async def finish(self, last: bytes = b"") -> None:
        await self.flush()
        if not self.gone:
            self.gone = True
            with suppress(OSError):  # The client may have disconnected.
                await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def tick(self, now: float, *, ping: bool) -> None:
        """Send a keepalive comment if ``ping``, and check the stream within every minute."""
        if self._sending_since is not None and now - self._sending_since > STALLED:
            self._cut_off()
            return
        if ping and self._started:
            self.enqueue(sse.KEEP_ALIVE)
        # At this tick, if the next one would be too late.
        is_due = now - self._checked_at > _bounded(CHECK_AFTER) - _tick_interval()
        if is_due and not self._is_checking:
            self._checked_at = now
            background.spawn(self.check())

    async def check(self) -> None:
        """End the stream unless its caller is authenticated again; until then nothing is sent."""
        self._is_checking = True
        self.is_denied = not await self._is_authenticated()
        self._is_checking = False
        if self.is_denied:
            self._waiting = b""
            self.end()
        else:
            self._start_draining()

    async def _is_authenticated(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                principal = await self._reauthenticate()
        except HttpError:
            return False
        except Exception:
            text = "A stream is closed because its caller cannot be authenticated"
            log_repeated(logging.ERROR, text, exc_info=True)
            return False
        if principal.key != self.principal.key:
            return False
        self.principal = principal
        return True


class _Streams:
    """The streams of an event loop, to which it has no reference while none is open."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._pinged_at = 0.0
        self._streams: dict[SseStream, None] = {}
        self._ending: asyncio.TimerHandle | None = None
        self.are_ending = False
        """Whether the process ends, and each stream with it."""
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, stream: SseStream) -> None:
        self._streams[stream] = None
        self.counts[stream.kind, stream.counted_as] += 1
        if self._timer is None:
            self._schedule()

    def discard(self, stream: SseStream) -> None:
        self._streams.pop(stream, None)
        key = stream.kind, stream.counted_as
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        if not self._streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end_idle(self) -> None:
        """End each stream that is not busy, and the others as soon as they are not."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        for stream in tuple(self._streams):
            if not stream.is_busy:
                stream.end()
        if self._streams and self.are_ending:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(LOOK_AGAIN, self.end_idle)

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_tick_interval(), self._tick)

    def _tick(self) -> None:
        self._schedule()
        now, interval = asyncio.get_running_loop().time(), conf.get().sse_ping_interval
        # This tick, if it is nearer to the interval than the next one.
        ping = interval is not None and now - self._pinged_at > interval - _tick_interval() / 2
        self._pinged_at = now if ping else self._pinged_at
        for stream in tuple(self._streams):
            stream.tick(now, ping=ping)


def _tick_interval() -> float:
    return _bounded(min(conf.get().sse_ping_interval or TICK, TICK))


def _bounded(seconds: float) -> float:
    """The interval, or a shorter one: an open stream must not let its session expire."""
    return min(seconds, conf.get().session_idle_timeout / 3)


_streams = PerLoop(_Streams)


def _streams_here() -> _Streams:
    return _streams.of(asyncio.get_running_loop())


def open_streams() -> tuple[SseStream, ...]:
    """The streams that are open on this event loop."""
    return tuple(_streams_here()._streams)


def end_all() -> int:
    """End all streams now; return how many there were."""
    streams = open_streams()
    for stream in streams:
        stream.end()
    return len(streams)


def set_ending(*, are_ending: bool) -> None:
    """Whether streams end because the process does: those that are open, and later ones."""
    streams = _streams_here()
    streams.are_ending = are_ending
    if are_ending:
        streams.end_idle()
