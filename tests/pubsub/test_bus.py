"""The message bus: one channel for many subscribers, and the failures of a layer."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from django_mcp.pubsub import bus, channel_layer
from django_mcp.pubsub.bus import Delivery
from django_mcp.pubsub.channel_layer import LOCAL, SITE, TYPE
from django_mcp.testing.asgi import TIMEOUT
from tests.constants import SetConstants
from tests.memory_stores import configure
from tests.pubsub.fake_layer import FakeLayer, acknowledgement, layer, remote_message
from tests.waiting import until

__all__ = ["configure", "layer"]


class TimeoutError_(Exception):
    """What redis-py raises."""


TimeoutError_.__name__ = "TimeoutError"


async def test_receivers_share_one_channel(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    receivers = [lambda message, number=number: received.append(number) for number in range(3)]
    for receiver in receivers:
        await local_bus.subscribe("one", receiver)
    await local_bus.subscribe("two", receivers[0])
    assert layer.channels == ["channel-0"]
    assert layer.groups == {SITE: {"channel-0"}}
    layer.incoming.put_nowait(remote_message("one"))
    await until(lambda: received == [0, 1, 2])
    for receiver in receivers:
        local_bus.unsubscribe("one", receiver)
    assert layer.groups == {SITE: {"channel-0"}}
    assert layer.receiving == 1
    local_bus.unsubscribe("two", receivers[0])
    await until(lambda: layer.receiving == 0)
    await until(lambda: layer.groups == {SITE: set()})
    assert local_bus._channel is None


async def test_local_message_is_delivered_once(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    await bus.publish("one", {"a": 1})
    await until(lambda: layer.sent)
    ((group, sent),) = layer.sent
    assert (group, sent["hints"]) == (SITE, [["one", {"a": 1}]])
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
    sent = {"type": TYPE, "mailbox": mailbox, "id": "one", "message": {"a": 2}}
    for _ in range(2):  # The second one is dropped.
        layer.incoming.put_nowait(sent)
    await until(lambda: len(got) == 2)
    assert await bus.send("elsewhere/box", {"a": 3}) is Delivery.SENT
    ((channel, sent),) = layer.sent
    assert (channel, sent["mailbox"], sent["message"]) == ("elsewhere", "box", {"a": 3})
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
    assert await bus.send(f"{LOCAL}other/box", {"a": 3}) is Delivery.UNREACHABLE
    assert channel_layer.shared() is None
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
        await until(lambda: layer.groups == {SITE: {"channel-0"}})
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
    layer.error = ConnectionError("no layer")
    received: list[Any] = []
    with caplog.at_level(logging.WARNING, "django_mcp"):
        await local_bus.subscribe("one", received.append)
        await bus.publish("one", {"a": 1})
        bus.publish_soon("one", {"a": 2})
    assert received == [{"a": 1}, {"a": 2}]
    assert "The channel layer fails" in caplog.text
    layer.error = None
    await until(lambda: layer.groups == {SITE: {"channel-0"}})
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


async def test_bus_whose_layer_was_flushed_is_in_the_group_again(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "REFRESH", 0.02)
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    layer.groups.clear()  # No operation has failed.
    await until(lambda: layer.groups == {SITE: {"channel-0"}})
    local_bus.unsubscribe("one", received.append)


async def test_cancelled_subscriber_leaves_nothing_in_the_layer(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    layer.hangs = True
    task = asyncio.ensure_future(local_bus.subscribe("one", received.append))
    await until(lambda: layer.attempts)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    layer.hangs = False
    local_bus.unsubscribe("one", received.append)
    await until(lambda: local_bus._channel is None)
    assert not layer.groups.get(SITE)


async def test_bus_is_in_the_group_although_its_first_subscriber_was_cancelled(
    layer: FakeLayer,
) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    layer.hangs = True
    first = asyncio.ensure_future(local_bus.subscribe("one", received.append))
    await until(lambda: layer.attempts)
    first.cancel()
    layer.hangs = False
    await local_bus.subscribe("one", received.append)
    await until(lambda: layer.groups == {SITE: {"channel-0"}})
    local_bus.unsubscribe("one", received.append)


async def test_call_which_ends_is_not_followed_by_operations_of_the_layer(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("lasting", received.append)
    before = layer.attempts
    for number in range(20):
        await local_bus.subscribe(f"session-{number}", received.append)
        local_bus.unsubscribe(f"session-{number}", received.append)
    assert layer.attempts == before
    local_bus.unsubscribe("lasting", received.append)


async def test_message_that_is_not_acknowledged_is_sent_once_more(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "ACKNOWLEDGED_WITHIN", (0.02, TIMEOUT))
    layer.acknowledges = False
    sending = asyncio.ensure_future(bus.send("elsewhere/box", {"a": 1}))
    await until(lambda: len(layer.sent) == 2)
    (_, first), (_, second) = layer.sent
    assert first == second
    layer.incoming.put_nowait(acknowledgement(second))
    assert await sending is Delivery.SENT
    assert not bus.here().is_used


async def test_message_that_is_never_acknowledged_is_undelivered(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "ACKNOWLEDGED_WITHIN", (0.01, 0.01))
    layer.acknowledges = False
    assert await bus.send("elsewhere/box", {"a": 1}) is Delivery.UNREACHABLE
    assert len(layer.sent) == 2


async def test_message_to_a_closed_mailbox_of_another_process_is_reported(layer: FakeLayer) -> None:
    layer.acknowledges = False
    sending = asyncio.ensure_future(bus.send("elsewhere/box", {"a": 1}))
    await until(lambda: layer.sent)
    layer.incoming.put_nowait(acknowledgement(layer.sent[0][1], delivered=False))
    assert await sending is Delivery.CLOSED


async def test_received_message_is_delivered_once_and_acknowledged_each_time(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "MAX_IDS", 2)
    local_bus = bus.here()
    got: list[Any] = []
    address = await local_bus.open_mailbox(got.append)
    sent = {"type": TYPE, "mailbox": address.partition("/")[2], "reply": "elsewhere/answers"}
    for identity in ("one", "one", "two", "three"):
        layer.incoming.put_nowait({**sent, "id": identity, "message": {"a": identity}})
    layer.incoming.put_nowait({**sent, "mailbox": "gone", "id": "four", "message": {}})
    await until(lambda: len(layer.sent) == 5)
    assert [each["a"] for each in got] == ["one", "two", "three"]
    assert {channel for channel, _ in layer.sent} == {"elsewhere"}
    answers = [message["message"]["delivered"] for _, message in layer.sent]
    assert answers == [True] * 4 + [False]
    local_bus.close_mailbox(address)


async def test_message_to_a_mailbox_is_sent_again_over_a_new_connection(layer: FakeLayer) -> None:
    layer.error = ConnectionError("closed by the server")
    sending = asyncio.ensure_future(bus.send("elsewhere/box", {"a": 1}))
    await until(lambda: layer.attempts == 2)  # The first one is to join the group.
    layer.error = None
    assert await sending is Delivery.SENT
    assert len(layer.sent) == 1


async def test_mailbox_on_a_layer_that_hangs_is_unreachable_within_the_limit(
    layer: FakeLayer, set_constants: SetConstants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_layer, "HINT_TIMEOUT", 0.01)
    loop = asyncio.get_running_loop()
    set_constants(LAYER_TIMEOUT=0.3)
    own = await bus.here().open_mailbox(lambda message: None)
    layer.hangs = True
    began = loop.time()
    assert await bus.send("elsewhere/box", {"a": 1}) is Delivery.UNREACHABLE
    assert loop.time() - began >= 0.25
    set_constants(LAYER_TIMEOUT=1000.0)  # While the layer hangs, it is tried shortly.
    assert await bus.send("elsewhere/box", {"a": 2}) is Delivery.UNREACHABLE
    layer.hangs = False
    assert await bus.send("elsewhere/box", {"a": 3}) is Delivery.SENT
    bus.here().close_mailbox(own)


async def test_closed_bus_has_sent_its_hints_and_left_the_group(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    await bus.publish("one", {"event": "posted"})
    await local_bus.close()
    assert layer.hints == [("one", {"event": "posted"})]
    assert layer.groups == {SITE: set()}
    local_bus.unsubscribe("one", received.append)
