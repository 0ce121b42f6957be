"""The keys of an issuer, which verify its tokens."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from django_mcp.auth.issuers.fetching import (
    RETRY_AFTER,
    Unavailable,
    outcome_of,
    result_of,
    submit,
    thread_pool,
)

logger = logging.getLogger("django_mcp")

K = TypeVar("K")

LOAD_TIMEOUT = 10.0
"""Seconds that a request waits for the keys of an issuer."""
REFRESH_AFTER = 10 * 60.0
"""Seconds until keys are loaded again, while the present ones are used."""
KEYS_LIFETIME = 24 * 60 * 60.0
"""Seconds that keys are used while they cannot be loaded again."""


class KeySet(Generic[K]):
    """The keys of an issuer: loaded when the first token arrives, and kept.

    ``load`` returns them; it runs in a thread. One load runs at a time, at most one every
    RETRY_AFTER seconds, so that tokens with unknown keys cause few loads.

    ======== ======================================== ======================================
    state    what ``find`` does                       next state, and what moves the keys
    ======== ======================================== ======================================
    missing  starts a load and waits for it           fresh: ``_reload``
    fresh    returns the key; for an unknown key, as  due: REFRESH_AFTER seconds
             in *missing*
    due      starts a load and returns the key; for   fresh: ``_reload``; missing:
             an unknown key, as in *missing*          KEYS_LIFETIME seconds without a load
    ======== ======================================== ======================================
    """

    def __init__(self, load: Callable[[], Sequence[K]]) -> None:
        self._load = load
        # A load may be submitted while the thread of the earlier one is about to end.
        self._pool = thread_pool(1, max_waiting=1)
        self._lock = threading.Lock()
        self._keys: Sequence[K] = ()
        self._error: Unavailable | None = None
        self._started_at = -RETRY_AFTER  # The clock may start at 0.
        self._expires_at = 0.0
        self._due_at = 0.0
        self._loading: Future[None | Unavailable] | None = None

    async def find(self, choose: Callable[[Sequence[K]], K | None]) -> K | None:
        """Return the key that ``choose`` finds; raises Unavailable if the keys cannot be loaded."""
        now = time.monotonic()
        key = choose(self._keys) if now < self._expires_at else None
        if key is not None and now < self._due_at:
            return key
        loading = self._start(now)
        if key is not None:
            return key
        if loading is not None:
            await result_of(loading, self._started_at + LOAD_TIMEOUT - now)
        elif self._error is not None:
            raise self._error
        return choose(self._keys)

    def _start(self, now: float) -> Future[None | Unavailable] | None:
        """Return the load that is running or is due, or None."""
        with self._lock:
            if self._loading is not None and not self._loading.done():
                return self._loading
            if now < self._started_at + RETRY_AFTER:
                return None
            self._started_at = now
            self._loading = submit(self._pool, self._reload)
            return self._loading

    def _reload(self) -> None:
        loaded = outcome_of(self._load)
        if isinstance(loaded, Unavailable):
            self._error = loaded
            logger.error("The keys of an issuer cannot be loaded: %s", loaded)
            raise loaded
        now = time.monotonic()
        self._keys = loaded
        self._error = None
        self._due_at = now + REFRESH_AFTER
        self._expires_at = now + KEYS_LIFETIME
