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
from tests.by_hand.processes import call, migrate, worker
from tests.event_loops import accelerated, outcome
from tests.memory_stores import Configure
from tests.spec import spec
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import META, NEWEST_SESSION, STATELESS, encoded


@pytest.fixture
def noting(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores which count."""
    monkeypatch.setattr(stores.NotingSessionStore, "updates", 0)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 0.0)
    monkeypatch.setattr(stores.NotingEventStore, "read", 0)
    configure(STORES=NOTING)


@spec("cost-19")
async def test_body_that_takes_too_long_is_answered_408() -> None:
    peer = AsgiClient(taking(int))
    exchange = Exchange(peer.application, peer.scope(peer.call("take", a=1)), None)
    exchange.send(b'{"jsonrpc"', more=True)
    async with accelerated(40), exchange:
        response = await outcome(exchange.reply())

    assert not isinstance(response, BaseException), "The request is still waited for"
    assert response.status == 408


async def test_body_that_never_begins_is_answered_408() -> None:
    peer = AsgiClient(taking(int))
    exchange = Exchange(peer.application, peer.scope(peer.call("take", a=1)), None)
    async with accelerated(40), exchange:
        response = await exchange.reply()

    assert response.status == 408
    assert response.headers.get("connection") == "close"


async def test_body_that_arrives_late_is_answered() -> None:
    peer = AsgiClient(taking(int))
    message = peer.call("take", a=1)
    exchange = Exchange(peer.application, peer.scope(message), None)
    body = encoded(message)
    async with exchange:
        for byte in body:
            await asyncio.sleep(0)
            exchange.send(bytes([byte]), more=True)
        await asyncio.sleep(0.01)
        exchange.send(b"")
        response = await exchange.reply()

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

    peer = AsgiClient(server, version)
    if version != STATELESS:
        await peer.initialize()
    exchange = peer.open_post(peer.call("talk", params={"_meta": {META + "logLevel": "debug"}}))
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

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    for _ in range(20):
        await server.anotify_tools_list_changed()
    async with accelerated(40), peer.open_get() as stream:
        await stream.status()
        await asyncio.sleep(5)
        stores.NotingEventStore.read = 0
        await asyncio.sleep(80)
        read = stores.NotingEventStore.read

    assert read == 0, f"{read} events were read again"


# Hooks that never return.


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("on_initialize", None),
        ("init", "notifications/initialized"),
        ("handle_notification", "notifications/x"),
    ],
)
async def test_request_whose_hook_hangs_is_answered(
    name: str, method: str | None, configure: Configure
) -> None:
    configure(HANDLER_TIMEOUT=0.5)
    server = Server("shop")

    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    hang.__name__ = name
    server.hook(hang)
    peer = AsgiClient(server, NEWEST_SESSION)

    async with asyncio.timeout(SECONDS):
        opened = await peer.initialize(ready=False)
        if method is None:
            assert opened.error["code"] == -32603
        else:
            assert (await peer.notify(method)).status == 202
