"""The memory stores satisfy the contracts, and expire entries by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp.stores.base import EventStore, SessionStore
from django_mcp.stores.memory import MemoryEventStore, MemorySessionStore
from tests.spec import spec
from tests.stores.contracts import (
    LIFETIME,
    Clock,
    a_session,
)
from tests.stores.event_cases import EventStoreCases
from tests.stores.session_cases import SessionStoreCases


@spec("LIFE-08", "SEC-05")
class TestMemorySessions(SessionStoreCases):
    def make_store(self, **bounds: Any) -> SessionStore:
        return MemorySessionStore(**bounds)

    @pytest.fixture
    def other_worker(self, store: SessionStore) -> SessionStore:
        return store

    async def test_new_session_prunes_expired_sessions(self, clock: Clock) -> None:
        store = MemorySessionStore(idle_timeout=10, limit_per_principal=100, now=clock)
        for number in range(3):
            await store.create(a_session(number))
        clock.advance(11)
        await store.create(a_session(3))
        assert await store.prune() == 0


class TestMemoryEvents(EventStoreCases):
    def make_store(self, **bounds: Any) -> EventStore:
        return MemoryEventStore(**bounds)

    @pytest.fixture
    def other_worker(self, store: EventStore) -> EventStore:
        return store

    async def test_new_stream_prunes_expired_events(self, store: EventStore, clock: Clock) -> None:
        await store.append("abandoned", "stream", ["a"])
        clock.advance(LIFETIME)
        await store.append("session", "stream", ["b"])
        assert await store.prune() == 0
