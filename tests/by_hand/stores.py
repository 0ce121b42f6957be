"""Stores which note what is asked of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django_mcp.stores.base import Check
from django_mcp.stores.memory import MemoryEventStore, MemorySessionStore


class NotingSessionStore(MemorySessionStore):
    """Counts what is written, and has a clock that a test sets forward."""

    updates = 0
    later = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, now=lambda: time.time() + type(self).later)

    async def update(
        self, session_id: str, changes: Sequence[Any], *, check: Check | None = None
    ) -> Any:
        type(self).updates += 1
        return await super().update(session_id, changes, check=check)


class NotingEventStore(MemoryEventStore):
    """Counts the events which are read."""

    read = 0

    async def after(self, session: str, stream: str, number: int) -> Any:
        events = await super().after(session, stream, number)
        type(self).read += len(events or ())
        return events
