"""The calls that are answered now: their timer, and their bounds by caller and by process.

| state | meaning | who moves it |
|---|---|---|
| few | calls have only to be fewer than a bound | ``begin`` at the bound: counted; ``close`` |
| counted | each call counts for its caller, who may have too many | the last call: few; ``close`` |
| closed | further calls are rejected, except on connections | ``open``: counted |
"""

from __future__ import annotations

import asyncio
from collections import Counter

from django_mcp.core.concurrency.loops import PerLoop
from django_mcp.core.frame.exchange import Exchange
from django_mcp.core.frame.transport import caller_key
from django_mcp.core.protocol.errors import ServerBusy, ServerStopping, TooManyRequests

TICK = 0.05
"""Seconds between two ticks of a call."""
MAX_PER_PROCESS = 1000
"""Calls of all callers in one process. Each takes memory while it waits; another process, or the
same one a moment later, answers sooner than one that has so many."""


class CallsInFlight:
    """The calls that are answered on one event loop: their timer, and their bounds.

    They are counted by caller only while there are many. It has no reference to its loop, so that
    both can be collected.
    """

    def __init__(self) -> None:
        self.calls: dict[Exchange, None] = {}
        self.arriving: dict[Exchange, None] = {}
        """The calls whose body has not arrived yet. They count for nobody."""
        self._counts: Counter[str] | None = None
        self.is_ticking = False
        self._is_closed = False

    def start_ticking(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look after ``calls`` and ``arriving``, until there are none."""
        self.is_ticking = True
        loop.call_later(TICK, self._tick, loop)

    def begin(self, call: Exchange, most: int, loop: asyncio.AbstractEventLoop) -> None:
        """Add a call; ``most`` are the calls of one caller.

        Raises TooManyRequests, ServerBusy and ServerStopping.
        """
        count = len(self.calls)
        if self._counts is not None or count >= most or count >= MAX_PER_PROCESS:
            self._count(call, most)
        self.calls[call] = None
        if not self.is_ticking:
            self.start_ticking(loop)

    def end(self, call: Exchange) -> None:
        del self.calls[call]
        if self._counts is not None:
            self._discount(call)

    def close(self) -> None:
        """Reject further calls, because the process ends."""
        self._is_closed = True
        # Each call is then counted, where it is rejected: others do not look at a flag.
        self._counts = self._counts or Counter(map(_caller, self.calls))

    def open(self) -> None:
        """Accept calls again."""
        self._is_closed = False

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_ticking = bool(self.calls or self.arriving)
        if self.is_ticking:
            loop.call_later(TICK, self._tick, loop)
        for call in tuple(self.calls):
            call.tick()
        for call in tuple(self.arriving):
            call.tick_while_arriving()

    def _count(self, call: Exchange, most: int) -> None:
        if self._is_closed and not call.is_bound_here:
            raise ServerStopping
        if len(self.calls) >= MAX_PER_PROCESS:
            raise ServerBusy
        if self._counts is None:
            self._counts = Counter(map(_caller, self.calls))
        caller = _caller(call)
        if self._counts[caller] >= most:
            raise TooManyRequests
        self._counts[caller] += 1

    def _discount(self, call: Exchange) -> None:
        caller = _caller(call)
        counts = self._counts
        assert counts is not None
        counts[caller] -= 1
        if not counts[caller]:
            del counts[caller]
        if not self.calls and not self._is_closed:
            self._counts = None


def _caller(call: Exchange) -> str:
    if call.counted_as is None:
        call.counted_as = caller_key(call.principal, call.transport)
    return call.counted_as


calls_in_flight = PerLoop(CallsInFlight).of
