"""A client over stdio that reads slowly, or not at all, or has gone."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, BinaryIO, cast

import pytest

from django_mcp import Frame, Server
from django_mcp.transports.connection import stdio
from django_mcp.transports.connection.stdio import StdioConnection, StdoutSink
from tests.waiting import SECONDS

TIMEOUT = SECONDS
LINE = b"x" * 99


class Pipe:
    """A pipe whose writing end does not block."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self.out = cast(BinaryIO, os.fdopen(writer, "wb", buffering=0))

    def read(self, size: int) -> bytes:
        return os.read(self.reader, size)

    def stop_reading(self) -> None:
        os.close(self.reader)
        self.reader = -1

    def close(self) -> None:
        self.out.close()
        if self.reader >= 0:
            self.stop_reading()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


async def read_all(pipe: Pipe, size: int) -> bytes:
    """Read this many bytes, in pieces."""
    found = b""
    while len(found) < size:
        found += await asyncio.to_thread(pipe.read, 10_000)
    return found


async def test_everything_is_written_in_order_to_a_slow_reader(pipe: Pipe) -> None:
    sink = StdoutSink(pipe.out)
    for number in range(5000):
        sink.write(b"%099d" % number)
    assert sink.is_stuck

    async with asyncio.timeout(TIMEOUT):
        found = await read_all(pipe, 500_000)
        await sink.wait_for_room(0)

    assert [*map(int, found.split())] == [*range(5000)]
    assert not sink.is_stuck


async def test_message_is_written_at_once_to_a_client_that_reads(pipe: Pipe) -> None:
    StdoutSink(pipe.out).write(LINE)
    assert pipe.read(1000) == LINE + b"\n"


async def test_sink_of_a_client_that_has_gone_is_stuck(pipe: Pipe) -> None:
    sink = StdoutSink(pipe.out)
    pipe.stop_reading()
    sink.write(LINE)
    assert sink.is_stuck
    sink.write(LINE)


async def test_client_that_goes_while_much_waits_ends_the_wait(pipe: Pipe) -> None:
    sink = StdoutSink(pipe.out)
    sink.write(LINE * 10_000)
    pipe.stop_reading()
    async with asyncio.timeout(TIMEOUT):
        await sink.wait_for_room(0)
    assert sink.is_broken


async def test_client_that_reads_nothing_is_given_up(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stdio, "MAX_UNREAD", 200_000)

    async def lines() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    connection = StdioConnection(Server("shop"), pipe.out)
    serving = asyncio.ensure_future(connection.serve(lines()))
    await asyncio.sleep(0)
    for _ in range(4000):
        connection.write(LINE)
    async with asyncio.timeout(TIMEOUT):
        await serving

    assert "does not read" in caplog.text


async def test_no_message_is_read_while_too_much_waits(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING", 1000)
    taken: list[int] = []

    async def lines() -> AsyncIterator[bytes]:
        for number in range(3000):
            taken.append(number)
            yield json.dumps({"jsonrpc": "2.0", "id": number, "method": "nothing"}).encode()
            await asyncio.sleep(0)

    connection = StdioConnection(Server("shop"), pipe.out)
    serving = asyncio.ensure_future(connection.serve(lines()))
    await asyncio.sleep(0.3)
    paused = len(taken)
    await asyncio.sleep(0.1)
    assert len(taken) == paused < 3000

    found = b""
    async with asyncio.timeout(TIMEOUT):
        while found.count(b"\n") < 3000:
            found += await asyncio.to_thread(pipe.read, 10_000)
        await serving
    assert len(taken) == 3000


@pytest.mark.parametrize("is_async", [True, False])
async def test_handler_that_sends_much_waits_for_its_client(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(stdio, "MAX_WAITING", 1000)
    sent: list[int] = []
    server = Server("shop")

    @server.tool(name="report" if is_async else "other")
    async def areport(frame: Frame) -> str:
        for number in range(5000):
            sent.append(number)
            await frame.client.alog("error", "x" * 100)
        return "done"

    @server.tool(name="other" if is_async else "report")
    def report(frame: Frame) -> str:
        for number in range(5000):
            sent.append(number)
            frame.client.log("error", "x" * 100)
        return "done"

    lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def read_lines() -> AsyncIterator[bytes]:
        while True:
            yield json.dumps({"jsonrpc": "2.0", **await lines.get()}).encode()

    connection = StdioConnection(server, pipe.out)
    serving = asyncio.ensure_future(connection.serve(read_lines()))
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    lines.put_nowait({"id": 1, "method": "initialize", "params": hello})
    await asyncio.to_thread(pipe.read, 10_000)
    lines.put_nowait({"method": "notifications/initialized"})
    lines.put_nowait({"id": 2, "method": "tools/call", "params": {"name": "report"}})
    await asyncio.sleep(0.5)
    assert 0 < len(sent) < 3000

    found = b""
    async with asyncio.timeout(TIMEOUT):
        while b'"id":2' not in found:
            found += await asyncio.to_thread(pipe.read, 100_000)
    assert len(sent) == 5000
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
