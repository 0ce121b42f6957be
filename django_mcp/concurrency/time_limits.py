"""Time limits for waits that nearly always end at once, with one timer for all of an event loop.

``asyncio.timeout`` makes a timer for each wait: 3.5 µs, a twentieth of a call over HTTP. A limit
here is a row of a table, at which one timer looks every second while there are rows.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from django_mcp.concurrency.loops import PerLoop

PRECISION = 1.0
"""Seconds by which a wait may be longer than its limit."""


class Limited:
    """``with Limited(seconds)`` raises TimeoutError in the task that waits longer."""

    __slots__ = ("_cancellations", "_limits", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._cancellations: int | None = None
        """How often the task had been cancelled before this cancelled it, if it did."""

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._limits = _limits.of(loop)
        self._limits.expiry[self] = loop.time() + self._seconds
        if not self._limits.is_ticking:
            self._limits.tick(loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._limits.expiry.pop(self, None)
        if self._cancellations is None or self._task is None:
            return
        remaining = self._task.uncancel()
        # Whoever else has cancelled the task meanwhile is obeyed.
        if kind is asyncio.CancelledError and remaining <= self._cancellations:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task that waits."""
        if self._task is not None:
            self._cancellations = self._task.cancelling()
            self._task.cancel()


class _Limits:
    """The limits of one event loop. It has no reference to the loop, so that both can be freed."""

    def __init__(self) -> None:
        self.expiry: dict[Limited, float] = {}
        """The time of the loop at which each limit expires."""
        self.is_ticking = False

    def tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let limits expire, now and every second, until there are none."""
        now = loop.time()
        late = [limit for limit, time in self.expiry.items() if time <= now]
        for limit in late:
            del self.expiry[limit]
            limit.expire()
        self.is_ticking = bool(self.expiry)
        if self.is_ticking:
            loop.call_later(PRECISION, self.tick, loop)


_limits = PerLoop(_Limits)
