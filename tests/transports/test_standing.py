"""Which of a session's streams may speak, when they are on different workers and some die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from django_mcp import announce, hub
from django_mcp.transports import standing
from django_mcp.transports.standing import Position, Standing
from tests.site.test_hub import FakeLayer, until


class Stream:
    """One stream; as it is its own worker, it hears of the others by the group alone."""

    def __init__(self, name: str, *, heard: Position = None) -> None:
        self.name = name
        self.told: list[Position] = []
        self.heard = heard
        self.sentence: asyncio.Event | None = None
        self.standing = Standing("session", name, speak=self._speak, fall_silent=self._fall_silent)

    async def open(self) -> Stream:
        await hub.here().join(announce.of_session("session"), self.hear)
        await self.standing.open()
        return self

    async def close(self) -> None:
        hub.here().leave(announce.of_session("session"), self.hear)
        await self.standing.close(self.heard)

    def die(self) -> None:
        """Lose the connection to everybody else, without a word."""
        hub.here().leave(announce.of_session("session"), self.hear)

    def hear(self, message: hub.Message) -> None:
        self.standing.hear(message)

    def _speak(self, position: Position) -> None:
        self.told.append(position)

    async def _fall_silent(self) -> Position:
        if self.sentence is not None:
            await self.sentence.wait()
        return self.heard


@pytest.fixture(autouse=True)
async def layer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLayer]:
    """There are other workers, as far as streams can know."""
    layer = FakeLayer()
    monkeypatch.setattr(hub, "shared_layer", lambda: layer)
    monkeypatch.setattr(standing, "PATIENCE", 0.05)
    monkeypatch.setattr(standing, "LONG_PATIENCE", 0.5)
    yield layer
    for receiver in tuple(hub.here()._receivers.get(announce.of_session("session"), ())):
        hub.here().leave(announce.of_session("session"), receiver)
    await until(lambda: layer.receiving == 0)


def speaking(*streams: Stream) -> list[str]:
    return [stream.name for stream in streams if stream.standing.has_word]


async def test_who_is_alone_takes_the_word_when_nobody_answers() -> None:
    stream = await Stream("a").open()
    assert speaking(stream) == []
    await until(lambda: speaking(stream) == ["a"])
    assert stream.told == [None]


async def test_the_newer_is_given_the_word_and_how_far_the_client_was_told() -> None:
    older = await Stream("a", heard=7).open()
    await until(lambda: speaking(older))
    older.sentence = asyncio.Event()
    newer = await Stream("b").open()
    assert speaking(older, newer) == []  # The older one has not finished its sentence.
    older.sentence.set()
    await until(lambda: speaking(older, newer) == ["b"])
    assert newer.told == [7]


async def test_it_comes_back_when_the_newer_closes() -> None:
    older, newer = await Stream("a").open(), Stream("b", heard=9)
    await until(lambda: speaking(older))
    await newer.open()
    await until(lambda: speaking(older, newer) == ["b"])
    await newer.close()
    assert speaking(older, newer) == ["a"]
    assert older.told == [None, 9]


async def test_a_stream_in_the_middle_that_closes_changes_nothing() -> None:
    streams = [Stream(name) for name in "abc"]
    for stream in streams:
        await stream.open()
        await until(lambda stream=stream: speaking(*streams) == [stream.name])  # type: ignore[misc]
    await streams[1].close()
    assert speaking(*streams) == ["c"]
    await streams[2].close()
    assert speaking(*streams) == ["a"]


async def test_of_those_which_open_at_once_one_speaks() -> None:
    streams = [Stream(name) for name in "abcd"]
    await asyncio.gather(*(stream.open() for stream in streams))
    await until(lambda: speaking(*streams) == ["d"])
    await until(lambda: not any(stream.standing._is_waiting for stream in streams))
    assert speaking(*streams) == ["d"]


async def test_who_opens_while_the_word_is_on_its_way_gets_it() -> None:
    first = await Stream("a", heard=3).open()
    await until(lambda: speaking(first))
    first.sentence = asyncio.Event()
    second, third = await Stream("b").open(), await Stream("c").open()
    first.sentence.set()
    await until(lambda: speaking(first, second, third) == ["c"])
    assert third.told == [3]
    assert second.told == []


async def test_who_closes_while_the_word_is_on_its_way_does_not_keep_it() -> None:
    first = await Stream("a").open()
    await until(lambda: speaking(first))
    first.sentence = asyncio.Event()
    second = await Stream("b").open()
    await second.close()
    first.sentence.set()
    await until(lambda: speaking(first, second) == ["a"])


async def test_a_dead_stream_is_noticed() -> None:
    older, newer = await Stream("a").open(), Stream("b")
    await until(lambda: speaking(older))
    await newer.open()
    await until(lambda: speaking(older, newer) == ["b"])
    older.standing.probe()
    await until(lambda: not older.standing._is_waiting)
    assert speaking(older, newer) == ["b"]
    newer.die()
    older.standing.probe()
    await until(lambda: speaking(older) == ["a"])


async def test_who_was_never_answered_does_not_wait_for_ever() -> None:
    older, newer = await Stream("a").open(), Stream("b")
    await until(lambda: speaking(older))
    older.sentence = asyncio.Event()  # It says that it will pass the word on, and never does.
    await newer.open()
    await until(lambda: speaking(newer) == ["b"])
    older.sentence.set()


async def test_what_belongs_to_no_stream_here_is_left_alone() -> None:
    stream = await Stream("a").open()
    await until(lambda: speaking(stream))
    told: dict[str, Any] = {"event": "standing", "stream": "x", "to": "y", "heard": 1}
    for what in ("yielding", "yielded", "present"):
        stream.hear({**told, "standing": what})
    assert speaking(stream) == ["a"]
