"""What uses the channel layer: its limits, and the hints which leave a process."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from channels.exceptions import ChannelFull

from django_mcp import Frame, Server, stores
from django_mcp.core.frame.session import Change, address
from django_mcp.core.protocol import jsonrpc
from django_mcp.pubsub import bus, channel_layer, session_messages
from django_mcp.pubsub.channel_layer import SITE
from django_mcp.stores.base import unpack_changes
from django_mcp.stores.memory import MemoryEventStore
from tests.memory_stores import configure
from tests.pubsub.fake_layer import FakeLayer, layer
from tests.waiting import SECONDS, until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

__all__ = ["configure", "layer"]


@pytest.fixture
async def received(layer: FakeLayer) -> Any:
    """The bus of a worker that serves clients: it has a receiver."""
    received: list[Any] = []
    await bus.here().subscribe("one", received.append)
    yield received
    bus.here().unsubscribe("one", received.append)


async def test_hints_that_wait_are_sent_in_one_message(
    layer: FakeLayer, received: list[Any]
) -> None:
    for number in range(5):
        await bus.publish("one", {"event": "posted", "number": number})
    assert [each["number"] for each in received] == [0, 1, 2, 3, 4]
    await until(lambda: len(layer.hints) == 5)
    assert len(layer.sent) == 1
    assert layer.sent[0][0] == SITE


async def test_burst_is_sent_in_few_messages(layer: FakeLayer, received: list[Any]) -> None:
    for number in range(3000):
        await bus.publish("one", {"event": "posted", "number": number})
        if number % 10 == 0:
            await asyncio.sleep(0)
    await until(lambda: len(layer.hints) == 3000)
    assert len(layer.sent) < 100  # The capacity of a channel, unless it is configured.


async def test_hints_beyond_the_bound_are_dropped_and_logged_once(
    layer: FakeLayer, received: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(channel_layer, "MAX_WAITING", 1000)
    with caplog.at_level(logging.WARNING, "django_mcp"):
        for number in range(100):
            await bus.publish("one", {"event": "said", "said": "x" * 100, "number": number})
        await until(lambda: layer.hints)
        await bus.publish("one", {"event": "posted"})
        await until(lambda: ("one", {"event": "posted"}) in layer.hints)
    assert len(received) == 101
    assert len(layer.hints) < 20
    assert caplog.text.count("The channel layer is full") == 1


async def test_nobody_waits_for_a_layer_that_hangs(layer: FakeLayer, received: list[Any]) -> None:
    layer.hangs = True
    async with asyncio.timeout(channel_layer.HINT_TIMEOUT / 2):
        for number in range(20):
            await bus.publish("one", {"event": "posted", "number": number})
    assert len(received) == 20


async def test_loop_without_receivers_waits_until_its_hint_is_sent(layer: FakeLayer) -> None:
    await bus.publish("one", {"event": "posted"})
    assert layer.hints == [("one", {"event": "posted"})]


async def test_loop_without_receivers_waits_for_a_layer_that_hangs_for_its_limit(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_layer, "HINT_TIMEOUT", 0.05)
    monkeypatch.setattr(channel_layer, "FAIL_FAST", 1000.0)
    layer.hangs = True
    with caplog.at_level(logging.WARNING, "django_mcp"):
        for _ in range(50):
            await bus.publish("one", {"event": "posted"})
    assert layer.attempts == 1  # All others failed at once.
    assert len(caplog.records) == 1


async def test_layer_that_failed_is_tried_again_after_a_moment(
    layer: FakeLayer, received: list[Any]
) -> None:
    layer.error = ConnectionError("away")
    await bus.publish("one", {"event": "posted"})
    await until(lambda: not bus.here().is_connected)
    layer.error = None

    async def is_sent() -> bool:
        await bus.publish("one", {"event": "posted"})
        await asyncio.sleep(0.001)
        return bool(layer.hints)

    async with asyncio.timeout(SECONDS):
        while not await is_sent():
            pass
    assert bus.here().is_connected


async def test_one_attempt_at_a_time_is_made_after_a_failure() -> None:
    breaker = channel_layer.CircuitBreaker()
    assert breaker.allows_hint()
    breaker.failed(is_hanging=True)
    assert (breaker.is_open, breaker.is_hanging) == (True, True)
    assert not breaker.allows_hint()
    breaker.failed(is_hanging=False)
    assert (breaker.is_open, breaker.is_hanging) == (True, False)
    breaker._retry_at = 0.0
    assert breaker.allows_hint()
    assert not breaker.allows_hint()  # Until the first one has a result.
    breaker.succeeded()
    assert (breaker.is_open, breaker.is_hanging) == (False, False)
    assert breaker.allows_hint()
    assert breaker.allows_hint()


async def test_full_channel_refuses_but_is_no_failure_of_the_layer(
    layer: FakeLayer, caplog: pytest.LogCaptureFixture
) -> None:
    layer.error = ChannelFull()
    with caplog.at_level(logging.WARNING, "django_mcp"):
        for _ in range(3):
            assert not await bus.send_to("channel", "one", {"a": 1})
    assert not channel_layer.breaker.is_open
    assert caplog.text.count("The channel layer is full") == 1


async def test_call_that_reports_without_waiting_logs_a_broken_layer_once(
    layer: FakeLayer, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.tool
    async def report(frame: Frame) -> str:
        """Reports to a client that has left, so that each report is published."""
        await frame.client.aprogress(0)
        await waiting.wait()
        for number in range(1, 3000):
            frame.client.progress(number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        done.set()
        return "done"

    waiting, done = asyncio.Event(), asyncio.Event()
    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    layer.error = ConnectionError("away")
    with caplog.at_level(logging.WARNING, "django_mcp"):
        call = peer.call("report", id="mine")
        call["params"]["_meta"] = {"progressToken": 1}
        async with peer.open_post(call) as stream:
            await stream.message()
        waiting.set()
        await done.wait()
        await until(lambda: stored(peer, "done"))
    failures = [each for each in caplog.records if "channel layer" in each.message]
    assert len(failures) == 1
    layer.error = None


async def stored(peer: AsgiClient, text: str) -> bool:
    """Whether an event of the session contains this text."""
    store = stores.events()
    assert isinstance(store, MemoryEventStore)
    streams = store._by_session.get(address(peer.session), {})
    return any(text in event.data for each in streams.values() for _, event in each.events)


async def test_values_of_a_notification_for_a_connection_are_text_to_the_layer(
    layer: FakeLayer,
) -> None:
    """Layers encode other values than JSON has differently, or fail for them."""
    params = {"at": datetime(2026, 1, 31, tzinfo=UTC), "number": 2**70}
    await Server("shop").asend_notification("x/y", params, session_id="sse.somebody")
    await until(lambda: layer.hints)
    ((_, hint),) = layer.hints
    assert hint["event"] == "said"
    assert {type(value) for value in hint.values()} == {str}
    assert jsonrpc.decode(hint["text"])["params"]["number"] == 2**70


async def test_values_of_changes_for_a_connection_are_text_to_the_layer(layer: FakeLayer) -> None:
    changes = [Change("assigns", "put", "number", {"of": 2**70}), Change("assigns", "clear")]
    await session_messages.change_connection("sse.somebody", changes)
    await until(lambda: layer.hints)
    ((_, hint),) = layer.hints
    assert {type(value) for value in hint.values()} == {str}
    assert unpack_changes(hint["changes"]) == changes
    with pytest.raises(TypeError, match="not JSON serializable"):
        await session_messages.change_connection(
            "sse.somebody", [Change("assigns", "put", "at", datetime.now(UTC))]
        )
