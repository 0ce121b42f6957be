"""Tests of events: what a block of code has emitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_mcp.contrib.events import interest
from django_mcp.contrib.events.declaration import Event
from django_mcp.contrib.events.models import Occurrence


class Emitted:
    """The occurrences of a block, once it has ended."""

    def __init__(self) -> None:
        self.occurrences: list[Occurrence] = []

    @property
    def data(self) -> list[dict[str, Any]]:
        """The payloads; of events with a model, there are none before they are delivered."""
        stored = (each.data for each in self.occurrences if not each.object_key)
        return [json.loads(data) for data in stored]

    @property
    def keys(self) -> list[str]:
        """The primary keys of the objects, as strings."""
        return [each.object_key for each in self.occurrences]


@contextmanager
def assert_event_sent(event: Event, times: int = 1) -> Iterator[Emitted]:
    """Assert that the block emits an event so many times, as if somebody listened.

    It raises AssertionError otherwise. What is rolled back in the block is not counted.
    """
    if event.server is None:
        raise AssertionError(f"The event {event.name} is not registered on a server")
    server = event.server.name
    interest.begin(server, event.name)
    interest.HERE.read()
    rows = Occurrence._default_manager.filter(server=server, event=event.name).order_by("id")
    before = set(rows.values_list("pk", flat=True))
    emitted = Emitted()
    yield emitted
    emitted.occurrences = list(rows.exclude(pk__in=before))
    count = len(emitted.occurrences)
    if count != times:
        raise AssertionError(f"{event.name} was emitted {count} times, not {times}")
