"""Counts in caches that do not increment atomically; ``tests/services`` counts over processes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache

from django_mcp.stores.cache_counts import PeriodCount, increment


class Plain(LocMemCache):
    """A cache that reads, and writes what it has read, as that in the database does."""

    incr = BaseCache.incr


@pytest.fixture(params=[LocMemCache, Plain])
def cache(request: pytest.FixtureRequest) -> Any:
    return request.param(uuid4().hex, {})


def test_calls_at_the_same_time_are_all_counted(cache: Any) -> None:
    def count(_number: int) -> int:
        return increment(cache, "calls", 60)

    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(count, range(200)))
    assert sorted(counts) == list(range(1, 201))


def test_count_expires_when_its_period_ends(cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    for module in ("base", "locmem"):
        monkeypatch.setattr(f"django.core.cache.backends.{module}.time.time", lambda: now)
    assert [increment(cache, "calls", 86_400), increment(cache, "calls", 80_000)] == [1, 2]
    now += 70_000
    assert increment(cache, "calls", 16_400) == 3
    now += 16_401
    assert increment(cache, "calls", 86_400) == 1


def test_count_that_expires_while_it_is_read_begins_anew() -> None:
    class Expiring(LocMemCache):
        def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
            self.delete(key)
            return super().incr(key, delta, version)

    assert increment(Expiring(uuid4().hex, {}), "calls", 60) == 1


def test_identities_and_periods_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    guesses = PeriodCount(f"tests.{uuid4().hex}", 60)
    assert [guesses.add("ann"), guesses.add("ann"), guesses.add("\ud800")] == [1, 2, 1]
    assert (guesses.read("ann"), guesses.read("bob")) == (2, 0)
    now += 60
    assert guesses.read("ann") == 0
    assert guesses.add("ann") == 1
