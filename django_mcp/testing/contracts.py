"""What every store must do, as test cases: whoever writes a store subclasses these.

They are run by pytest with pytest-asyncio, one subclass for each way of making the store::

    class TestEtcdSessions(SessionStoreContract):
        def make_store(self, **bounds):
            return EtcdSessionStore(**bounds, prefix="test")

Two stores made in one test share what they keep, as two workers do; a store which lives in one
process gives the fixture ``other_worker`` another body and returns ``store``. What one test has
kept must not be there for the next.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.session import Change, Session, address
from django_mcp.stores.base import ABANDONED, Event, EventStore, SessionStore, StoreFull

IDLE_TIMEOUT = 1800.0
LIFETIME = 600.0
AT_ONCE = 20
LIMIT = 25


@dataclass
class Clock:
    """A clock which stands still until it is told to go on."""

    seconds: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def a_session(number: int = 1, **members: Any) -> Session:
    """A session as ``initialize`` makes it."""
    values = {"server": "shop", "principal": "user:7", "version": REVISIONS[0].version, **members}
    return Session(id=f"secret-{number}", **values)


def put(key: str, value: Any) -> Change:
    """What ``frame.assign`` records."""
    return Change("assigns", "put", key, value)


def subscribe(uri: str) -> Change:
    """What ``resources/subscribe`` records."""
    return Change("subscriptions", "include", uri)


def unsubscribe(uri: str) -> Change:
    """What ``resources/unsubscribe`` records."""
    return Change("subscriptions", "exclude", uri)


@pytest.mark.asyncio
class SessionStoreContract(ABC):
    """What a SessionStore must do."""

    forgets_by_itself = False
    """Whether ``prune`` finds nothing, because the backend drops what has expired."""

    @abstractmethod
    def make_store(self, **bounds: Any) -> SessionStore:
        """A store with these ``idle_timeout``, ``limit_per_principal`` and ``now``."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, clock: Clock) -> SessionStore:
        return self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=100, now=clock)

    @pytest.fixture
    def other_worker(self, clock: Clock, store: SessionStore) -> SessionStore:
        return self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=100, now=clock)

    async def test_a_session_is_loaded_as_it_was_created(self, store: SessionStore) -> None:
        session = a_session(
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
        await store.create(session)
        assert await store.load(session.id) == session

    async def test_an_unknown_session_is_none(self, store: SessionStore) -> None:
        assert await store.load("never-created") is None
        assert await store.update("never-created", [put("a", 1)]) is None
        assert await store.delete("never-created") is False
        await store.touch("never-created")
        assert await store.load("never-created") is None

    async def test_a_session_cannot_be_loaded_by_its_address(self, store: SessionStore) -> None:
        session = a_session()
        await store.create(session)
        assert await store.load(session.address) is None

    async def test_other_workers_see_what_one_has_written(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = a_session()
        await store.create(session)
        await other_worker.update(session.id, [put("seen", "there")])
        loaded = await store.load(session.id)
        assert loaded is not None
        assert loaded.assigns == {"seen": "there"}

    async def test_sessions_do_not_see_each_other(self, store: SessionStore) -> None:
        first, second = a_session(1), a_session(2)
        await store.create(first)
        await store.create(second)
        await store.update(first.id, [put("mine", 1)])
        assert await store.load(second.id) == second
        await store.delete(first.id)
        assert await store.load(second.id) == second

    async def test_changes_are_applied_in_their_order(self, store: SessionStore) -> None:
        session = a_session(assigns={"old": 1, "older": 2})
        await store.create(session)
        updated = await store.update(
            session.id,
            [
                Change("assigns", "remove", "old"),
                put("new", {"nested": [1]}),
                put("new", "again"),
                Change("log_level", "set", value="error"),
            ],
        )
        expected = replace(session, assigns={"older": 2, "new": "again"}, log_level="error")
        assert updated == expected
        assert await store.load(session.id) == expected

    async def test_a_value_comes_back_as_json_has_it(self, store: SessionStore) -> None:
        session = a_session()
        await store.create(session)
        value = {"pair": (1, 2), "frozen": MappingProxyType({"a": 1})}
        updated = await store.update(session.id, [put("value", value)])
        loaded = await store.load(session.id)
        assert updated == loaded
        assert loaded is not None
        assert loaded.assigns == {"value": {"pair": [1, 2], "frozen": {"a": 1}}}

    async def test_a_value_which_json_cannot_say_is_refused(self, store: SessionStore) -> None:
        session = a_session()
        await store.create(session)
        with pytest.raises(TypeError, match="date"):
            await store.update(session.id, [put("fine", 1), put("day", date(2026, 1, 1))])
        assert await store.load(session.id) == session

    async def test_a_change_in_place_changes_nothing_that_is_kept(
        self, store: SessionStore
    ) -> None:
        lines = ["first"]
        session = a_session(assigns={"lines": lines})
        await store.create(session)
        lines.append("behind the store's back")
        loaded = await store.load(session.id)
        assert loaded is not None
        loaded.assigns["lines"].append("behind the store's back")
        assert await store.load(session.id) == a_session(assigns={"lines": ["first"]})

    async def test_updates_of_different_keys_at_once_are_all_kept(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = a_session()
        await store.create(session)
        workers = [store, other_worker] * (AT_ONCE // 2)
        await asyncio.gather(
            *(
                worker.update(session.id, [put(f"key {number}", number)])
                for number, worker in enumerate(workers)
            )
        )
        loaded = await store.load(session.id)
        assert loaded is not None
        assert loaded.assigns == {f"key {number}": number for number in range(AT_ONCE)}

    async def test_updates_of_one_key_at_once_leave_one_of_their_values(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = a_session()
        await store.create(session)
        results = await asyncio.gather(
            *(
                worker.update(session.id, [put("winner", number), put(f"ran {number}", True)])
                for number, worker in enumerate([store, other_worker] * (AT_ONCE // 2))
            )
        )
        loaded = await store.load(session.id)
        assert loaded is not None
        # Each was applied to what the one before had left: they differ in length, the last
        # is what is kept, and it has everybody's mark.
        lengths = sorted(len(result.assigns) for result in results if result is not None)
        assert lengths == list(range(2, AT_ONCE + 2))
        assert loaded in results
        assert len(loaded.assigns) == AT_ONCE + 1

    async def test_a_deleted_session_is_gone_everywhere(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = a_session()
        await store.create(session)
        assert await other_worker.delete(session.id) is True
        assert await store.load(session.id) is None
        assert await store.update(session.id, [put("a", 1)]) is None
        assert await store.delete(session.id) is False

    async def test_an_unused_session_expires(self, store: SessionStore, clock: Clock) -> None:
        session = a_session()
        await store.create(session)
        clock.advance(IDLE_TIMEOUT + 1)
        await store.touch(session.id)
        assert await store.load(session.id) is None
        assert await store.update(session.id, [put("a", 1)]) is None
        assert await store.delete(session.id) is False

    @pytest.mark.parametrize("use", ["load", "touch", "update"])
    async def test_a_used_session_lives_on(
        self, store: SessionStore, clock: Clock, use: str
    ) -> None:
        session = a_session()
        await store.create(session)
        for _ in range(3):
            clock.advance(IDLE_TIMEOUT * 0.9)
            if use == "update":
                await store.update(session.id, [])
            else:
                await getattr(store, use)(session.id)
        assert await store.load(session.id) == session

    async def test_prune_forgets_the_expired_and_nothing_else(
        self, store: SessionStore, clock: Clock
    ) -> None:
        for number in range(3):
            await store.create(a_session(number))
        clock.advance(IDLE_TIMEOUT / 2)
        await store.create(a_session(3))
        clock.advance(IDLE_TIMEOUT / 2 + 1)
        assert await store.prune() == (0 if self.forgets_by_itself else 3)
        assert await store.prune() == 0
        assert await store.load(a_session(0).id) is None
        assert await store.load(a_session(3).id) == a_session(3)

    async def test_a_principal_has_a_bounded_number_of_sessions(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        await store.create(a_session(1))
        await store.create(a_session(2, server="another"))
        with pytest.raises(StoreFull):
            await store.create(a_session(3))
        assert await store.load(a_session(3).id) is None
        await store.create(a_session(4, principal="user:8"))

    async def test_principals_whose_names_differ_in_case_are_different(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=1, now=clock)
        await store.create(a_session(1, principal="user:ann"))
        await store.create(a_session(2, principal="user:Ann"))
        with pytest.raises(StoreFull):
            await store.create(a_session(3, principal="user:ann"))

    async def test_sessions_that_ended_or_expired_make_room(self, clock: Clock) -> None:
        store = self.make_store(idle_timeout=IDLE_TIMEOUT, limit_per_principal=2, now=clock)
        await store.create(a_session(1))
        await store.create(a_session(2))
        await store.delete(a_session(1).id)
        await store.create(a_session(3))
        clock.advance(IDLE_TIMEOUT + 1)
        await store.create(a_session(4))
        await store.create(a_session(5))
        with pytest.raises(StoreFull):
            await store.create(a_session(6))

    async def test_the_subscribers_of_a_resource_are_found_by_address(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        for number in range(3):
            await store.create(a_session(number))
        await store.update(a_session(0).id, [subscribe("shop://a"), subscribe("shop://b")])
        await other_worker.update(a_session(1).id, [subscribe("shop://a")])
        assert sorted(await other_worker.subscribers("shop", "shop://a")) == sorted(
            [a_session(0).address, a_session(1).address]
        )
        assert await store.subscribers("shop", "shop://b") == [a_session(0).address]
        assert await store.subscribers("shop", "shop://c") == []
        assert await store.subscribers("another", "shop://a") == []

    async def test_who_unsubscribed_ended_or_expired_is_no_subscriber(
        self, store: SessionStore, clock: Clock
    ) -> None:
        for number in range(3):
            await store.create(a_session(number, subscriptions=frozenset({"shop://a"})))
        assert len(await store.subscribers("shop", "shop://a")) == 3
        await store.update(a_session(0).id, [unsubscribe("shop://a")])
        await store.delete(a_session(1).id)
        assert await store.subscribers("shop", "shop://a") == [address("secret-2")]
        clock.advance(IDLE_TIMEOUT + 1)
        assert await store.subscribers("shop", "shop://a") == []


@pytest.mark.asyncio
class EventStoreContract(ABC):
    """What an EventStore must do."""

    forgets_by_itself = False
    """Whether ``prune`` finds nothing, because the backend drops what is too old."""

    @abstractmethod
    def make_store(self, **bounds: Any) -> EventStore:
        """A store with these ``limit``, ``lifetime``, ``streams`` and ``now``."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, clock: Clock) -> EventStore:
        return self.make_store(limit=LIMIT, lifetime=LIFETIME, streams=3, now=clock)

    @pytest.fixture
    def other_worker(self, clock: Clock, store: EventStore) -> EventStore:
        return self.make_store(limit=LIMIT, lifetime=LIFETIME, streams=3, now=clock)

    async def test_numbers_begin_with_one_and_grow_by_one(self, store: EventStore) -> None:
        assert await store.append("session", "stream", ["a", "b"]) == 2
        assert await store.append("session", "stream", ["c"]) == 3
        assert await store.after("session", "stream", 0) == [
            Event(1, "a"),
            Event(2, "b"),
            Event(3, "c"),
        ]

    async def test_only_later_events_are_replayed(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "stream", ["a", "", '{"é": "\\u0000"}'])
        assert await other_worker.after("session", "stream", 1) == [
            Event(2, ""),
            Event(3, '{"é": "\\u0000"}'),
        ]
        assert await other_worker.after("session", "stream", 3) == []
        assert await other_worker.after("session", "stream", 99) == []

    async def test_a_stream_is_known_from_its_first_append(self, store: EventStore) -> None:
        assert await store.after("session", "stream", 0) is None
        assert await store.append("session", "stream", []) == 0
        assert await store.after("session", "stream", 0) == []

    async def test_streams_and_sessions_do_not_see_each_other(self, store: EventStore) -> None:
        await store.append("session", "stream", ["mine"])
        await store.append("session", "Stream", ["mine too"])
        await store.append("another", "stream", ["not mine"])
        assert await store.after("session", "stream", 0) == [Event(1, "mine")]
        assert await store.after("session", "Stream", 0) == [Event(1, "mine too")]
        assert await store.after("another", "Stream", 0) is None

    async def test_appends_at_once_share_no_number(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        numbers = await asyncio.gather(
            *(
                worker.append("session", "stream", [f"message {message}"])
                for message, worker in enumerate([store, other_worker] * (AT_ONCE // 2))
            )
        )
        assert sorted(numbers) == list(range(1, AT_ONCE + 1))
        assert await store.after("session", "stream", 0) == [
            Event(number, f"message {numbers.index(number)}") for number in sorted(numbers)
        ]

    async def test_a_stream_keeps_its_newest_events(self, clock: Clock) -> None:
        store = self.make_store(limit=5, lifetime=LIFETIME, streams=3, now=clock)
        await store.append("session", "stream", "abcd")
        assert await store.append("session", "stream", "efg") == 7
        assert await store.after("session", "stream", 0) == [
            Event(number, text) for number, text in enumerate("cdefg", 3)
        ]

    async def test_events_expire_but_numbers_go_on(self, store: EventStore, clock: Clock) -> None:
        await store.append("session", "stream", ["old"])
        clock.advance(LIFETIME / 2)
        await store.append("session", "stream", ["new"])
        clock.advance(LIFETIME / 2 + 1)
        assert await store.after("session", "stream", 0) == [Event(2, "new")]
        clock.advance(LIFETIME)
        assert await store.after("session", "stream", 0) == []
        assert await store.append("session", "stream", ["newer"]) == 3

    async def test_moved_events_continue_the_other_stream(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "box", ["a", "b"])
        await store.append("session", "stream", ["before"])
        await store.append("another", "box", ["not mine"])
        assert await other_worker.move("session", "box", "stream") == [Event(2, "a"), Event(3, "b")]
        assert await store.after("session", "box", 0) == []
        assert await store.after("session", "stream", 1) == [Event(2, "a"), Event(3, "b")]
        assert await store.append("session", "box", ["c"]) == 3
        assert await store.move("session", "box", "new") == [Event(1, "c")]
        assert await store.after("another", "box", 0) == [Event(1, "not mine")]

    async def test_nothing_is_moved_from_an_empty_or_unknown_stream(
        self, store: EventStore, clock: Clock
    ) -> None:
        assert await store.move("session", "box", "stream") == []
        await store.append("session", "box", ["old"])
        clock.advance(LIFETIME + 1)
        assert await store.move("session", "box", "stream") == []
        assert await store.after("session", "stream", 0) is None

    async def test_of_many_who_move_each_event_goes_to_one(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "box", list("abc"))
        moved = await asyncio.gather(
            *(worker.move("session", "box", "stream") for worker in [store, other_worker] * 5)
        )
        assert sorted(map(len, moved)) == [0] * 9 + [3]
        assert await store.after("session", "stream", 0) == [
            Event(number, text) for number, text in enumerate("abc", 1)
        ]

    async def test_a_closed_stream_can_be_replayed_until_it_expires(
        self, store: EventStore, other_worker: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        assert await store.is_closed("session", "stream") is False
        await other_worker.close("session", "stream")
        assert await store.is_closed("session", "stream") is True
        assert await store.after("session", "stream", 0) == [Event(1, "a")]
        clock.advance(LIFETIME + 1)
        assert await store.after("session", "stream", 0) is None

    async def test_an_unknown_stream_counts_as_closed(self, store: EventStore) -> None:
        assert await store.is_closed("session", "stream") is True
        await store.close("session", "stream")
        assert await store.after("session", "stream", 0) is None

    async def test_an_abandoned_stream_is_forgotten_in_the_end(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(ABANDONED - 1)
        assert await store.after("session", "stream", 0) == []
        clock.advance(2)
        assert await store.after("session", "stream", 0) is None
        assert await store.append("session", "stream", ["b"]) == 1

    async def test_a_session_has_a_bounded_number_of_open_streams(self, store: EventStore) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        with pytest.raises(StoreFull):
            await store.append("session", "four", ["four"])
        assert await store.after("session", "four", 0) is None
        await store.append("session", "three", ["an open one goes on"])
        await store.append("another", "four", ["four"])

    async def test_the_closed_stream_that_was_quiet_longest_makes_room(
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

    async def test_streams_that_expired_make_room(self, store: EventStore, clock: Clock) -> None:
        for name in ("one", "two", "three"):
            await store.append("session", name, [name])
        clock.advance(ABANDONED + 1)
        assert await store.append("session", "four", ["four"]) == 1

    async def test_a_forgotten_session_has_no_streams(
        self, store: EventStore, other_worker: EventStore
    ) -> None:
        await store.append("session", "stream", ["a"])
        await store.append("another", "stream", ["b"])
        await other_worker.forget("session")
        assert await store.after("session", "stream", 0) is None
        assert await store.after("another", "stream", 0) == [Event(1, "b")]
        assert await store.append("session", "stream", ["c"]) == 1
        assert await store.after("session", "stream", 0) == [Event(1, "c")]

    async def test_prune_forgets_what_is_too_old_and_nothing_else(
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
