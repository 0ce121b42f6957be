"""The message bus: one channel for many subscribers, and the failures of a layer."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from django_mcp.pubsub import bus, channel_layer, layer_channel
from django_mcp.pubsub.channel_layer import SITE
from django_mcp.runtime import background
from tests.constants import SetConstants
from tests.memory_stores import configure
from tests.pubsub.fake_layer import FakeLayer, layer, remote_message
from tests.waiting import SECONDS, until

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
    assert not local_bus.channel


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


async def test_message_for_one_receiver_is_sent_within_the_process_or_to_others(
    layer: FakeLayer,
) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    assert bus.publish_here("one", {"a": 1})
    assert not bus.publish_here("elsewhere", {"a": 2})
    assert await bus.send_to("channel-7", "elsewhere", {"a": 2})
    assert layer.hints == [("elsewhere", {"a": 2})]
    assert layer.sent[0][0] == "channel-7"
    assert received == [{"a": 1}]
    local_bus.unsubscribe("one", received.append)


async def test_messages_stay_in_the_process_without_a_shared_layer() -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    await bus.publish("one", {"a": 1})
    assert received == [{"a": 1}]
    assert not await bus.send_to("channel-7", "one", {"a": 2})
    assert channel_layer.shared() is None
    assert not local_bus.channel
    local_bus.unsubscribe("one", received.append)


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

    def receive(message: bus.Message) -> None:
        received.append((message, threading.get_ident()))

    await local_bus.subscribe("one", receive)

    def elsewhere() -> None:
        asyncio.run(bus.publish("one", {"a": 1}))

    await asyncio.to_thread(elsewhere)
    await until(lambda: received)
    assert received == [({"a": 1}, threading.get_ident())]
    local_bus.unsubscribe("one", receive)


async def test_bus_whose_layer_was_flushed_is_in_the_group_again(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_channel, "REFRESH", 0.02)
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
    await until(lambda: not local_bus.channel)
    assert not layer.groups.get(SITE)


async def test_subscriber_that_is_cancelled_before_the_channel_is_open_leaves_nothing(
    layer: FakeLayer,
) -> None:
    local_bus = bus.here()
    subscribing = asyncio.create_task(local_bus.subscribe("one", print))
    await asyncio.sleep(0)
    subscribing.cancel()
    local_bus.unsubscribe("one", print)
    await until(lambda: layer.channels)
    await until(lambda: not local_bus.channel and layer.receiving == 0)
    assert layer.groups == {SITE: set()}


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


async def test_message_to_others_is_sent_again_over_a_new_connection(layer: FakeLayer) -> None:
    layer.error = ConnectionError("closed by the server")
    sending = asyncio.ensure_future(bus.send_to("channel-7", "elsewhere", {"a": 1}))
    await until(lambda: layer.attempts == 1)
    layer.error = None
    assert await sending
    assert len(layer.sent) == 1


async def test_layer_that_hangs_refuses_a_message_to_others_within_the_limit(
    layer: FakeLayer, set_constants: SetConstants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_layer, "HINT_TIMEOUT", 0.01)
    loop = asyncio.get_running_loop()
    set_constants(LAYER_TIMEOUT=0.3)
    layer.hangs = True
    began = loop.time()
    assert not await bus.send_to("channel-7", "elsewhere", {"a": 1})
    assert loop.time() - began >= 0.25
    set_constants(LAYER_TIMEOUT=1000.0)  # While the layer hangs, it is tried shortly.
    assert not await bus.send_to("channel-7", "elsewhere", {"a": 2})
    layer.hangs = False
    assert await bus.send_to("channel-7", "elsewhere", {"a": 3})


async def test_closed_bus_has_sent_its_hints_and_left_the_group(layer: FakeLayer) -> None:
    local_bus = bus.here()
    received: list[Any] = []
    await local_bus.subscribe("one", received.append)
    await bus.publish("one", {"event": "posted"})
    await local_bus.close()
    assert layer.hints == [("one", {"event": "posted"})]
    assert layer.groups == {SITE: set()}
    local_bus.unsubscribe("one", received.append)


def test_thread_never_publishes_through_a_loop_that_may_end() -> None:
    is_own: list[bool] = []

    async def choose_on_thread() -> None:
        bus.here()
        chosen = await asyncio.to_thread(bus.any_loop)
        is_own.append(chosen is asyncio.get_running_loop())

    def run() -> None:
        bus.run_in_temporary_loop(choose_on_thread)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(SECONDS)
    assert is_own == [False]


async def test_thread_publishes_through_a_loop_with_receivers() -> None:
    may_end = threading.Event()
    has_begun = threading.Event()

    async def have_a_bus() -> None:
        bus.here()
        has_begun.set()
        await asyncio.to_thread(may_end.wait, SECONDS)

    thread = threading.Thread(target=asyncio.run, args=(have_a_bus(),))
    thread.start()
    await asyncio.to_thread(has_begun.wait, SECONDS)
    await bus.here().subscribe("one", print)
    try:
        assert await asyncio.to_thread(bus.any_loop) is asyncio.get_running_loop()
    finally:
        bus.here().unsubscribe("one", print)
        may_end.set()
        await asyncio.to_thread(thread.join, SECONDS)


def test_temporary_loop_ends_when_what_it_accepted_is_done() -> None:
    done: list[bool] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append(True)

    async def accept() -> None:
        background.spawn_accepted(work())

    bus.run_in_temporary_loop(accept)
    assert done == [True]
