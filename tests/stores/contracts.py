"""The contracts of stores, as test cases to subclass.

pytest with pytest-asyncio runs them, one subclass for each configuration of the store::

    class TestEtcdSessions(SessionStoreContract):
        def make_store(self, **bounds):
            return EtcdSessionStore(**bounds, prefix="test")

Two stores of one test share their contents, as those of two workers do. For a store in the memory
of one process, override the fixture ``other_worker`` to return ``store``. Each test starts with an
empty store.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from django_mcp.core.frame.session import Change, Session
from django_mcp.core.protocol.revisions import REVISIONS
from django_mcp.stores.base import (
    ABANDONED_AFTER,
    INITIALIZE_TIMEOUT,
    STREAM_CHECK,
    Event,
    EventStore,
    SessionStore,
    StoreFull,
)

S = TypeVar("S")

IDLE_TIMEOUT = 1800.0
LIFETIME = 600.0
CONCURRENT_CALLS = 20
LIMIT = 25


@dataclass
class Clock:
    """A clock that only ``advance`` changes."""

    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def a_session(number: int = 1, **members: Any) -> Session:
    """A session whose client is initialized."""
    values = {"server": "shop", "principal": "user:7", "version": REVISIONS[0].version}
    return Session(id=f"secret-{number}", **{**values, "initialized": True, **members})


async def created(store: SessionStore, number: int = 1, **members: Any) -> Session:
    """A session that is in the store."""
    session = a_session(number, **members)
    await store.create(session)
    return session


def put(key: str, value: Any) -> Change:
    """The change of ``frame.assign``."""
    return Change("assigns", "put", key, value)


def events(texts: Iterable[str], *, first: int = 1) -> list[Event]:
    """Consecutive events of one stream."""
    return [Event(number, text) for number, text in enumerate(texts, first)]


class _StoreContract(ABC, Generic[S]):
    forgets_by_itself = False
    """Whether ``prune`` returns 0, because the backend deletes what has expired."""

    _limits: ClassVar[dict[str, Any]]

    @abstractmethod
    def make_store(self, **bounds: Any) -> S:
        """A store with these limits, the arguments of its class, and ``now``."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, clock: Clock) -> S:
        return self.make_store(**self._limits, now=clock)

    @pytest.fixture
    def other_worker(self, clock: Clock, store: S) -> S:
        return self.make_store(**self._limits, now=clock)


