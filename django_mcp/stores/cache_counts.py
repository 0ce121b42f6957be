"""Counts in any of Django's caches that workers share: no call is counted twice or not at all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256

from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from django_mcp.stores.cache import locked


@dataclass(frozen=True, slots=True)
class PeriodCount:
    """Counts of the actions of an identity in the current period, in the default cache."""

    name: str
    period: int
    """Seconds. A period begins at a multiple of it, for all identities."""

    def add(self, identity: str) -> int:
        """Add 1, and return the count; raises StoreBusy."""
        return increment(caches["default"], self._key(identity), self.period)

    def read(self, identity: str) -> int:
        return int(caches["default"].get(self._key(identity), 0))

    def _key(self, identity: str) -> str:
        number = int(time.time() // self.period)
        counted = sha256(f"{number} {identity}".encode(errors="replace")).hexdigest()
        return f"django_mcp.{self.name}:{counted}"


def increment(cache: BaseCache, key: str, timeout: float) -> int:
    """Add 1 to the count ``key``, and return it; ``timeout`` is when it expires, in seconds.

    Redis, Memcached and local memory increment atomically. The other caches read the count,
    and write it with their default timeout: they count under a lock, which takes a few
    milliseconds. Raises StoreBusy if others have the lock for too long.
    """
    if type(cache).incr is not BaseCache.incr:
        cache.add(key, 0, timeout=timeout)
        try:
            return int(cache.incr(key))
        except ValueError:  # It expired in between.
            cache.add(key, 1, timeout=timeout)
            return 1
    with locked(cache, key) as exclusive:
        count = int(exclusive.get(key, 0)) + 1
        exclusive.for_writing.set(key, count, timeout=timeout)
        return count
