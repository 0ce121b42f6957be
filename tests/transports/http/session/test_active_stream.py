"""The active stream of a session, when its streams are on several workers and some fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from django_mcp.pubsub import bus, publisher
from django_mcp.transports.http.session import active_stream
from django_mcp.transports.http.session.active_stream import ActiveStream, LogPosition
from tests.pubsub.test_bus import FakeLayer, until


class Stream:
    """A stream on its own worker, which communicates with the others by the group only."""

    def __init__(self, name: str, *, heard: LogPosition = None) -> None:
        self.name = name
        self.told: list[LogPosition] = []
        self.heard = heard
        self.sentence: asyncio.Event | None = None
        self.standing = ActiveStream(
            "session", name, speak=self._speak, fall_silent=self._fall_silent
        )

    async def open(self) -> Stream:
        await bus.here().join(publisher.of_session("session"), self.hear)
        await self.standing.open()
        return self

    async def close(self) -> None:
        bus.here().leave(publisher.of_session("session"), self.hear)
        await self.standing.close(self.heard)

    def die(self) -> None:
        """Lose the connection to all others without a message."""
        bus.here().leave(publisher.of_session("session"), self.hear)

    def hear(self, message: bus.Message) -> None:
        self.standing.hear(message)

    def _speak(self, position: LogPosition) -> None:
        self.told.append(position)

    async def _fall_silent(self) -> LogPosition:
        if self.sentence is not None:
            await self.sentence.wait()
        return self.heard


@pytest.fixture(autouse=True)
async def layer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLayer]:
    """Other workers exist, as far as streams know."""
    layer = FakeLayer()
    monkeypatch.setattr(bus, "shared_layer", lambda: layer)
    monkeypatch.setattr(active_stream, "PATIENCE", 0.05)
    monkeypatch.setattr(active_stream, "LONG_PATIENCE", 0.5)
    yield layer
    for receiver in tuple(bus.here()._receivers.get(publisher.of_session("session"), ())):
        bus.here().leave(publisher.of_session("session"), receiver)
    await until(lambda: layer.receiving == 0)


def active_streams(*streams: Stream) -> list[str]:
    return [stream.name for stream in streams if stream.standing.has_word]


async def test_single_stream_becomes_active_when_no_other_stream_answers() -> None:
    stream = await Stream("a").open()
    assert active_streams(stream) == []
    await until(lambda: active_streams(stream) == ["a"])
    assert stream.told == [None]


async def test_newer_stream_becomes_active_at_the_position_of_the_older() -> None:
    older = await Stream("a", heard=7).open()
    await until(lambda: active_streams(older))
    older.sentence = asyncio.Event()
    newer = await Stream("b").open()
    assert active_streams(older, newer) == []  # The older stream has not flushed its pending event.
    older.sentence.set()
    await until(lambda: active_streams(older, newer) == ["b"])
    assert newer.told == [7]


async def test_older_stream_becomes_active_again_when_the_newer_closes() -> None:
    older, newer = await Stream("a").open(), Stream("b", heard=9)
    await until(lambda: active_streams(older))
    await newer.open()
    await until(lambda: active_streams(older, newer) == ["b"])
    await newer.close()
    assert active_streams(older, newer) == ["a"]
    assert older.told == [None, 9]


async def test_inactive_stream_that_closes_changes_nothing() -> None:
    streams = [Stream(name) for name in "abc"]
    for stream in streams:
        await stream.open()
        await until(lambda stream=stream: active_streams(*streams) == [stream.name])  # type: ignore[misc]
    await streams[1].close()
    assert active_streams(*streams) == ["c"]
    await streams[2].close()
    assert active_streams(*streams) == ["a"]


async def test_one_of_several_streams_opened_at_once_becomes_active() -> None:
    streams = [Stream(name) for name in "abcd"]
    await asyncio.gather(*(stream.open() for stream in streams))
    await until(lambda: active_streams(*streams) == ["d"])
    await until(lambda: not any(stream.standing._is_waiting for stream in streams))
    assert active_streams(*streams) == ["d"]


async def test_stream_opened_during_a_handover_becomes_active() -> None:
    first = await Stream("a", heard=3).open()
    await until(lambda: active_streams(first))
    first.sentence = asyncio.Event()
    second, third = await Stream("b").open(), await Stream("c").open()
    first.sentence.set()
    await until(lambda: active_streams(first, second, third) == ["c"])
    assert third.told == [3]
    assert second.told == []


async def test_stream_closed_during_a_handover_does_not_stay_active() -> None:
    first = await Stream("a").open()
    await until(lambda: active_streams(first))
    first.sentence = asyncio.Event()
    second = await Stream("b").open()
    await second.close()
    first.sentence.set()
    await until(lambda: active_streams(first, second) == ["a"])


async def test_dead_active_stream_is_replaced() -> None:
    older, newer = await Stream("a").open(), Stream("b")
    await until(lambda: active_streams(older))
    await newer.open()
    await until(lambda: active_streams(older, newer) == ["b"])
    older.standing.probe()
    await until(lambda: not older.standing._is_waiting)
    assert active_streams(older, newer) == ["b"]
    newer.die()
    older.standing.probe()
    await until(lambda: active_streams(older) == ["a"])


async def test_handover_that_is_never_completed_times_out() -> None:
    older, newer = await Stream("a").open(), Stream("b")
    await until(lambda: active_streams(older))
    older.sentence = asyncio.Event()  # It announces the handover, but does not complete it.
    await newer.open()
    await until(lambda: active_streams(newer) == ["b"])
    older.sentence.set()


async def test_handover_messages_for_other_streams_are_ignored() -> None:
    stream = await Stream("a").open()
    await until(lambda: active_streams(stream))
    told: dict[str, Any] = {"event": "standing", "stream": "x", "to": "y", "heard": 1}
    for what in ("yielding", "yielded", "present"):
        stream.hear({**told, "standing": what})
    assert active_streams(stream) == ["a"]