@pytest.mark.asyncio
class SessionStoreContract(_StoreContract[SessionStore]):
    """The contract of a SessionStore."""

    _limits: ClassVar = {"idle_timeout": IDLE_TIMEOUT, "limit_per_principal": 100}

    @pytest.fixture
    def small_store(self, clock: Clock) -> SessionStore:
        """A store with at most two sessions for each principal."""
        return self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)

    async def test_created_session_is_loaded_unchanged(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(
            store,
            client_info={"name": "cliënt \x00 \ud800", "version": "1"},
            client_capabilities={"elicitation": {"form": {}}},
            init_meta={"trace": [1, 2.5, None, True]},
            log_level="warning",
            pagination_limit=7,
            assigns={"cart": {"lines": [{"sku": "a", "count": 2}]}},
            components={"tool": {"extra": {"handler": "shop.mcp.extra"}}},
            subscriptions=frozenset({"shop://a", "shop://b"}),
        )
        await created(store, 2)
        assert await other_worker.load(session.id) == session
        assert await store.load(session.address) is None  # Only the id is a secret.

    async def test_updates_are_applied_in_order(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store, assigns={"old": 1, "older": 2})
        changes = [
            Change("assigns", "remove", "old"),
            put("new", "first"),
            put("new", {"pair": (1, 2)}),
            Change("log_level", "set", value="error"),
        ]
        updated = await other_worker.update(session.id, changes)
        assigns = {"older": 2, "new": {"pair": [1, 2]}}  # As JSON has them.
        assert updated == session._replace(assigns=assigns, log_level="error")
        assert await store.load(session.id) == updated

    async def test_concurrent_updates_are_applied_one_after_another(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store)
        workers = enumerate([store, other_worker] * (CONCURRENT_CALLS // 2))
        updates = [
            worker.update(session.id, [put("winner", i), put(f"ran {i}", True)])
            for i, worker in workers
        ]
        results = await asyncio.gather(*updates)
        # Each is applied to the result of the one before, so that they differ in length, and the
        # last, which is stored, has the keys of all.
        by_length = {len(session.assigns): session for session in results if session is not None}
        assert sorted(by_length) == list(range(2, CONCURRENT_CALLS + 2))
        assert await store.load(session.id) == by_length[CONCURRENT_CALLS + 1]

    async def test_session_is_changed_only_if_its_check_accepts_it(
        self, store: SessionStore
    ) -> None:
        def reject(_: Session) -> None:
            raise PermissionError("not yours")

        session = await created(store)
        with pytest.raises(PermissionError, match="not yours"):
            await store.update(session.id, [put("a", 1)], check=reject)
        with pytest.raises(PermissionError, match="not yours"):
            await store.delete(session.id, check=reject)
        assert await store.load(session.id) == session
        updated = await store.update(session.id, [put("a", 1)], check=lambda _: None)
        assert updated == await store.load(session.id) == session._replace(assigns={"a": 1})
        assert await store.delete(session.id, check=lambda _: None) is True

    @pytest.mark.parametrize("ending", ["is unknown", "was deleted", "has expired"])
    async def test_session_that_is_not_there_is_not_found(
        self, store: SessionStore, other_worker: SessionStore, clock: Clock, ending: str
    ) -> None:
        if ending != "is unknown":
            await created(store, subscriptions=frozenset({"shop://a"}))
        if ending == "was deleted":
            assert await other_worker.delete(a_session().id) is True
        if ending == "has expired":
            clock.advance(IDLE_TIMEOUT + 1)
        session_id = a_session().id
        await store.touch(session_id)
        assert await store.load(session_id) is None
        assert await store.update(session_id, [put("a", 1)]) is None
        assert await store.delete(session_id) is False
        assert await store.subscribers("shop", "shop://a") == []

    @pytest.mark.parametrize("use", ["load", "touch", "update"])
    async def test_used_session_does_not_expire(
        self, store: SessionStore, clock: Clock, use: str
    ) -> None:
        session = await created(store)
        for _ in range(3):
            clock.advance(IDLE_TIMEOUT * 0.9)
            await getattr(store, use)(session.id, *([[]] if use == "update" else []))
        assert await store.load(session.id) == session

    async def test_uninitialized_session_expires_earlier(
        self, store: SessionStore, clock: Clock
    ) -> None:
        unused = await created(store, 1, initialized=False)
        opened = await created(store, 2, initialized=False)
        await store.update(opened.id, [Change("initialized", "set", value=True)])
        clock.advance(INITIALIZE_TIMEOUT + 1)
        assert await store.load(unused.id) is None
        clock.advance(IDLE_TIMEOUT - INITIALIZE_TIMEOUT - 2)
        assert await store.load(opened.id) == opened._replace(initialized=True)

    async def test_prune_deletes_only_expired_sessions(
        self, store: SessionStore, clock: Clock
    ) -> None:
        for number in range(3):
            await created(store, number)
        clock.advance(IDLE_TIMEOUT / 2)
        await created(store, 3)
        clock.advance(IDLE_TIMEOUT / 2 + 1)
        assert await store.prune() == (0 if self.forgets_by_itself else 3)
        assert await store.load(a_session(3).id) == a_session(3)

    async def test_session_above_the_limit_takes_the_place_of_the_longest_idle(
        self, small_store: SessionStore, clock: Clock
    ) -> None:
        first = await created(small_store, 1)
        await created(small_store, 2, server="another")
        clock.advance(STREAM_CHECK)
        with pytest.raises(StoreFull):  # Both are in use.
            await created(small_store, 3)
        clock.advance(IDLE_TIMEOUT / 2)
        await small_store.touch(first.id)
        await created(small_store, 3)
        await created(small_store, 4, principal="user:8")
        assert await small_store.load(a_session(2).id) is None
        assert await small_store.load(first.id) == first

    async def test_session_that_a_principal_takes_over_counts_as_one_of_theirs(
        self, small_store: SessionStore
    ) -> None:
        anonymous = await created(
            small_store, 1, principal="public:", caller="1.2.3.4", anonymous_at=""
        )
        await small_store.update(anonymous.id, anonymous.for_principal("user:7", ""))
        updated = await small_store.load(anonymous.id)
        assert updated is not None
        assert updated.principal == "user:7"
        await created(small_store, 2)
        with pytest.raises(StoreFull):
            await created(small_store, 3)

    async def test_subscribers_are_the_addresses_of_subscribed_sessions(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        sessions = [await created(store, number) for number in range(3)]
        include = [Change("subscriptions", "include", uri) for uri in ("shop://a", "shop://b")]
        await store.update(sessions[0].id, include)
        await other_worker.update(sessions[1].id, include[:1])
        both = {sessions[0].address, sessions[1].address}
        assert set(await other_worker.subscribers("shop", "shop://a")) == both
        assert await store.subscribers("another", "shop://a") == []
        await store.update(sessions[1].id, [Change("subscriptions", "exclude", "shop://a")])
        only = [sessions[0].address]
        expected = {"shop://a": only, "shop://b": only, "shop://c": []}
        assert await other_worker.subscribers_of_each("shop", list(expected)) == expected


@pytest.mark.asyncio
class EventStoreContract(_StoreContract[EventStore]):
    """The contract of an EventStore."""

    _limits: ClassVar = {"limit": LIMIT, "lifetime": LIFETIME, "streams": 3}

    @pytest.mark.parametrize("first", [1, 10**12])
    async def test_event_numbers_increase_by_one(
        self, store: EventStore, other_worker: EventStore, first: int
    ) -> None:
        assert await store.after("session", "stream", 0) is None
        assert await store.append("session", "stream", [], first=first) == first - 1
        texts = ["a", "", '{"é": "\\u0000"}']
        assert await store.append("session", "stream", texts) == first + 2
        assert await other_worker.append("session", "stream", ["d"], first=7) == first + 3
        assert await store.after("session", "stream", 0) == events([*texts, "d"], first=first)
        assert await store.after("session", "stream", first + 2) == [Event(first + 3, "d")]
        assert await store.after("session", "stream", first + 3) == []
        assert await store.after("session", "another", 0) is None
        assert await store.after("another", "stream", 0) is None

    async def test_concurrent_appends_have_unique_event_numbers(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        workers = enumerate([store, other_worker] * (CONCURRENT_CALLS // 2))
        appends = [worker.append("session", "stream", [str(i)]) for i, worker in workers]
        numbers = await asyncio.gather(*appends)
        assert sorted(numbers) == list(range(1, CONCURRENT_CALLS + 1))

    async def test_stream_above_its_limit_keeps_the_newest_events(self, store: EventStore) -> None:
        texts = [str(number) for number in range(LIMIT)]
        await store.append("session", "stream", texts)
        assert await store.append("session", "stream", ["new"]) == LIMIT + 1
        assert await store.after("session", "stream", 0) == events([*texts[1:], "new"], first=2)

    async def test_sessions_with_too_many_streams_get_no_message_of_those_for_several(
        self, store: EventStore
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("full", name, [name])
        messages = {"full": ["a"], "free": ["c", "d"]}
        assert await store.append_to_each("four", messages) == ["full"]
        assert await store.last("full", "four") is None
        assert await store.after("free", "four", 0) == events("cd")

    async def test_concurrent_moves_deliver_each_event_once(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "box", list("abc"))
        await store.append("session", "stream", ["before"])
        workers = [store, other_worker] * 5
        moves = [worker.move("session", "box", "stream") for worker in workers]
        moved = await asyncio.gather(*moves)
        assert sorted(moved) == [[]] * 9 + [events("abc", first=2)]
        assert await store.after("session", "stream", 1) == events("abc", first=2)
        assert await store.append("session", "box", ["d"]) == 4

    async def test_concurrent_closes_of_an_abandoned_stream_append_one_event(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(20)
        await store.append("session", "stream", [])  # The writer lives.
        clock.advance(20)
        assert await store.close_abandoned("session", "stream", 30, "end") is False
        clock.advance(10)
        workers = [store, other_worker] * 5
        closes = [worker.close_abandoned("session", "stream", 30, "end") for worker in workers]
        assert sorted(await asyncio.gather(*closes)) == [False] * 9 + [True]
        assert await store.is_closed("session", "stream") is True
        assert await store.after("session", "stream", 1) == [Event(2, "end")]
        clock.advance(LIFETIME + 1)
        assert await store.after("session", "stream", 1) is None

    async def test_stream_closed_first_is_deleted_when_the_limit_is_reached(
        self, store: EventStore, clock: Clock
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        with pytest.raises(StoreFull):
            await store.append("session", "four", ["four"])
        for name in ("three", "two"):
            clock.advance(1)
            await store.close("session", name)
        assert await store.is_closed("session", "one") is False
        assert await store.is_closed("session", "two") is True
        assert await store.after("session", "two", 0) == events(["two"])
        await store.append("session", "four", ["four"])
        streams = ("one", "two", "three", "four")
        assert [await store.last("session", name) for name in streams] == [1, 1, None, 1]

    async def test_deleted_stream_is_not_created_by_a_late_append(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "stream", ["a"])
        await store.append("another", "stream", ["b"])
        assert await other_worker.append("session", "stream", ["c"], create=False) == 2
        late = store.append("session", "stream", ["late"], create=False)
        await asyncio.gather(late, other_worker.forget("session"))
        assert await store.append("session", "stream", ["late"], create=False) == 0
        assert await store.last("session", "stream") is None
        assert await store.after("another", "stream", 0) == events("b")

    async def test_name_is_claimed_by_one_worker_at_a_time(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        for advanced in (0, 61):
            clock.advance(advanced)
            claims = [worker.claim("work", 60) for worker in [store, other_worker] * 5]
            assert sorted(await asyncio.gather(*claims)) == [False] * 9 + [True]
        assert await store.claim("other work", 60) is True

    async def test_numbers_continue_after_events_expire_until_the_stream_does(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a", "b"])
        clock.advance(LIFETIME / 2)
        await store.append("session", "stream", ["c"])
        clock.advance(LIFETIME / 2 + 1)
        assert await store.prune() == (0 if self.forgets_by_itself else 2)
        assert await store.after("session", "stream", 0) == [Event(3, "c")]
        clock.advance(LIFETIME)
        assert await store.after("session", "stream", 0) == []
        assert await store.append("session", "stream", ["d"]) == 4
        keys = [("session", "stream"), ("session", "unknown")]
        assert await store.last_of_each(keys) == {keys[0]: 4}
        clock.advance(ABANDONED_AFTER + 1)
        assert await store.last("session", "stream") is None
