"""Messages of this package that may repeat, such as those of a store that fails."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

OWN = "django_mcp"
"""The logger of this package."""

REPEAT_AFTER = 60.0
"""Seconds within which a message that repeats is logged once, and then its count."""


class RepeatedMessages:
    """Logs a message at once, its repetitions within a minute as one line with their number.

    A message is known by its level and its text before formatting, so that the number of messages
    is bounded by the code. One thread at most exists, and only while there is something to count.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._logged_at: dict[tuple[int, str], float] = {}
        self._counts: dict[tuple[int, str], int] = {}
        self._timer: threading.Timer | None = None

    def log(self, level: int, message: str, *args: Any, times: int = 1, **options: Any) -> None:
        """Log ``message % args``; ``times`` says how often it happened, the rest is logging's."""
        key = (level, message)
        now = time.monotonic()
        with self._guard:
            logged_at = self._logged_at.get(key)
            is_first = logged_at is None or now - logged_at >= REPEAT_AFTER
            is_first = is_first and key not in self._counts
            if is_first:
                self._logged_at[key] = now
            if times > is_first:
                self._counts[key] = self._counts.get(key, 0) + times - is_first
                if self._timer is None:
                    self._timer = threading.Timer(REPEAT_AFTER, self.log_counts)
                    self._timer.daemon = True
                    self._timer.start()
        if is_first:
            logging.getLogger(OWN).log(level, message, *args, **options)

    def log_counts(self) -> None:
        """Log how often each message was repeated since it was last logged."""
        with self._guard:
            counts = self._counts
            self._counts = {}
            self._timer = None
            self._logged_at.update(dict.fromkeys(counts, time.monotonic()))
        for (level, message), count in counts.items():
            text = f"Repeated %s times within a minute: {message.replace('%', '%%')}"
            logging.getLogger(OWN).log(level, text, count)

    def forget(self) -> None:
        """Log each message at once again."""
        # A new lock, because a forked child may have copied one that is held.
        self._guard = threading.Lock()
        if self._timer is not None:
            self._timer.cancel()
        self._logged_at = {}
        self._counts = {}
        self._timer = None


repeated = RepeatedMessages()
"""For what may fail again and again, such as a store or the channel layer."""


def log_repeated(level: int, message: str, *args: Any, times: int = 1, **options: Any) -> None:
    """Log a message of this package at most once a minute, and how often it was repeated."""
    repeated.log(level, message, *args, times=times, **options)


os.register_at_fork(after_in_child=repeated.forget)
