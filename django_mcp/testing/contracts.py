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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol.revisions import REVISIONS
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


async def assigns(store: SessionStore, session: Session) -> Mapping[str, Any]:
    """The values of ``frame.assign`` in the store."""
    loaded = await store.load(session.id)
    assert loaded is not None
    return loaded.assigns


def put(key: str, value: Any) -> Change:
    """The change of ``frame.assign``."""
    return Change("assigns", "put", key, value)


def events(texts: Iterable[str], *, first: int = 1) -> list[Event]:
    """Consecutive events of one stream."""
    return [Event(number, text) for number, text in enumerate(texts, first)]


def subscribe(uri: str) -> Change:
    """The change of ``resources/subscribe``."""
    return Change("subscriptions", "include", uri)


def unsubscribe(uri: str) -> Change:
    """The change of ``resources/unsubscribe``."""
    return Change("subscriptions", "exclude", uri)


class _StoreContract(ABC, Generic[S]):
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

    forgets_by_itself = False
    """Whether ``prune`` returns 0, because the backend deletes expired sessions."""

    _limits: ClassVar = {"idle_timeout": IDLE_TIMEOUT, "limit_per_principal": 100}

    async def test_created_session_is_loaded_unchanged(self, store: SessionStore) -> None:
        session = await created(
            store,
            client_info={"name": "cliënt \x00 \ud800", "version": "1"},
            client_capabilities={"elicitation": {"form": {}}},
            init_meta={"trace": [1, 2.5, None, True]},
            initialized=True,
            log_level="warning",
            pagination_limit=7,
            assigns={"cart": {"lines": [{"sku": "a", "count": 2}]}},
            components={"tool": {"extra": {"handler": "shop.mcp.extra"}}},
            subscriptions=frozenset({"shop://a", "shop://b"}),
        )
        assert await store.load(session.id) == session

    async def test_unknown_session_is_not_found(self, store: SessionStore) -> None:
        assert await store.load("never-created") is None
        assert await store.update("never-created", [put("a", 1)]) is None
        assert await store.delete("never-created") is False
        await store.touch("never-created")
        assert await store.load("never-created") is None

    async def test_session_cannot_be_loaded_by_its_public_address(
        self, store: SessionStore
    ) -> None:
        session = await created(store)
        assert await store.load(session.address) is None

    async def test_update_by_another_worker_is_visible(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store)
        await other_worker.update(session.id, [put("seen", "there")])
        assert await assigns(store, session) == {"seen": "there"}

    async def test_sessions_are_isolated_from_each_other(self, store: SessionStore) -> None:
        first = await created(store, 1)
        second = await created(store, 2)
        await store.update(first.id, [put("mine", 1)])
        assert await store.load(second.id) == second
        await store.delete(first.id)
        assert await store.load(second.id) == second

    async def test_changes_are_applied_in_order(self, store: SessionStore) -> None:
        session = await created(store, assigns={"old": 1, "older": 2})
        changes = [
            Change("assigns", "remove", "old"),
            put("new", {"nested": [1]}),
            put("new", "again"),
            Change("log_level", "set", value="error"),
        ]
        updated = await store.update(session.id, changes)
        expected = session._replace(assigns={"older": 2, "new": "again"}, log_level="error")
        assert updated == expected
        assert await store.load(session.id) == expected

    async def test_value_is_loaded_as_its_json_equivalent(self, store: SessionStore) -> None:
        session = await created(store)
        value = {"pair": (1, 2), "frozen": MappingProxyType({"a": 1})}
        updated = await store.update(session.id, [put("value", value)])
        assert updated == await store.load(session.id)
        assert await assigns(store, session) == {"value": {"pair": [1, 2], "frozen": {"a": 1}}}

    async def test_unserializable_value_is_rejected_and_nothing_is_stored(
        self, store: SessionStore
    ) -> None:
        session = await created(store)
        with pytest.raises(TypeError, match="date"):
            await store.update(session.id, [put("fine", 1), put("day", date(2026, 1, 1))])
        assert await store.load(session.id) == session

    async def test_mutation_of_a_loaded_session_does_not_change_the_store(
        self, store: SessionStore
    ) -> None:
        lines = ["first"]
        session = await created(store, assigns={"lines": lines})
        lines.append("behind the store's back")
        (await assigns(store, session))["lines"].append("behind the store's back")
        assert await assigns(store, session) == {"lines": ["first"]}

    async def test_concurrent_updates_of_different_keys_are_all_stored(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store)
        workers = enumerate([store, other_worker] * (CONCURRENT_CALLS // 2))
        await asyncio.gather(
            *(worker.update(session.id, [put(f"key {i}", i)]) for i, worker in workers)
        )
        expected = {f"key {i}": i for i in range(CONCURRENT_CALLS)}
        assert await assigns(store, session) == expected

    async def test_concurrent_updates_of_one_key_are_applied_one_after_another(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store)
        workers = enumerate([store, other_worker] * (CONCURRENT_CALLS // 2))
        results = await asyncio.gather(
            *(
                worker.update(session.id, [put("winner", i), put(f"ran {i}", True)])
                for i, worker in workers
            )
        )
        loaded = await store.load(session.id)
        assert loaded is not None
        # Each is applied to the result of the one before: they differ in length, and the last,
        # which is stored, has the keys of all.
        lengths = sorted(len(result.assigns) for result in results if result is not None)
        assert lengths == list(range(2, CONCURRENT_CALLS + 2))
        assert loaded in results
        assert len(loaded.assigns) == CONCURRENT_CALLS + 1

    async def test_deleted_session_is_not_found_by_any_worker(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store)
        assert await other_worker.delete(session.id) is True
        assert await store.load(session.id) is None
        assert await store.update(session.id, [put("a", 1)]) is None
        assert await store.delete(session.id) is False

    async def test_deletion_and_concurrent_updates_raise_no_error(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store, subscriptions=frozenset({"shop://a"}))
        deletion = asyncio.ensure_future(other_worker.delete(session.id))
        changes = [[put("a", i), subscribe(f"shop://{i}")] for i in range(CONCURRENT_CALLS)]
        await asyncio.gather(*(store.update(session.id, change) for change in changes))
        assert await deletion is True
        assert await store.load(session.id) is None
        for i in range(CONCURRENT_CALLS):
            assert await store.subscribers("shop", f"shop://{i}") == []

    async def test_change_without_effect_returns_the_session(self, store: SessionStore) -> None:
        session = await created(store, assigns={"a": True})
        assert await store.update(session.id, [put("a", True)]) == session
        updated = await store.update(session.id, [put("a", 1)])
        assert updated is not None
        assert updated.assigns["a"] is not True

    async def test_checked_session_is_updated_and_deleted(self, store: SessionStore) -> None:
        session = await created(store)
        seen: list[Session] = []
        updated = await store.update_checked(session.id, seen.append, [put("a", 1)])
        assert updated == await store.load(session.id) == session._replace(assigns={"a": 1})
        assert await store.delete_checked(session.id, seen.append) is True
        assert {each.id for each in seen} == {session.id}
        assert await store.update_checked(session.id, seen.append, [put("a", 1)]) is None
        assert await store.delete_checked(session.id, seen.append) is False

    async def test_session_which_its_check_rejects_is_unchanged(self, store: SessionStore) -> None:
        def reject(_: Session) -> None:
            raise PermissionError("not yours")

        session = await created(store)
        with pytest.raises(PermissionError, match="not yours"):
            await store.update_checked(session.id, reject, [put("a", 1)])
        with pytest.raises(PermissionError, match="not yours"):
            await store.delete_checked(session.id, reject)
        assert await store.load(session.id) == session

    async def test_idle_session_expires(self, store: SessionStore, clock: Clock) -> None:
        session = await created(store)
        clock.advance(IDLE_TIMEOUT + 1)
        await store.touch(session.id)
        assert await store.load(session.id) is None
        assert await store.update(session.id, [put("a", 1)]) is None
        assert await store.delete(session.id) is False

    @pytest.mark.parametrize("use", ["load", "touch", "update"])
    async def test_used_session_does_not_expire(
        self, store: SessionStore, clock: Clock, use: str
    ) -> None:
        session = await created(store)
        for _ in range(3):
            clock.advance(IDLE_TIMEOUT * 0.9)
            await getattr(store, use)(session.id, *([[]] if use == "update" else []))
        assert await store.load(session.id) == session

    async def test_prune_deletes_only_expired_sessions(
        self, store: SessionStore, clock: Clock
    ) -> None:
        for number in range(3):
            await created(store, number)
        clock.advance(IDLE_TIMEOUT / 2)
        await created(store, 3)
        clock.advance(IDLE_TIMEOUT / 2 + 1)
        assert await store.prune() == (0 if self.forgets_by_itself else 3)
        assert await store.prune() == 0
        assert await store.load(a_session(0).id) is None
        assert await store.load(a_session(3).id) == a_session(3)

    async def test_uninitialized_session_expires_earlier(
        self, store: SessionStore, clock: Clock
    ) -> None:
        subscribed = {"subscriptions": frozenset({"shop://a"}), "initialized": False}
        unused = await created(store, 1, **subscribed)
        used = await created(store, 2, **subscribed)
        for _ in range(3):
            clock.advance(INITIALIZE_TIMEOUT * 0.6)
            await store.touch(used.id)
        assert await store.load(unused.id) is None
        assert await store.update(unused.id, [put("a", 1)]) is None
        assert await store.prune() == (0 if self.forgets_by_itself else 1)
        assert await store.subscribers("shop", "shop://a") == [used.address]
        assert await store.load(used.id) == used
        clock.advance(INITIALIZE_TIMEOUT + 1)
        assert await store.load(used.id) is None

    async def test_session_lives_longer_once_it_is_initialized(
        self, store: SessionStore, clock: Clock
    ) -> None:
        session = await created(store, initialized=False)
        await store.update(session.id, [Change("initialized", "set", value=True)])
        clock.advance(IDLE_TIMEOUT - 1)
        assert await store.load(session.id) == session._replace(initialized=True)

    async def test_session_above_the_limit_takes_the_place_of_the_longest_idle(
        self, clock: Clock
    ) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        first = await created(store, 1, subscriptions=frozenset({"shop://a"}))
        await created(store, 2, server="another")
        clock.advance(IDLE_TIMEOUT / 2)
        await store.touch(first.id)
        clock.advance(IDLE_TIMEOUT / 4)
        await created(store, 3)
        assert await store.load(a_session(2).id) is None
        await created(store, 4, principal="user:8")
        await created(store, 5)
        assert await store.load(first.id) is None
        assert await store.subscribers("shop", "shop://a") == []
        assert await store.load(a_session(3).id) == a_session(3)

    async def test_session_in_use_makes_no_room_for_another(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        await created(store, 1)
        await created(store, 2)
        clock.advance(STREAM_CHECK)
        with pytest.raises(StoreFull):
            await created(store, 3)
        assert await store.load(a_session(3).id) is None
        assert await store.load(a_session(1).id) == a_session(1)

    async def test_uninitialized_session_makes_room_at_once(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        await created(store, 1)
        await created(store, 2, initialized=False)
        await created(store, 3, initialized=False)
        assert await store.load(a_session(2).id) is None
        assert await store.load(a_session(1).id) == a_session(1)

    async def test_sessions_of_one_principal_are_counted_by_caller(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=1, now=clock)
        await created(store, 1, caller="one")
        await created(store, 2, caller="other")
        with pytest.raises(StoreFull):
            await created(store, 3, caller="one")
        await store.delete(a_session(2).id)
        await created(store, 4, caller="other")

    async def test_session_that_a_principal_takes_over_counts_as_one_of_theirs(
        self, clock: Clock
    ) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=1, now=clock)
        anonymous = await created(store, 1, principal="public:", caller="1.2.3.4", anonymous_at="")
        changes = anonymous.for_principal("user:7", "")

        taken = await store.update(anonymous.id, changes)

        assert taken is not None
        assert taken.principal == "user:7"
        assert await store.load(anonymous.id) == taken
        await created(store, 2, principal="public:", caller="1.2.3.4")
        with pytest.raises(StoreFull):
            await created(store, 3)
        assert await store.delete(anonymous.id)
        await created(store, 3)

    async def test_session_in_use_leaves_no_room_for_one_that_is_taken_over(
        self, clock: Clock
    ) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=1, now=clock)
        used = await created(store, 1)
        anonymous = await created(store, 2, principal="public:", caller="1.2.3.4", anonymous_at="")

        with pytest.raises(StoreFull):
            await store.update(anonymous.id, anonymous.for_principal("user:7", ""))

        assert await store.load(used.id) == used
        assert await store.load(anonymous.id) == anonymous

    async def test_principals_are_case_sensitive(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=1, now=clock)
        await created(store, 1, principal="user:ann")
        await created(store, 2, principal="user:Ann")
        with pytest.raises(StoreFull):
            await created(store, 3, principal="user:ann")

    async def test_deleted_and_expired_sessions_do_not_count_toward_the_limit(
        self, clock: Clock
    ) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        await created(store, 1)
        await created(store, 2)
        await store.delete(a_session(1).id)
        await created(store, 3)
        clock.advance(IDLE_TIMEOUT + 1)
        await created(store, 4)
        await created(store, 5)
        with pytest.raises(StoreFull):
            await created(store, 6)

    async def test_subscribers_returns_addresses_of_subscribed_sessions(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        for number in range(3):
            await created(store, number)
        await store.update(a_session(0).id, [subscribe("shop://a"), subscribe("shop://b")])
        await other_worker.update(a_session(1).id, [subscribe("shop://a")])
        expected = sorted(a_session(number).address for number in range(2))
        assert sorted(await other_worker.subscribers("shop", "shop://a")) == expected
        assert await store.subscribers("shop", "shop://b") == [a_session(0).address]
        assert await store.subscribers("shop", "shop://c") == []
        assert await store.subscribers("another", "shop://a") == []
        uris = ["shop://a", "shop://b", "shop://c"]
        of_each = await other_worker.subscribers_of_each("shop", uris)
        assert sorted(of_each.pop("shop://a")) == expected
        assert of_each == {"shop://b": [a_session(0).address], "shop://c": []}

    async def test_unsubscribed_deleted_and_expired_sessions_are_not_subscribers(
        self, store: SessionStore, clock: Clock
    ) -> None:
        for number in range(3):
            await created(store, number, subscriptions=frozenset({"shop://a"}))
        assert len(await store.subscribers("shop", "shop://a")) == 3
        await store.update(a_session(0).id, [unsubscribe("shop://a")])
        await store.delete(a_session(1).id)
        assert await store.subscribers("shop", "shop://a") == [address("secret-2")]
        clock.advance(IDLE_TIMEOUT + 1)
        assert await store.subscribers("shop", "shop://a") == []


@pytest.mark.asyncio
class EventStoreContract(_StoreContract[EventStore]):
    """The contract of an EventStore."""

    forgets_by_itself = False
    """Whether ``prune`` returns 0, because the backend deletes expired events."""

    _limits: ClassVar = {"limit": LIMIT, "lifetime": LIFETIME, "streams": 3}

    async def test_event_numbers_start_at_one_and_increase_by_one(self, store: EventStore) -> None:
        assert await store.append("session", "stream", ["a", "b"]) == 2
        assert await store.append("session", "stream", ["c"]) == 3
        assert await store.after("session", "stream", 0) == events("abc")

    async def test_messages_are_appended_to_the_streams_of_several_sessions(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("one", "stream", ["a", "b"])
        await store.append("one", "another", ["z"])
        numbers = [str(number) for number in range(LIMIT + 2)]
        messages = {"one": ["c", "d"], "two": ["a"], "three": numbers}
        assert await other_worker.append_to_each("stream", messages) == []
        assert await store.after("one", "stream", 0) == events("abcd")
        assert await store.after("one", "another", 0) == events("z")
        assert await store.after("two", "stream", 0) == events("a")
        assert (await store.after("three", "stream", 0) or [])[0] == Event(3, "2")
        assert await store.last("three", "stream") == LIMIT + 2
        assert await store.append_to_each("stream", {"two": ["b"]}) == []
        assert await store.append("two", "stream", ["c"]) == 3
        assert await store.after("two", "stream", 0) == events("abc")
        assert await store.append_to_each("stream", {}) == []

    async def test_sessions_with_too_many_streams_get_no_message_of_those_for_several(
        self, store: EventStore, clock: Clock
    ) -> None:
        for session in ("full", "closed"):
            for name in ("one", "two", "three"):
                await store.append(session, name, [name])
        await store.close("closed", "two")
        clock.advance(1)
        messages = {"full": ["a"], "closed": ["b"], "free": ["c"]}
        assert await store.append_to_each("four", messages) == ["full"]
        assert await store.last("full", "four") is None
        assert await store.after("closed", "four", 0) == [Event(1, "b")]
        assert await store.last("closed", "two") is None
        assert await store.after("free", "four", 0) == [Event(1, "c")]
        await store.append_to_each("one", {"full": ["an open one goes on"]})
        assert await store.last("full", "one") == 2

    async def test_concurrent_appends_to_several_sessions_lose_nothing(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        sessions = ["one", "two", "three"]
        both = [store, other_worker] * 4
        every = [
            worker.append_to_each("outbox", dict.fromkeys(reversed(sessions[i % 2 :]), [str(i)]))
            for i, worker in enumerate(both)
        ]
        single = [worker.append("two", "outbox", [f"s{i}"]) for i, worker in enumerate(both)]
        moves = [worker.move("two", "outbox", "target") for worker in both]
        results: list[Any] = await asyncio.gather(*every, *single, *moves)
        assert await store.last("one", "outbox") == 4
        assert await store.last("three", "outbox") == 8
        rest = await store.move("two", "outbox", "target")
        moved: list[Event] = sum([*results[16:], rest], [])
        sent = [*map(str, range(8)), *(f"s{i}" for i in range(8))]
        assert sorted(event.data for event in moved) == sorted(sent)
        assert sorted(event.number for event in moved) == list(range(1, 17))

    async def test_event_numbers_start_with_the_number_that_the_first_append_gives(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        assert await store.append("session", "empty", [], first=10**12) == 10**12 - 1
        assert await store.append("session", "stream", ["a", "b"], first=10**12) == 10**12 + 1
        assert await store.append("session", "stream", ["c"], first=7) == 10**12 + 2
        assert await other_worker.last("session", "stream") == 10**12 + 2
        assert await store.after("session", "stream", 0) == events("abc", first=10**12)

    async def test_after_returns_only_later_events(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "stream", ["a", "", '{"é": "\\u0000"}'])
        later = [Event(2, ""), Event(3, '{"é": "\\u0000"}')]
        assert await other_worker.after("session", "stream", 1) == later
        assert await other_worker.after("session", "stream", 3) == []
        assert await other_worker.after("session", "stream", 99) == []

    async def test_stream_exists_after_its_first_append(self, store: EventStore) -> None:
        assert await store.after("session", "stream", 0) is None
        assert await store.append("session", "stream", []) == 0
        assert await store.after("session", "stream", 0) == []

    async def test_last_number_is_that_of_the_newest_event_even_if_it_has_expired(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        assert await store.last("session", "stream") is None
        await store.append("session", "stream", [])
        assert await store.last("session", "stream") == 0
        await other_worker.append("session", "stream", ["a", "b"])
        clock.advance(LIFETIME + 1)
        assert await store.last("session", "stream") == 2
        await store.forget("session")
        assert await store.last("session", "stream") is None

    async def test_last_numbers_of_several_streams_are_those_of_each(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("one", "a", ["1", "2"])
        await store.append("one", "b", ())
        await store.append("two", "a", ["1"])
        await store.append("two", "closed", ["1", "2", "3"])
        await store.close("two", "closed")
        requested = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b"), ("two", "closed")]
        numbers = {("one", "a"): 2, ("one", "b"): 0, ("two", "a"): 1, ("two", "closed"): 3}
        assert await store.last_of_each(requested) == numbers
        many = [("one", f"unknown {number}") for number in range(1200)]
        assert await store.last_of_each([*many, ("one", "a")]) == {("one", "a"): 2}
        assert await store.last_of_each([]) == {}
        clock.advance(LIFETIME)
        assert ("two", "closed") not in await store.last_of_each(requested)

    async def test_streams_are_isolated_by_session_and_case_sensitive_name(
        self, store: EventStore
    ) -> None:
        await store.append("session", "stream", ["mine"])
        await store.append("session", "Stream", ["mine too"])
        await store.append("another", "stream", ["not mine"])
        assert await store.after("session", "stream", 0) == [Event(1, "mine")]
        assert await store.after("session", "Stream", 0) == [Event(1, "mine too")]
        assert await store.after("another", "Stream", 0) is None

    async def test_concurrent_appends_have_unique_event_numbers(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        workers = enumerate([store, other_worker] * (CONCURRENT_CALLS // 2))
        numbers = await asyncio.gather(
            *(worker.append("session", "stream", [f"message {i}"]) for i, worker in workers)
        )
        assert sorted(numbers) == list(range(1, CONCURRENT_CALLS + 1))
        assert await store.after("session", "stream", 0) == [
            Event(number, f"message {numbers.index(number)}") for number in sorted(numbers)
        ]

    async def test_stream_above_its_limit_keeps_the_newest_events(self, clock: Clock) -> None:
        store = self.make_store(limit=5, lifetime=LIFETIME, streams=3, now=clock)
        await store.append("session", "stream", "abcd")
        assert await store.append("session", "stream", "efg") == 7
        assert await store.after("session", "stream", 0) == events("cdefg", first=3)

    async def test_event_numbers_continue_after_events_expire(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["old"])
        clock.advance(LIFETIME / 2)
        await store.append("session", "stream", ["new"])
        clock.advance(LIFETIME / 2 + 1)
        assert await store.after("session", "stream", 0) == [Event(2, "new")]
        clock.advance(LIFETIME)
        assert await store.after("session", "stream", 0) == []
        assert await store.append("session", "stream", ["newer"]) == 3

    async def test_moved_events_are_appended_to_the_target_stream(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "box", ["a", "b"])
        await store.append("session", "stream", ["before"])
        await store.append("another", "box", ["not mine"])
        assert await other_worker.move("session", "box", "stream") == events("ab", first=2)
        assert await store.after("session", "box", 0) == []
        assert await store.after("session", "stream", 1) == events("ab", first=2)
        assert await store.append("session", "box", ["c"]) == 3
        assert await store.move("session", "box", "new") == [Event(1, "c")]
        assert await store.after("another", "box", 0) == [Event(1, "not mine")]

    async def test_move_from_an_empty_or_unknown_stream_returns_no_events(
        self, store: EventStore, clock: Clock
    ) -> None:
        assert await store.move("session", "box", "stream") == []
        await store.append("session", "box", ["old"])
        clock.advance(LIFETIME + 1)
        assert await store.move("session", "box", "stream") == []
        assert await store.after("session", "stream", 0) is None

    async def test_concurrent_moves_deliver_each_event_once(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "box", list("abc"))
        moved = await asyncio.gather(
            *(worker.move("session", "box", "stream") for worker in [store, other_worker] * 5)
        )
        assert sorted(map(len, moved)) == [0] * 9 + [3]
        assert await store.after("session", "stream", 0) == events("abc")

    async def test_closed_stream_can_be_replayed_until_it_expires(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        assert await store.is_closed("session", "stream") is False
        await other_worker.close("session", "stream")
        assert await store.is_closed("session", "stream") is True
        assert await store.after("session", "stream", 0) == [Event(1, "a")]
        clock.advance(LIFETIME + 1)
        assert await store.after("session", "stream", 0) is None

    async def test_unknown_stream_is_closed(self, store: EventStore) -> None:
        assert await store.is_closed("session", "stream") is True
        await store.close("session", "stream")
        assert await store.after("session", "stream", 0) is None

    async def test_stream_whose_writer_is_silent_is_closed_with_a_last_event(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(20)
        await store.append("session", "stream", [])  # The writer lives.
        clock.advance(20)
        assert await other_worker.close_abandoned("session", "stream", 30, "end") is False
        clock.advance(10)
        assert await other_worker.close_abandoned("session", "stream", 30, "end") is True
        assert await store.is_closed("session", "stream") is True
        assert await store.after("session", "stream", 0) == [Event(1, "a"), Event(2, "end")]

    async def test_stream_that_was_silent_for_longer_than_its_events_live_can_be_closed(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(LIFETIME + 1)
        assert await store.close_abandoned("session", "stream", 30, "end") is True
        assert await store.after("session", "stream", 1) == [Event(2, "end")]

    async def test_concurrent_closes_of_an_abandoned_stream_append_one_event(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(30)
        closed = await asyncio.gather(
            *(
                worker.close_abandoned("session", "stream", 30, "end")
                for worker in [store, other_worker] * 5
            )
        )
        assert sorted(closed) == [False] * 9 + [True]
        assert await store.after("session", "stream", 0) == [Event(1, "a"), Event(2, "end")]

    async def test_closed_or_unknown_stream_is_not_abandoned(
        self, store: EventStore, clock: Clock
    ) -> None:
        assert await store.close_abandoned("session", "stream", 30, "end") is False
        await store.append("session", "stream", ["a"])
        await store.close("session", "stream")
        clock.advance(60)
        assert await store.close_abandoned("session", "stream", 30, "end") is False
        assert await store.after("session", "stream", 0) == [Event(1, "a")]

    async def test_abandoned_stream_is_deleted_after_its_time_limit(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(ABANDONED_AFTER - 1)
        assert await store.after("session", "stream", 0) == []
        clock.advance(2)
        assert await store.after("session", "stream", 0) is None
        assert await store.append("session", "stream", ["b"]) == 1

    async def test_open_stream_above_the_limit_per_session_is_rejected(
        self, store: EventStore
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        with pytest.raises(StoreFull):
            await store.append("session", "four", ["four"])
        assert await store.after("session", "four", 0) is None
        await store.append("session", "three", ["an open one goes on"])
        await store.append("another", "four", ["four"])

    async def test_stream_closed_first_is_deleted_when_the_limit_is_reached(
        self, store: EventStore, clock: Clock
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        for name in ("three", "two"):
            clock.advance(1)
            await store.close("session", name)
        await store.append("session", "four", ["four"])
        assert await store.after("session", "three", 0) is None
        assert await store.after("session", "one", 0) == [Event(1, "one")]
        assert await store.after("session", "two", 0) == [Event(1, "two")]
        assert await store.after("session", "four", 0) == [Event(1, "four")]

    async def test_expired_streams_do_not_count_toward_the_stream_limit(
        self, store: EventStore, clock: Clock
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        clock.advance(ABANDONED_AFTER + 1)
        assert await store.append("session", "four", ["four"]) == 1

    async def test_forget_deletes_all_streams_of_the_session(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "stream", ["a"])
        await store.append("another", "stream", ["b"])
        await other_worker.forget("session")
        assert await store.after("session", "stream", 0) is None
        assert await store.after("another", "stream", 0) == [Event(1, "b")]
        assert await store.append("session", "stream", ["c"]) == 1
        assert await store.after("session", "stream", 0) == [Event(1, "c")]

    async def test_append_does_not_create_a_stream_that_was_deleted(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        assert await store.append("session", "stream", ["early"], create=False) == 0
        assert await store.last("session", "stream") is None
        await store.append("session", "stream", ["a"])
        assert await other_worker.append("session", "stream", ["b"], create=False) == 2
        await other_worker.forget("session")
        assert await store.append("session", "stream", ["late"], create=False) == 0
        assert await store.last("session", "stream") is None

    async def test_forget_and_concurrent_appends_raise_no_error(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        late = [
            store.append("session", ("one", "two", "three")[i % 3], ["late"], create=False)
            for i in range(CONCURRENT_CALLS)
        ]
        moves = [store.move("session", "one", "two") for _ in range(3)]
        closes = [store.close("session", name) for name in ("one", "two", "three")]
        await asyncio.gather(*late[:10], other_worker.forget("session"), *closes, *late[10:])
        await asyncio.gather(*moves)
        for name in ("one", "two", "three"):
            assert await store.last("session", name) is None

    async def test_open_stream_expires_after_the_time_that_the_store_was_given(
        self, clock: Clock
    ) -> None:
        store = self.make_store(
            limit=5, lifetime=LIFETIME, streams=3, abandoned_after=2 * LIFETIME, now=clock
        )
        await store.append("session", "stream", ["a"])
        clock.advance(2 * LIFETIME - 1)
        assert await store.last("session", "stream") == 1
        await store.append("session", "stream", [])
        clock.advance(2 * LIFETIME - 1)
        assert await store.last("session", "stream") == 1
        clock.advance(2)
        assert await store.last("session", "stream") is None

    async def test_name_is_claimed_by_one_worker_at_a_time(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        claims = [worker.claim("work", 60) for worker in [store, other_worker] * 5]
        assert sorted(await asyncio.gather(*claims)) == [False] * 9 + [True]
        assert await store.claim("other work", 60) is True
        clock.advance(59)
        assert await other_worker.claim("work", 60) is False
        clock.advance(2)
        claims = [worker.claim("work", 60) for worker in [store, other_worker] * 5]
        assert sorted(await asyncio.gather(*claims)) == [False] * 9 + [True]

    async def test_prune_deletes_only_expired_events_and_streams(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "open", ["a", "b"])
        await store.append("session", "closed", ["c"])
        await store.close("session", "closed")
        clock.advance(LIFETIME / 2)
        await store.append("session", "open", ["d"])
        clock.advance(LIFETIME / 2 + 1)
        assert await store.prune() == (0 if self.forgets_by_itself else 3)
        assert await store.prune() == 0
        assert await store.after("session", "open", 0) == [Event(3, "d")]
        assert await store.after("session", "closed", 0) is None
