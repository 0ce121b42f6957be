"""The message bus: one channel for many subscribers, and the failures of a layer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from django_mcp.pubsub import bus
from django_mcp.pubsub.bus import Delivery
from django_mcp.testing.asgi import TIMEOUT
from tests.memory_stores import configure

__all__ = ["configure"]


class TimeoutError_(Exception):
    """What redis-py raises."""


TimeoutError_.__name__ = "TimeoutError"


class FakeLayer:
    """A channel layer which notes what it is asked, and receives what a test sends."""

    def __init__(self) -> None:
        self.groups: dict[str, set[str]] = {}
        self.channels: list[str] = []
        self.sent: list[tuple[str, Any]] = []
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.is_broken = False
        self.receiving = 0

    async def new_channel(self) -> str:
        self.channels.append(f"channel-{len(self.channels)}")
        return self.channels[-1]

    async def group_add(self, group: str, channel: str) -> None:
        if self.is_broken:
            raise ConnectionError("no layer")
        self.groups.setdefault(group, set()).add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self.groups[group].discard(channel)

    async def group_send(self, group: str, message: Any) -> None:
        if self.is_broken:
            raise ConnectionError("no layer")
        self.sent.append((group, message))

    async def send(self, channel: str, message: Any) -> None:
        self.sent.append((channel, message))

    async def receive(self, channel: str) -> Any:
        self.receiving += 1
        try:
            message = await self.incoming.get()
        finally:
            self.receiving -= 1
        if isinstance(message, Exception):
            raise message
        return message


@pytest.fixture
async def layer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLayer]:
    layer = FakeLayer()
    monkeypatch.setattr(bus, "shared_layer", lambda: layer)
    monkeypatch.setattr(bus, "PAUSE", 0.01)
    yield layer
    await until(lambda: layer.receiving == 0)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.001)


def remote_message(group: str, **message: Any) -> dict[str, Any]:
    return {"type": bus.TYPE, "from": "process.other", "group": group, "message": message}


async def test_receivers_share_one_channel(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    receivers = [lambda message, number=number: received.append(number) for number in range(3)]
    for receiver in receivers:
        await local_bus.subscribe("one", receiver)
    await local_bus.subscribe("two", receivers[0])
    assert layer.channels == ["channel-0"]
    assert layer.groups == {"one": {"channel-0"}, "two": {"channel-0"}}
    layer.incoming.put_nowait(remote_message("one"))
    await until(lambda: received == [0, 1, 2])
    for receiver in receivers:
        local_bus.unsubscribe("one", receiver)
    await until(lambda: layer.groups == {"one": set(), "two": {"channel-0"}})
    assert layer.receiving == 1
    local_bus.unsubscribe("two", receivers[0])
    await until(lambda: layer.receiving == 0)
    assert local_bus._channel is None


async def test_local_message_is_delivered_once(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    await bus.publish("one", {"a": 1})
    ((group, sent),) = layer.sent
    assert (group, sent["message"]) == ("one", {"a": 1})
    layer.incoming.put_nowait(sent)
    layer.incoming.put_nowait(remote_message("one", a=2))
    await until(lambda: len(received) > 1)
    assert received == [{"a": 1}, {"a": 2}]
    local_bus.unsubscribe("one", received.append)


async def test_mailbox_receives_local_and_remote_messages(layer: FakeLayer) -> None:
    local_bus = bus.here()
    got: list[Any] = []
    address = await local_bus.open_mailbox(got.append)
    assert address.startswith("channel-0/")
    assert await bus.send(address, {"a": 1}) is Delivery.SENT
    mailbox = address.partition("/")[2]
    layer.incoming.put_nowait({"type": bus.TYPE, "mailbox": mailbox, "message": {"a": 2}})
    await until(lambda: len(got) == 2)
    assert await bus.send("elsewhere/box", {"a": 3}) is Delivery.SENT
    assert layer.sent == [("elsewhere", {"type": bus.TYPE, "mailbox": "box", "message": {"a": 3}})]
    local_bus.close_mailbox(address)
    local_bus.close_mailbox(address)
    assert local_bus.deliver(mailbox, {}) is False
    other = await local_bus.open_mailbox(got.append)  # Keeps the channel.
    assert await bus.send(address, {"a": 4}) is Delivery.CLOSED
    local_bus.close_mailbox(other)


async def test_messages_stay_in_the_process_without_a_shared_layer() -> None:
    local_bus = bus.here()
    got: list[Any] = []
    address = await local_bus.open_mailbox(got.append)
    assert await bus.send(address, {"a": 1}) is Delivery.SENT
    assert got == [{"a": 1}]
    local_bus.close_mailbox(address)
    assert await bus.send(address, {"a": 2}) is Delivery.CLOSED
    assert await bus.send(f"{bus.LOCAL}other/box", {"a": 3}) is Delivery.UNREACHABLE
    assert bus.shared_layer() is None
    assert local_bus._channel is None


async def test_failing_layer_is_retried(layer: FakeLayer, caplog: pytest.LogCaptureFixture) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    with caplog.at_level(logging.WARNING, "django_mcp"):
        await local_bus.subscribe("one", received.append)
        layer.groups.clear()
        for _ in range(3):
            layer.incoming.put_nowait(ConnectionError("gone"))
        assert local_bus.is_connected
        await until(lambda: not local_bus.is_connected)
        layer.incoming.put_nowait(remote_message("one", a=1))
        await until(lambda: received)
        assert local_bus.is_connected
        await until(lambda: layer.groups == {"one": {"channel-0"}})
    assert len([each for each in caplog.records if "fails" in each.message]) == 1
    local_bus.unsubscribe("one", received.append)


async def test_receive_timeout_is_not_logged_as_a_failure(
    layer: FakeLayer, caplog: pytest.LogCaptureFixture
) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    with caplog.at_level(logging.WARNING, "django_mcp"):
        await local_bus.subscribe("one", received.append)
        for _ in range(3):
            layer.incoming.put_nowait(TimeoutError_())
        layer.incoming.put_nowait(remote_message("one", a=1))
        await until(lambda: received)
    assert caplog.records == []
    local_bus.unsubscribe("one", received.append)


async def test_failed_group_join_is_retried(
    layer: FakeLayer, caplog: pytest.LogCaptureFixture
) -> None:
    local_bus = bus.here()
    layer.is_broken = True
    received: list[Any] = []
    with caplog.at_level(logging.WARNING, "django_mcp"):
        await local_bus.subscribe("one", received.append)
        await bus.publish("one", {"a": 1})
        bus.publish_soon("one", {"a": 2})
    assert received == [{"a": 1}, {"a": 2}]
    assert "Cannot join the channel layer" in caplog.text
    layer.is_broken = False
    await until(lambda: layer.groups == {"one": {"channel-0"}})
    local_bus.unsubscribe("one", received.append)


async def test_messages_reach_other_event_loops_of_the_process() -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe(
        "one", lambda message: received.append((message, threading.get_ident()))
    )
    address = await local_bus.open_mailbox(lambda message: received.append((message, "mail")))

    def elsewhere() -> None:
        asyncio.run(bus.publish("one", {"a": 1}))
        assert asyncio.run(bus.send(address, {"a": 2})) is Delivery.SENT

    await asyncio.to_thread(elsewhere)
    await until(lambda: len(received) == 2)
    assert received == [({"a": 1}, threading.get_ident()), ({"a": 2}, "mail")]
    local_bus.close_mailbox(address)
    bus._buses.pop(asyncio.get_running_loop())
