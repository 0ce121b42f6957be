"""The open SSE streams of a process: their limits, their timer, and their end.

A stream counts for its caller, and under WSGI for the threads of the server. One that is too many
is rejected by 429, with ``Retry-After``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from django_mcp import conf
from django_mcp.core.concurrency.loops import PerLoop
from django_mcp.core.protocol.errors import TooManyRequests
from django_mcp.transports.http.request import HeaderPairs

if TYPE_CHECKING:
    from django_mcp.transports.http.long_lived_stream import SseStream

TICK = 15.0
"""Seconds between two ticks if SSE_PING_INTERVAL is None."""
LOOK_AGAIN = 0.05
"""Seconds between two looks at busy streams of a process that ends."""
MAX_STREAMS = 1000
"""Open streams of one kind and one caller in a process: an agent may have one for each of its
sessions, and the anonymous callers behind one proxy may count as one caller."""


TOO_MANY = "Too many streams are open: close one of them first"
RETRY_AFTER = 2
"""Seconds until a rejected stream may be requested again."""
RETRY_HEADERS: HeaderPairs = ((b"retry-after", b"%d" % RETRY_AFTER),)
PROBES = (0.0, 0.5, 1.0)
"""Seconds after which the streams of a WSGI server are written to, when one has no thread. The
first write to a client that has gone succeeds, and its network answers that it has gone."""


class TooManyStreams(TooManyRequests):
    """The caller has as many streams as it may have, or a WSGI server has no thread for another."""

    default_message = TOO_MANY
    retry_after = RETRY_AFTER


class OpenStreams:
    """The open streams of an event loop, and one timer for them.

    It has no reference to them while none is open.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._pinged_at = 0.0
        self.streams: dict[SseStream, None] = {}
        self._ending: asyncio.TimerHandle | None = None
        self._probed_at = 0.0
        self.are_ending = False
        """Whether the process ends, and each stream with it."""
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, stream: SseStream) -> None:
        self.streams[stream] = None
        self.counts[stream.kind, stream.counted_as] += 1
        if self._timer is None:
            self._schedule()

    def has_thread_for(self, stream: SseStream) -> bool:
        """Whether WSGI_STREAMS admits the stream, if it would occupy a thread of the server."""
        if not stream.occupies_thread:
            return True
        occupied = sum(1 for each in self.streams if each.occupies_thread)
        return occupied < conf.get().wsgi_streams

    def probe(self) -> None:
        """Write to the streams that occupy threads, so that they end if their clients have gone.

        A WSGI server notices that a client has gone when it writes, and keeps the thread till then.
        """
        loop = asyncio.get_running_loop()
        if self._probed_at and loop.time() - self._probed_at < PROBES[-1]:
            return
        self._probed_at = loop.time()
        for stream in tuple(self.streams):
            if stream.occupies_thread:
                for delay in PROBES:
                    loop.call_later(delay, stream.probe)

    def discard(self, stream: SseStream) -> None:
        self.streams.pop(stream, None)
        key = stream.kind, stream.counted_as
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        if not self.streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end_idle(self) -> None:
        """End each stream that is not busy, and the others as soon as they are not."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        for stream in tuple(self.streams):
            if not stream.is_busy:
                stream.end()
        if self.streams and self.are_ending:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(LOOK_AGAIN, self.end_idle)

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(tick_interval(), self._tick)

    def _tick(self) -> None:
        self._schedule()
        now = asyncio.get_running_loop().time()
        interval = conf.get().sse_ping_interval
        # This tick, if it is nearer to the interval than the next one.
        ping = interval is not None and now - self._pinged_at > interval - tick_interval() / 2
        if ping:
            self._pinged_at = now
        for stream in tuple(self.streams):
            stream.tick(now, ping=ping)


def tick_interval() -> float:
    return bounded(min(conf.get().sse_ping_interval or TICK, TICK))


def bounded(seconds: float) -> float:
    """The interval, or a shorter one: an open stream must not let its session expire."""
    return min(seconds, conf.get().session_idle_timeout / 3)


here = PerLoop(OpenStreams).here
"""The open streams of the running event loop."""


def end_all() -> int:
    """End all streams now; return how many there were."""
    streams = tuple(here().streams)
    for stream in streams:
        stream.end()
    return len(streams)


def set_ending(*, are_ending: bool) -> None:
    """Whether streams end because the process does: those that are open, and later ones."""
    streams = here()
    streams.are_ending = are_ending
    if are_ending:
        streams.end_idle()
