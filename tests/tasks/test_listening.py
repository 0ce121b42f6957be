"""Streams that cannot be opened: nothing of them stays."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from django_mcp.extensions import Stream
from django_mcp.pubsub import bus
from django_mcp.pubsub.publisher import of_task
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.tasks import listening, methods

IDS = ("first", "second")


class NoStream:
    """A stream that is given to no method that uses it."""

    frame = None

    def send(self, method: str, params: Any, /) -> None:
        raise AssertionError("Nothing is sent")


def are_followed() -> bool:
    return any(bus.here().has_subscribers(of_task(task_id)) for task_id in IDS)


async def test_stream_whose_tasks_cannot_be_read_leaves_no_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def find(frame: Any, task_id: str) -> None:
        if task_id == "second":
            raise StoreUnavailable

    monkeypatch.setattr(methods, "find", find)
    with pytest.raises(StoreUnavailable):
        await listening.open_stream(cast(Stream, NoStream()), IDS)

    assert not are_followed()


async def test_stream_that_is_cancelled_while_it_opens_leaves_no_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_reading = asyncio.Event()

    async def find(frame: Any, task_id: str) -> None:
        is_reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(methods, "find", find)
    opening = asyncio.create_task(listening.open_stream(cast(Stream, NoStream()), IDS))
    await is_reading.wait()
    was_followed = are_followed()
    opening.cancel()
    await asyncio.wait({opening})

    assert was_followed
    assert not are_followed()
