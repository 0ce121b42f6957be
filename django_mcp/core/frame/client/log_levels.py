"""Log levels of RFC 5424, their spellings, and the limit on log messages per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

NAMES = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVELS: Mapping[str, int] = {name: severity for severity, name in enumerate(NAMES)}
"""The levels, least severe first."""

LEAST_SEVERE = "debug"

ALIASES: Mapping[str, str] = {"warn": "warning", "fatal": "critical"}
"""Other spellings, from the seeds, which authors and clients may use in any case."""


def level_name(spelling: str) -> str | None:
    name = ALIASES.get(spelling.lower(), spelling.lower())
    return name if name in LEVELS else None


class LogRateLimiter:
    """Limits log messages per second; messages above the limit are dropped. Thread-safe."""

    def __init__(self, per_second: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._now = now
        self._lock = threading.Lock()
        self._ends = 0.0
        self._left = 0

    def take(self) -> bool:
        """Count one message and return whether it may be sent."""
        with self._lock:
            now = self._now()
            if now >= self._ends:
                self._ends = now + 1
                self._left = self._per_second
            self._left -= 1
            return self._left >= 0
