"""The log of announcements in one process, without a channel layer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Server, stores
from django_mcp.core.protocol import jsonrpc
from django_mcp.pubsub import announcements, bus, publisher
from django_mcp.pubsub.announcements import MERGE_INTERVAL
from django_mcp.runtime.store_operations import StoreUnavailable
from tests.memory_stores import configure
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import NEWEST_SESSION

__all__ = ["configure"]


@pytest.fixture
def shop() -> Server:
    server = Server("shop", notify_lists_on_initialize=False)
    server.tool(name="order")(lambda: "ordered")
    return server


async def ready(server: Server) -> AsgiClient:
    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    return peer


async def append(server: Server, method: str) -> Any:
    """Append an announcement to the log, and return its hint."""
    text = jsonrpc.encode(jsonrpc.notification(method)).decode()
    return await publisher._append(server, publisher.LOG, [text])


async def nothing_more(stream: Exchange) -> bool:
    await asyncio.sleep(2 * MERGE_INTERVAL)
    return stream._outgoing.empty()


async def test_hints_out_of_order_deliver_each_announcement_once(shop: Server) -> None:
    """Two threads of the store have answered in another order than they have appended."""
    peer = await ready(shop)
    async with peer.stream() as stream:
        await stream.event()
        await shop.asend_notification("x/0")
        assert await stream.methods(1) == ["x/0"]
        hints = [await append(shop, "x/1"), await append(shop, "x/2")]
        for hint in reversed(hints):
            bus.publish_soon(publisher.of_log(shop, publisher.LOG), hint)
        assert await stream.methods(2) == ["x/1", "x/2"]
        assert await nothing_more(stream)


async def test_read_that_fails_is_repeated(shop: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "AFTER_OUTAGE", 0.01)
    peer = await ready(shop)
    async with peer.stream() as stream:
        await shop.asend_notification("x/0")
        assert await stream.methods(1) == ["x/0"]
        await append(shop, "x/1")
        with monkeypatch.context() as failing:

            async def fail(*_: Any) -> Any:
                raise StoreUnavailable

            failing.setattr(type(stores.events()), "after", fail)
            await shop.asend_notification("x/2")
            await asyncio.sleep(0.05)
        assert await stream.methods(2) == ["x/1", "x/2"]


async def test_announcement_without_a_hint_is_delivered_with_the_next_one(shop: Server) -> None:
    """As if another process, such as a command, has appended it."""
    peer = await ready(shop)
    async with peer.stream() as stream:
        await shop.asend_notification("x/0")
        assert await stream.methods(1) == ["x/0"]
        await append(shop, "x/1")
        await shop.asend_notification("x/2")
        assert await stream.methods(2) == ["x/1", "x/2"]
        assert await nothing_more(stream)
