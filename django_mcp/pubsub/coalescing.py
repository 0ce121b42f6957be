"""Merging equal notifications of one stream to its client which follow each other closely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

INTERVAL = 0.1
"""Seconds: a stream sends equal notifications once within them."""
MAX_REMEMBERED = 1000
"""Notifications of one stream whose last times are remembered, before old ones are dropped."""


class Coalescer:
    """Sends a notification at once, and its repetitions as one at the end of the interval.

    The last one is never dropped: after it, a client reads the present state.
    """

    def __init__(self, send: Callable[[Hashable], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._sent_at: dict[Hashable, float] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def add(self, key: Hashable) -> None:
        if key in self._timers:
            return
        now = self._loop.time()
        due = self._sent_at.get(key, 0.0) + INTERVAL
        # Most are not repeated, and a timer for each takes a tenth of the time of a fan-out.
        if due <= now:
            self._send_at(now, key)
        else:
            self._timers[key] = self._loop.call_at(due, self._end, key)

    def close(self) -> None:
        """Send nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _send_at(self, now: float, key: Hashable) -> None:
        if len(self._sent_at) >= MAX_REMEMBERED:
            recent = now - INTERVAL
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[key] = now
        self._send(key)

    def _end(self, key: Hashable) -> None:
        del self._timers[key]
        self._send_at(self._loop.time(), key)
