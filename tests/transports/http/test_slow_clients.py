"""Slow bodies, full channels, and clients that read slowly."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from django_mcp import Frame, Server
from tests.by_hand import stores
from tests.by_hand.costs import MEGABYTE, NOTING, taking
from tests.by_hand.peer import (
    META,
    NEWEST_SESSION,
    STATELESS,
    Peer,
    accelerated,
    encoded,
    outcome,
)
from tests.by_hand.processes import call, migrate, worker
from tests.memory_stores import Configure
from tests.spec import spec


@pytest.fixture
def noting(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores which count."""
    monkeypatch.setattr(stores.NotingSessionStore, "updates", 0)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 0.0)
    monkeypatch.setattr(stores.NotingEventStore, "read", 0)
    configure(STORES=NOTING)


@spec("cost-19")
async def test_body_that_takes_too_long_is_answered_408() -> None:
    peer = Peer(taking(int))
    exchange = peer.open(peer.call("take", {"a": 1}))
    exchange._incoming.get_nowait()
    exchange.feed(b'{"jsonrpc"', more=True)
    async with accelerated(40), exchange:
        response = await outcome(exchange.whole(60))

    assert not isinstance(response, BaseException), "The request is still waited for"
    assert response.status == 408


async def test_body_that_never_begins_is_answered_408() -> None:
    peer = Peer(taking(int))
    exchange = peer.open(peer.call("take", {"a": 1}))
    exchange._incoming.get_nowait()
    async with accelerated(40), exchange:
        response = await exchange.whole(60)

    assert response.status == 408
    assert response.header("connection") == "close"


async def test_body_that_arrives_late_is_answered() -> None:
    peer = Peer(taking(int))
    message = peer.call("take", {"a": 1})
    exchange = peer.open(message)
    exchange._incoming.get_nowait()
    body = encoded(message)
    async with exchange:
        for byte in body:
            await asyncio.sleep(0)
            exchange.feed(bytes([byte]), more=True)
        await asyncio.sleep(0.01)
        exchange.feed(b"")
        response = await exchange.whole()

    assert response.status == 200


@spec("answers-06")
async def test_answer_is_stored_for_a_call_whose_channel_is_full(tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    await migrate(database)
    full: dict[str, Any] = {"database": database, "layer": "tests.by_hand.layers.FullLayer"}
    async with worker(**full) as first, worker(**full) as other:
        opened = await first.initialize(elicitation={})
        async with first.stream(call(7, "confirm"), opened) as stream:
            sent = await stream.message()
            assert sent is not None
            answer = {"jsonrpc": "2.0", "id": sent["id"], "result": {"action": "decline"}}
            response = await other.post(answer, opened)
            done = await stream.message()

    assert response.status == 202
    assert done is not None
    assert done["id"] == 7
    assert "isError" not in done["result"]


@pytest.mark.nightly
@spec("cost-20")
@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_silent_reader_costs_a_bounded_amount_of_memory(version: str) -> None:
    server = Server("shop")
    sent = asyncio.Event()

    @server.tool
    async def talk(frame: Frame) -> str:
        for _ in range(300):
            frame.client.log("error", "x" * 50_000)
            await asyncio.sleep(0)
        sent.set()
        return "done"

    peer = Peer(server, version)
    if version != STATELESS:
        await peer.initialize()
    exchange = peer.open(peer.call("talk", _meta={META + "logLevel": "debug"}))
    exchange.stop_reading()
    tracemalloc.start()
    try:
        async with exchange:
            waiting = asyncio.ensure_future(sent.wait())
            both = [waiting, exchange.task]
            await asyncio.wait(both, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert grown < 3 * MEGABYTE, f"{grown} bytes wait for a client that does not read"


@pytest.mark.usefixtures("noting")
async def test_open_stream_reads_the_log_of_its_server_from_where_it_is() -> None:
    server = Server("shop")

    @server.tool
    async def add(a: int) -> int:
        return a

    peer = Peer(server, NEWEST_SESSION)
    await peer.initialize()
    for _ in range(20):
        await server.anotify_tools_list_changed()
    async with accelerated(40), peer.open(method="GET") as stream:
        await stream.status(100)
        await asyncio.sleep(5)
        stores.NotingEventStore.read = 0
        await asyncio.sleep(80)
        read = stores.NotingEventStore.read

    assert read == 0, f"{read} events were read again"
