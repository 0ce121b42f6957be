"""What the session stores of the package do beyond the contract for authors of stores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

import pytest

from django_mcp.core.frame.session import Change, Session
from django_mcp.stores.base import INITIALIZE_TIMEOUT, SessionStore, StoreFull
from tests.stores.contracts import (
    CONCURRENT_CALLS,
    IDLE_TIMEOUT,
    Clock,
    SessionStoreContract,
    a_session,
    created,
    put,
)


async def assigns(store: SessionStore, session: Session) -> Mapping[str, Any]:
    """The values of ``frame.assign`` in the store."""
    loaded = await store.load(session.id)
    assert loaded is not None
    return loaded.assigns


class SessionStoreCases(SessionStoreContract):
    async def test_sessions_are_isolated_from_each_other(self, store: SessionStore) -> None:
        first = await created(store, 1)
        second = await created(store, 2)
        await store.update(first.id, [put("mine", 1)])
        assert await store.load(second.id) == second
        await store.delete(first.id)
        assert await store.load(second.id) == second

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

    async def test_deletion_and_concurrent_updates_raise_no_error(
        self, store: SessionStore, other_worker: SessionStore
    ) -> None:
        session = await created(store, subscriptions=frozenset({"shop://a"}))
        deletion = asyncio.ensure_future(other_worker.delete(session.id))
        changes = [
            [put("a", i), Change("subscriptions", "include", f"shop://{i}")]
            for i in range(CONCURRENT_CALLS)
        ]
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

    async def test_uninitialized_session_lives_while_it_is_used(
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

    async def test_session_that_makes_room_is_no_subscriber(self, clock: Clock) -> None:
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

    async def test_session_that_a_principal_takes_over_no_longer_counts_as_anonymous(
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
        subscribed = {"subscriptions": frozenset({"shop://a"})}
        anonymous = await created(
            store, 2, principal="public:", caller="1.2.3.4", anonymous_at="", **subscribed
        )

        with pytest.raises(StoreFull):
            await store.update(anonymous.id, anonymous.for_principal("user:7", ""))

        assert await store.subscribers(anonymous.server, "shop://a") == [anonymous.address]
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
