"""The cache stores satisfy the contracts, in local memory and in Redis if it is available."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from pytest_django import Settings

from django_mcp import conf
from django_mcp.core.frame.session import Change, Session
from django_mcp.stores import base
from django_mcp.stores import cache as module
from django_mcp.stores.base import EventStore, SessionStore, StoreBusy
from django_mcp.stores.cache import CacheEventStore, CacheSessionStore
from django_mcp.stores.redis_connection import RedisConnection
from tests.databases import REDIS_URL, why_not_redis
from tests.stores.contracts import (
    IDLE_TIMEOUT,
    LIFETIME,
    Clock,
    a_session,
    put,
)
from tests.stores.event_cases import EventStoreCases
from tests.stores.session_cases import SessionStoreCases


@pytest.fixture(params=["locmem", *([] if why_not_redis("redis") else ["redis"])], autouse=True)
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
    if reason := why_not_redis("redis"):
        pytest.skip(reason)


class TestCacheSessions(SessionStoreCases):
    forgets_by_itself = True

    def make_store(self, **bounds: Any) -> SessionStore:
        return CacheSessionStore(**bounds, alias="scratch")


class TestCacheEvents(EventStoreCases):
    forgets_by_itself = True

    def make_store(self, **bounds: Any) -> EventStore:
        return CacheEventStore(**bounds, alias="scratch")


def sessions(clock: Clock, limit: int = 5) -> CacheSessionStore:
    return CacheSessionStore(
        idle_timeout=IDLE_TIMEOUT, limit_per_principal=limit, now=clock, alias="scratch"
    )


async def test_update_of_a_version_that_another_worker_claims_raises_store_busy(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    claim = claim_of(a_session(), 1)
    cache.add(claim, "another worker")
    monkeypatch.setattr(module, "write_timeout", lambda: 0)
    with pytest.raises(StoreBusy):
        await store.update(a_session().id, [put("a", 1)])
    with pytest.raises(StoreBusy):
        await store.delete(a_session().id)
    assert cache.get(claim) == "another worker"
    cache.delete(claim)
    assert await store.update(a_session().id, [put("a", 1)])


def claim_of(session: Session, version: int) -> str:
    return module._version(session.address, version)


async def test_claim_that_came_too_late_after_reading_writes_nothing(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    read, reads = CacheSessionStore._read, []

    def read_late(self: CacheSessionStore, name: str) -> Any:
        """Read; the first time, another worker writes while this one is suspended."""
        found = read(self, name)
        assert found is not None
        reads.append(found)
        if len(reads) > 1:
            return found
        written = a_session(assigns={"b": 2})
        self._write(written, 1, found.slot, base.pack(written))
        return found._replace(read_at=found.read_at - module.CLAIM_VALID)

    monkeypatch.setattr(CacheSessionStore, "_read", read_late)
    updated = await store.update(a_session().id, [put("a", 1)])
    assert updated is not None
    assert updated.assigns == {"a": 1, "b": 2}
    assert len(reads) == 2


async def test_lock_is_released_after_an_error(cache: BaseCache) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    with pytest.raises(KeyError):
        await store.update(a_session().id, [Change("assigns", "no such action")])
    assert await store.update(a_session().id, [put("a", 1)])


async def test_session_with_an_evicted_cache_entry_is_not_found(cache: BaseCache) -> None:
    store = sessions(Clock())
    for number, kind in enumerate(["session-state", "used"]):
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


async def test_claim_of_a_worker_that_died_ends_before_others_give_up(cache: BaseCache) -> None:
    store = sessions(Clock(), limit=1)
    await store.create(a_session(initialized=False))
    left = (claim_of(a_session(), 1), f"{module._of_caller(a_session())}:lock")
    for key in left:
        assert cache.add(key, "a worker that died", timeout=module.LOCK_LIFETIME)
    updated = await store.update(a_session().id, [put("a", 1)])
    assert updated is not None
    assert updated.assigns == {"a": 1}
    await store.create(a_session(2))
    assert conf.get().store_timeout > base.write_timeout()  # Others read why they failed.
    assert base.write_timeout() > module.LOCK_LIFETIME > 2 * module.CLAIM_VALID + 1


async def test_worker_that_lost_its_claim_writes_nothing(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sessions(Clock())
    await store.create(a_session())
    monkeypatch.setattr(module, "CLAIM_VALID", -1)
    with pytest.raises(StoreBusy):
        await store.update(a_session().id, [put("a", 1)])
    monkeypatch.undo()
    assert await store.load(a_session().id) == a_session()


async def test_worker_that_lost_its_lock_writes_nothing(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CacheEventStore(limit=5, lifetime=LIFETIME, streams=5, now=Clock(), alias="scratch")
    monkeypatch.setattr(module, "LOCK_LIFETIME", -1)
    monkeypatch.setattr(CacheEventStore, "_cache", _AddsAlways(cache))
    with pytest.raises(StoreBusy):
        await store.append("session", "stream", ["a"])
    monkeypatch.undo()
    assert await store.after("session", "stream", 0) is None


class _AddsAlways:
    """A cache whose ``add`` tells every worker that it has the lock."""

    def __init__(self, cache: BaseCache) -> None:
        self._cache = cache

    def add(self, *_: Any, **__: Any) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


@pytest.mark.parametrize("successor", [None, "another worker"])
async def test_slow_worker_releases_its_own_lock_alone(
    cache: BaseCache, monkeypatch: pytest.MonkeyPatch, successor: str | None
) -> None:
    store = CacheEventStore(limit=5, lifetime=LIFETIME, streams=5, now=Clock(), alias="scratch")
    lock = f"{module._streams('session')}:lock"
    clock = Clock()
    set_many = cache.set_many

    def write_slowly(*args: Any) -> None:
        set_many(*args)
        clock.advance(module.LOCK_LIFETIME * 0.9)
        if successor is not None:
            cache.set(lock, successor)

    monkeypatch.setattr(cache, "set_many", write_slowly)
    monkeypatch.setattr(CacheEventStore, "_cache", cache)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock))
    assert await store.append("session", "stream", ["a"]) == 1
    assert cache.get(lock) == successor


async def test_session_without_a_slot_leaves_no_entries(cache: BaseCache) -> None:
    store = sessions(Clock(), limit=1)
    await store.create(a_session())
    with pytest.raises(base.StoreFull):
        await store.create(a_session(2))
    for kind in ("session-state", "used"):
        assert cache.get(f"django_mcp:{kind}:{a_session(2).address}") is None


async def test_session_that_is_updated_often_keeps_its_slot(cache: BaseCache) -> None:
    store = sessions(Clock(), limit=1)
    await store.create(a_session())
    cache.delete(f"{module._of_caller(a_session())}:0")
    await store.update(a_session().id, [put("a", 1)])
    with pytest.raises(base.StoreFull):
        await store.create(a_session(2))


async def test_list_of_subscribers_drops_sessions_that_have_expired_once_in_many_additions(
    cache: BaseCache,
) -> None:
    clock = Clock()
    store = sessions(clock, limit=10_000)
    subscribed = {"subscriptions": frozenset({"shop://a"})}
    for number in range(module.LIST_CHECK):
        await store.create(a_session(number, **subscribed))
        clock.advance(IDLE_TIMEOUT + 1)
    assert len(cache.get(module._of_resource("shop", "shop://a"))) == module.LIST_CHECK
    await store.create(a_session(1000, **subscribed))
    assert cache.get(module._of_resource("shop", "shop://a")) == [a_session(1000).address]


async def test_session_that_another_worker_initializes_meanwhile_keeps_its_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    store = sessions(clock)
    await store.create(a_session(initialized=False))
    clock.advance(base.INITIALIZE_TIMEOUT / 2)
    read = CacheSessionStore._read
    ready = a_session(initialized=True)

    def read_early(self: CacheSessionStore, name: str) -> Any:
        """Read; the first time, another worker initializes the session right after it."""
        stored = read(self, name)
        monkeypatch.setattr(CacheSessionStore, "_read", read)
        assert stored is not None
        self._write(ready, stored.update_count + 1, stored.slot, base.pack(ready))
        return stored

    monkeypatch.setattr(CacheSessionStore, "_read", read_early)
    assert await store.load(ready.id)

    clock.advance(base.INITIALIZE_TIMEOUT + 1)
    assert await store.load(ready.id) == ready


async def test_subscription_that_was_stored_but_not_listed_is_listed_by_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = sessions(Clock())
    session = a_session()
    await store.create(session)
    for action, subscribers in {"include": [session.address], "exclude": []}.items():
        change = Change("subscriptions", action, "shop://a")
        with monkeypatch.context() as patch:
            patch.setattr(store, "_list", busy)
            with pytest.raises(StoreBusy):
                await store.update(session.id, [change])
        assert await store.update(session.id, [change])
        assert await store.subscribers(session.server, "shop://a") == subscribers


async def test_session_is_not_taken_over_before_it_is_listed_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = sessions(Clock())
    session = a_session(anonymous_at="/mcp", subscriptions=frozenset({"shop://a"}))
    await store.create(session)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_list", busy)
        with pytest.raises(StoreBusy):
            await store.update(session.id, session.for_principal("user:1", "user:1"))

    assert await store.load(session.id) == session
    assert await store.update(session.id, session.for_principal("user:1", "user:1"))
    assert await store.subscribers(session.server, "shop://a") == []


def busy(*_: object) -> None:
    raise StoreBusy


async def test_forgotten_session_leaves_no_keys_of_its_events(cache: BaseCache) -> None:
    store = CacheEventStore(limit=5, lifetime=LIFETIME, streams=5, now=Clock(), alias="scratch")
    await store.append("session", "stream", ["a", "b"])
    key = module._event(base.digest("session", "stream"), 2)
    assert cache.get(key) is not None
    await store.forget("session")
    assert cache.get(key) is None


@pytest.mark.parametrize("cache", ["redis"], indirect=True)
async def test_redis_has_the_time_limit_of_stores_unless_it_has_its_own(
    cache: BaseCache, settings: Settings
) -> None:
    def limit() -> float:
        connection: Any = sessions(Clock())._cache
        options = connection.client.get_connection_kwargs()
        assert options["socket_connect_timeout"] == 3
        return float(options["socket_timeout"])

    settings.DJANGO_MCP = {"STORE_TIMEOUT": 3}
    assert limit() == 3
    settings.CACHES["scratch"]["OPTIONS"]["socket_timeout"] = 0.7
    settings.CACHES = {**settings.CACHES}
    assert limit() == 0.7


@pytest.mark.parametrize("cache", ["redis"], indirect=True)
async def test_entries_in_redis_are_those_of_djangos_cache(cache: BaseCache) -> None:
    ours = sessions(Clock())._cache
    values: dict[str, Any] = {"text": "a", "number": 1, "flag": True, "many": (1.5, "b", ["c"])}
    assert isinstance(ours, RedisConnection)
    ours.set_many(values, 60)
    ours.set("alone", None, 60)
    assert cache.get_many([*values, "missing"]) == ours.get_many([*values, "missing"]) == values
    assert ours.get("alone", "missing") is None
    assert cache.add("added", 1)
    assert not ours.add("added", 2)
    assert ours.add("new", "a")
    assert cache.has_key("new")
    assert ours.get("added") == 1
    assert ours.touch("added", 60)
    assert not ours.touch("missing")
    assert ours.delete("added")
    assert not ours.delete("added")
    ours.delete_many(["text", "number"])
    ours.delete_many([])
    assert ours.get_many([]) == {}
    assert cache.get_many(values) == {"flag": True, "many": (1.5, "b", ["c"])}
    assert ours.get("text", "gone") == "gone"


@pytest.mark.parametrize("cache", ["redis"], indirect=True)
async def test_redis_has_the_options_of_djangos_cache(cache: BaseCache, settings: Settings) -> None:
    options = {
        "serializer": "django.core.cache.backends.redis.RedisSerializer",
        "parser_class": "redis.connection.DefaultParser",
        "pool_class": "redis.BlockingConnectionPool",
        "max_connections": 3,
    }
    described = {**settings.CACHES["scratch"], "OPTIONS": options, "TIMEOUT": None}
    settings.CACHES = {**settings.CACHES, "scratch": {**described, "LOCATION": [REDIS_URL]}}
    ours: Any = sessions(Clock())._cache
    ours.set("forever", "a")
    assert ours.client.ttl(ours.make_key("forever")) == -1
    assert ours.client.connection_pool.max_connections == 3
    assert type(ours.client.connection_pool).__name__ == "BlockingConnectionPool"
    ours.client.close()
    ours.client.connection_pool.disconnect()
