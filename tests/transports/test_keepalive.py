"""The experimental keepalive of the seeds: declared, sent, and what follows when it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, cast

import pytest

from django_mcp import Server, stores
from django_mcp.testing import Client
from django_mcp.transports import stdio
from django_mcp.transports.keepalive import GIVEN_UP, METHOD, Keepalive
from django_mcp.transports.session_streams import StandaloneStream
from tests.transports.driving import Peer, message_of

PATIENCE = 10


def server(**options: Any) -> Server:
    return Server("alive", **{"announce_on_start": False, **options})


class Told:
    """What handle_error was told."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.once = asyncio.Event()

    def __call__(self, message: str, error: BaseException | None) -> None:
        self.messages.append(message)
        self.once.set()


class TestWhatIsDeclared:
    async def declared(self, server: Server, version: str) -> dict[str, Any]:
        async with Client(server, version=version) as client:
            welcome = client.welcome or await client.request("server/discover")
        found: dict[str, Any] = welcome["capabilities"]
        return found

    async def test_it_is_declared_for_as_long_as_it_is_on(self, mcp_version: str) -> None:
        alive = server()
        before = await self.declared(alive, mcp_version)
        alive.set_keepalive(100)
        during = await self.declared(alive, mcp_version)
        alive.set_keepalive(200, failure_threshold=5)
        changed = await self.declared(alive, mcp_version)
        alive.set_keepalive(0)
        after = await self.declared(alive, mcp_version)

        assert during["experimental"] == {
            "keepalive": {"enabled": True, "intervalMs": 100, "failureThreshold": 3}
        }
        assert changed["experimental"]["keepalive"]["failureThreshold"] == 5
        assert "experimental" not in before
        assert "experimental" not in after

    @pytest.mark.parametrize("interval", [None, 0, -5])
    def test_without_an_interval_it_is_off(self, interval: int | None) -> None:
        assert server(keepalive_ms=interval).keepalive is None

    def test_a_threshold_is_at_least_one(self) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            server().set_keepalive(100, failure_threshold=0)


async def failing(threshold: int, outcomes: list[bool | None]) -> tuple[int, list[str]]:
    """How many are sent, and what is told, when sending them succeeds, fails or (None) raises."""
    told, ended, sent = Told(), asyncio.Event(), []
    alive = server(handle_error=told)
    alive.set_keepalive(1, failure_threshold=threshold)

    def send(message: bytes) -> bool:
        sent.append(message)
        if not outcomes:
            alive.set_keepalive(None)
            asyncio.get_running_loop().call_soon(ended.set)
            return True
        outcome = outcomes.pop(0)
        if outcome is None:
            raise BrokenPipeError
        return outcome

    async def give_up() -> None:
        ended.set()

    Keepalive(alive, send=send, give_up=give_up).start()
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    return len(sent), told.messages


class TestFailing:
    async def test_so_many_failures_in_a_row_end_it_and_are_told(self) -> None:
        assert await failing(3, [False] * 10) == (3, [GIVEN_UP])

    async def test_one_may_be_enough(self) -> None:
        assert await failing(1, [True, False, True]) == (2, [GIVEN_UP])

    async def test_a_success_between_them_begins_the_count_anew(self) -> None:
        assert await failing(2, [False, True, False, True, False, True]) == (7, [])

    async def test_a_pipe_which_is_broken_is_a_failure(self) -> None:
        assert await failing(2, [None] * 5) == (2, [GIVEN_UP])

    async def test_it_stops_when_it_is_switched_off(self) -> None:
        assert await failing(3, []) == (1, [])


class TestOverHttp:
    async def test_it_is_sent_again_and_again(self) -> None:
        peer = Peer(server(keepalive_ms=1))
        await peer.initialize()
        async with peer.stream() as stream:
            heard = [await message_of(stream) for _ in range(3)]

        assert heard == [{"jsonrpc": "2.0", "method": METHOD}] * 3

    async def test_when_nobody_takes_it_the_session_is_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = Told()
        alive = server(handle_error=told, keepalive_ms=1)
        peer = Peer(alive)
        await peer.initialize()
        async with peer.stream() as stream:
            await message_of(stream)
            monkeypatch.setattr(StandaloneStream, "is_stuck", True)
            async with asyncio.timeout(PATIENCE):
                await told.once.wait()
                await stream.ended()
            gone = await stores.sessions().load(peer.session or "")
            reply = await peer.post(peer.request("ping"))

        assert told.messages == [GIVEN_UP]
        assert gone is None
        assert reply.status == 404


class Out:
    """A pipe whose reader goes."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_broken = False

    def write(self, line: bytes) -> int:
        if self.is_broken:
            raise BrokenPipeError
        self.messages.put_nowait(json.loads(line))
        return len(line)

    def flush(self) -> None:
        """Nothing waits."""


class TestOverStdio:
    async def test_it_is_sent_until_nobody_reads_it_which_ends_the_conversation(self) -> None:
        told, out = Told(), Out()
        alive = server(handle_error=told, keepalive_ms=1)
        conversation = stdio.Conversation(alive, cast(BinaryIO, out))
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }

        greeted = asyncio.Event()

        async def lines() -> AsyncIterator[bytes]:
            yield _line({"id": 1, "method": "initialize", "params": hello})
            await greeted.wait()
            yield _line({"method": "notifications/initialized"})
            await asyncio.Event().wait()

        serving = asyncio.ensure_future(conversation.serve(lines()))
        async with asyncio.timeout(PATIENCE):
            assert "result" in await out.messages.get()
            greeted.set()
            heard = [await out.messages.get() for _ in range(3)]
            out.is_broken = True
            await serving

        assert heard == [{"jsonrpc": "2.0", "method": METHOD}] * 3
        assert told.messages == [GIVEN_UP]


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
