"""The experimental keepalive of the seeds: declaration, pings, and failed pings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, cast

import pytest

from django_mcp import Server, stores
from django_mcp.testing import Client
from django_mcp.transports.connection import stdio
from django_mcp.transports.http.session.standalone_stream import StandaloneStream
from django_mcp.transports.session_engine import KEEPALIVE, UNANSWERED, Keepalive
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

TIMEOUT = SECONDS


def server(**options: Any) -> Server:
    return Server("alive", **{"notify_lists_on_initialize": False, **options})


class ErrorRecorder:
    """The errors that handle_error received."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.once = asyncio.Event()

    def handle_error(self, message: str, error: BaseException | None) -> None:
        self.messages.append(message)
        self.once.set()


class TestDeclaration:
    async def declared(self, server: Server, version: str) -> dict[str, Any]:
        async with Client(server, version=version) as client:
            response = client.initialize_result or await client.request("server/discover")
        found: dict[str, Any] = response["capabilities"]
        return found

    async def test_keepalive_is_declared_only_while_enabled(self, mcp_version: str) -> None:
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

    @pytest.mark.parametrize("interval", [None, 0])
    def test_keepalive_without_an_interval_is_off(self, interval: int | None) -> None:
        assert server(keepalive_ms=interval).keepalive is None

    def test_threshold_below_one_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="failure_threshold.* is 0: write 1 or more"):
            server().set_keepalive(100, failure_threshold=0)


async def run_keepalive(threshold: int, outcomes: list[bool | None]) -> tuple[int, list[str]]:
    """The number of pings, and the errors, when sending succeeds, fails or (None) raises."""
    recorder, ended, sent = ErrorRecorder(), asyncio.Event(), []
    alive = server()
    alive.hook(recorder.handle_error)
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
    async with asyncio.timeout(TIMEOUT):
        await ended.wait()
    return len(sent), recorder.messages


class TestDeliveryFailure:
    async def test_keepalive_stops_and_reports_after_consecutive_failures(self) -> None:
        assert await run_keepalive(3, [False] * 10) == (3, [UNANSWERED])

    async def test_keepalive_with_a_threshold_of_one_stops_after_one_failure(self) -> None:
        assert await run_keepalive(1, [True, False, True]) == (2, [UNANSWERED])

    async def test_success_resets_the_failure_count(self) -> None:
        assert await run_keepalive(2, [False, True, False, True, False, True]) == (7, [])

    async def test_broken_pipe_counts_as_a_failure(self) -> None:
        assert await run_keepalive(2, [None] * 5) == (2, [UNANSWERED])

    async def test_keepalive_stops_when_it_is_disabled(self) -> None:
        assert await run_keepalive(3, []) == (1, [])


class TestOverHttp:
    async def test_keepalive_is_sent_repeatedly(self) -> None:
        peer = AsgiClient(server(keepalive_ms=1), NEWEST_SESSION)
        await peer.initialize()
        async with peer.stream() as stream:
            received = [await stream.message() for _ in range(3)]

        assert received == [{"jsonrpc": "2.0", "method": KEEPALIVE}] * 3

    async def test_session_ends_when_keepalives_cannot_be_delivered(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recorder = ErrorRecorder()
        alive = server(keepalive_ms=1)
        alive.hook(recorder.handle_error)
        peer = AsgiClient(alive, NEWEST_SESSION)
        await peer.initialize()
        async with peer.stream() as stream:
            await stream.message()
            monkeypatch.setattr(StandaloneStream, "is_stuck", True)
            async with asyncio.timeout(TIMEOUT):
                await recorder.once.wait()
                await stream.wait_closed()
            session = await stores.sessions().load(peer.session or "")
            reply = await peer.post(peer.request("ping"))

        assert recorder.messages == [UNANSWERED]
        assert session is None
        assert reply.status == 404


class StubStdout:
    """A pipe whose reader has closed it."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_broken = False

    def write(self, line: bytes) -> int:
        if self.is_broken:
            raise BrokenPipeError
        self.messages.put_nowait(json.loads(line))
        return len(line)

    def flush(self) -> None:
        """Do nothing."""


class TestOverStdio:
    async def test_connection_ends_when_keepalives_cannot_be_written(self) -> None:
        recorder, out = ErrorRecorder(), StubStdout()
        alive = server(keepalive_ms=1)
        alive.hook(recorder.handle_error)
        conversation = stdio.StdioConnection(alive, cast(BinaryIO, out))
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }

        greeted = asyncio.Event()

        async def lines() -> AsyncIterator[bytes]:
            yield _line({"id": 1, "method": "initialize", "params": params})
            await greeted.wait()
            yield _line({"method": "notifications/initialized"})
            await asyncio.Event().wait()

        serving = asyncio.ensure_future(conversation.serve(lines()))
        async with asyncio.timeout(TIMEOUT):
            assert "result" in await out.messages.get()
            greeted.set()
            received = [await out.messages.get() for _ in range(3)]
            out.is_broken = True
            await serving

        assert received == [{"jsonrpc": "2.0", "method": KEEPALIVE}] * 3
        assert recorder.messages == [UNANSWERED]


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
