"""What the event stores of the package do beyond the contract for authors of stores."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.stores.base import ABANDONED_AFTER, Event, EventStore
from tests.stores.contracts import (
    CONCURRENT_CALLS,
    LIFETIME,
    LIMIT,
    Clock,
    EventStoreContract,
    events,
)


class EventStoreCases(EventStoreContract):
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

    async def test_message_for_several_sessions_takes_the_place_of_a_closed_stream(
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

    async def test_unknown_stream_is_closed(self, store: EventStore) -> None:
        assert await store.is_closed("session", "stream") is True
        await store.close("session", "stream")
        assert await store.after("session", "stream", 0) is None

    async def test_stream_that_was_silent_for_longer_than_its_events_live_can_be_closed(
        self, store: EventStore, clock: Clock
    ) -> None:
        await store.append("session", "stream", ["a"])
        clock.advance(LIFETIME + 1)
        assert await store.close_abandoned("session", "stream", 30, "end") is True
        assert await store.after("session", "stream", 1) == [Event(2, "end")]

    async def test_closed_or_unknown_stream_is_not_abandoned(
        self, store: EventStore, clock: Clock
    ) -> None:
        assert await store.close_abandoned("session", "stream", 30, "end") is False
        await store.append("session", "stream", ["a"])
        await store.close("session", "stream")
        clock.advance(60)
        assert await store.close_abandoned("session", "stream", 30, "end") is False
        assert await store.after("session", "stream", 0) == [Event(1, "a")]

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

    async def test_closed_stream_expires_although_an_open_one_would_be_kept_longer(
        self, clock: Clock
    ) -> None:
        store = self.make_store(
            limit=5, lifetime=LIFETIME, streams=3, abandoned_after=4 * LIFETIME, now=clock
        )
        for name in ("open", "closed"):
            await store.append("session", name, ["a"])
        await store.close("session", "closed")
        clock.advance(LIFETIME + 1)
        assert await store.append("session", "closed", ["b"], create=False) == 0
        assert await store.append("session", "open", ["b"], create=False) == 2
