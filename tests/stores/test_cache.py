"""The cache stores satisfy the contracts, in local memory and in Redis if it is available."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from pytest_django import Settings

from django_mcp.frame.session import Change
from django_mcp.stores import cache as module
from django_mcp.stores.base import EventStore, SessionStore, StoreBusy
from django_mcp.stores.cache import CacheEventStore, CacheSessionStore
from django_mcp.testing.contracts import (
    IDLE_TIMEOUT,
    LIFETIME,
    Clock,
    EventStoreContract,
    SessionStoreContract,
    a_session,
    put,
)
from tests.databases import why_not

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")

redis = urlsplit(REDIS_URL)
why_not_redis = why_not("redis", redis.hostname or "127.0.0.1", redis.port or 6379)


@pytest.fixture(params=["locmem", *([] if why_not_redis else ["redis"])], autouse=True)
def cache(request: pytest.FixtureRequest, settings: Settings) -> Iterator[BaseCache]:
    """An empty cache."""
    backend: Callable[[str], AbstractContextManager[dict[str, Any]]]
    backend = {"locmem": in_local_memory, "redis": in_redis}[request.param]
    with backend(f"django_mcp-{uuid4()}") as described:
        settings.CACHES = {**settings.CACHES, "scratch": described}
        yield caches["scratch"]


@contextmanager
def in_local_memory(name: str) -> Iterator[dict[str, Any]]:
    yield {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": name}


@contextmanager
def in_redis(name: str) -> Iterator[dict[str, Any]]:
    module = import_module("redis")
    pools: list[Any] = []

    class Pool(module.ConnectionPool):  # type: ignore[name-defined,misc]
        """Django never closes the connections of a cache, which has a pool for each thread."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            pools.append(self)

    yield {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": name,
        "OPTIONS": {"pool_class": Pool},
    }
    client = module.Redis.from_url(REDIS_URL)
    for key in client.scan_iter(f"{name}*"):
        client.delete(key)
    client.close()
    for pool in pools:
        pool.disconnect()


def test_redis_is_available() -> None:
    if why_not_redis is not None:
        pytest.skip(why_not_redis)


class TestCacheSessions(SessionStoreContract):
    forgets_by_itself = True

    def make_store(self, **bounds: Any) -> SessionStore:
        return CacheSessionStore(**bounds, alias="scratch")


class TestCacheEvents(EventStoreContract):
    forgets_by_itself = True

    def make_store(self, **bounds: Any) -> EventStore:
        return CacheEventStore(**bounds, alias="scratch")


def sessions(clock: Clock) -> SessionStore:
    return CacheSessionStore(
        idle_timeout=IDLE_TIMEOUT, limit_per_principal=5, now=clock, alias="scratch"
    )


async def test_update_without_the_lock_raises_store_busy(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    lock = f"django_mcp:session:{a_session().address}:lock"
    cache.add(lock, "another worker")
    monkeypatch.setattr(module, "WRITE_TIMEOUT", 0)
    with pytest.raises(StoreBusy):
        await store.update(a_session().id, [put("a", 1)])
    assert cache.get(lock) == "another worker"
    cache.delete(lock)
    assert await store.update(a_session().id, [put("a", 1)])


async def test_lock_is_released_after_an_error(cache: BaseCache) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    with pytest.raises(KeyError):
        await store.update(a_session().id, [Change("assigns", "no such action")])
    assert await store.update(a_session().id, [put("a", 1)])


async def test_session_with_an_evicted_cache_entry_is_not_found(cache: BaseCache) -> None:
    store = sessions(Clock())
    for number, kind in enumerate(["session", "used"]):
        await store.create(a_session(number))
        cache.delete(f"django_mcp:{kind}:{a_session(number).address}")
        assert await store.load(a_session(number).id) is None


@pytest.mark.parametrize("cache", ["locmem"], indirect=True)  # The backend allows inspection.
async def test_cache_entries_expire_and_do_not_contain_the_session_id(cache: BaseCache) -> None:
    session = a_session(subscriptions=frozenset({"shop://a"}))
    await sessions(Clock()).create(session)
    store = CacheEventStore(limit=5, lifetime=LIFETIME, streams=5, alias="scratch")
    await store.append(session.address, "stream", ["message"])
    entries: Any = cache
    assert len(entries._cache) == 7
    assert None not in entries._expire_info.values()
    assert session.id not in repr(entries._cache)
