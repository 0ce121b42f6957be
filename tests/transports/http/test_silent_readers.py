"""Clients that do not read what is sent: what waits for them is bounded, and they are cut off."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.log import repeated
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.http import exchange, sse_response
from django_mcp.transports.http.session import event_log
from tests.spec import spec
from tests.waiting import until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS

LINE = "x" * 1000
LEVEL = {"io.modelcontextprotocol/logLevel": "debug"}


class Talk:
    """A server whose tool logs until it is told to stop."""

    def __init__(self, *, pause: float = 0.001) -> None:
        self.server = Server("talk")
        self.outcome = ""
        self.stopped = False

        @self.server.tool
        async def talk(frame: Frame) -> str:
            try:
                while not self.stopped:
                    frame.client.log("error", LINE)
                    await asyncio.sleep(pause)
            except asyncio.CancelledError:
                self.outcome = "cancelled"
                raise
            self.outcome = "done"
            return "done"

    @property
    def has_ended(self) -> Callable[[], bool]:
        return lambda: bool(self.outcome)


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_response, "STALLED", 0.2)


async def read_until_gone(stream: Any) -> None:
    """Read a stream which is not completed."""
    with pytest.raises(ConnectionError, match="without completing"):
        await events_of(stream)


async def events_of(stream: Any) -> list[Any]:
    return [event async for event in stream.events()]


@pytest.mark.usefixtures("quickly")
async def test_stateless_call_whose_client_reads_nothing_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    talk = Talk()
    peer = AsgiClient(talk.server, STATELESS, meta=LEVEL)
    async with peer.open_post(peer.call("talk")) as stream:
        await stream.message()
        stream.stop_reading()
        await until(talk.has_ended)
        await read_until_gone(stream)
    assert talk.outcome == "cancelled"
    assert "does not read" in caplog.text


@pytest.mark.usefixtures("quickly")
async def test_call_in_a_session_goes_on_and_can_be_resumed_after_its_client_was_cut_off() -> None:
    talk = Talk()
    peer = AsgiClient(talk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await stream.data_event()
        stream.stop_reading()
        await read_until_gone(stream)
    assert talk.outcome == ""
    async with peer.stream(last=first.id) as resumed:
        await resumed.message()
        talk.stopped = True
        while (message := await resumed.message()).get("id") != 7:
            pass
    assert message["result"]["content"][0]["text"] == "done"


async def test_resumable_stream_is_left_to_its_log_when_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse_response, "MAX_WAITING", 10_000)
    monkeypatch.setattr(event_log, "MAX_UNREAD", 10_000)
    talk = Talk()
    peer = AsgiClient(talk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await stream.data_event()
        stream.stop_reading()
        await read_until_gone(stream)
    await until(lambda: "Notifications are dropped" in caplog.text)
    talk.stopped = True
    await until(talk.has_ended)
    async with peer.stream(last=first.id) as resumed:
        messages = [event async for event in resumed.events() if event.data]
    assert '"id":7' in messages[-1].data
    assert 10 < len(messages) < 50


async def test_resumed_stream_that_is_read_drops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_log, "MAX_UNREAD", 10_000)
    talk = Talk()
    peer = AsgiClient(talk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await stream.data_event()
    async with peer.stream(last=first.id) as resumed:
        await asyncio.sleep(0.4)  # The call has subscribed, and is told that it is read.
        caplog.clear()
        repeated.forget()
        for _ in range(50):
            await resumed.data_event()
    assert "dropped" not in caplog.text
    await until(lambda: "Notifications are dropped" in caplog.text)
    talk.stopped = True
    await until(talk.has_ended)


async def test_stream_that_cannot_be_resumed_drops_what_is_too_much(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse_response, "MAX_WAITING", 10_000)
    talk = Talk(pause=0)
    peer = AsgiClient(talk.server, "2025-06-18")
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        await stream.message()
        stream.stop_reading()
        await until(lambda: "Notifications are dropped" in caplog.text)
        stream.resume_reading()
        talk.stopped = True
        messages = [event async for event in stream.events()]
    assert '"id":7' in messages[-1].data
    assert caplog.text.count("Notifications are dropped") == 1


async def test_long_log_is_replayed_at_the_pace_of_the_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse_response, "MAX_WAITING", 5_000)
    talk = Talk()
    peer = AsgiClient(talk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await stream.data_event()
        for _ in range(50):
            await stream.data_event()
    talk.stopped = True
    await until(talk.has_ended)
    async with peer.stream(last=first.id) as resumed:
        messages = [event async for event in resumed.events() if event.data]
    assert len(messages) > 50
    assert "does not read" not in caplog.text


@pytest.mark.usefixtures("quickly")
async def test_get_stream_that_takes_nothing_is_cut_off(configure: Any) -> None:
    configure(SSE_PING_INTERVAL=0.05)
    peer = AsgiClient(Talk().server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as stream:
        stream.stop_reading()
        async with asyncio.timeout(TIMEOUT):
            await read_until_gone(stream)


# Threads: those of synchronous handlers never wait for a client.


@spec("cost-21")
@pytest.mark.parametrize("version", [STATELESS, "2025-11-25", "2025-06-18"])
async def test_silent_clients_of_sync_handlers_hold_up_nobody(version: str, configure: Any) -> None:
    configure(SYNC_THREAD_POOL_SIZE=2)
    server, ended = Server("busy"), []

    @server.tool
    def talk(frame: Frame) -> str:
        for _ in range(3 * exchange.WAIT_FOR_LOOP_EVERY):
            frame.client.log("error", LINE)
        ended.append(1)
        return "done"

    @server.tool
    def quick() -> str:
        return "quick"

    async with contextlib.AsyncExitStack() as stack:
        for _ in range(5):
            peer = AsgiClient(server, version, meta=LEVEL)
            if version != STATELESS:
                await peer.initialize()
            stream = await stack.enter_async_context(peer.open_post(peer.call("talk", id=7)))
            stream.stop_reading()
        reply = (await peer.post(peer.call("quick"))).json()
        assert reply["result"]["content"][0]["text"] == "quick"
        async with asyncio.timeout(TIMEOUT):
            await until(lambda: len(ended) == 5)


async def test_thread_waits_for_the_event_loop_after_a_large_message() -> None:
    server, waited = Server("large"), []

    @server.tool
    def send(frame: Frame) -> str:
        frame.client._exchange._wait_for_loop = lambda: waited.append(1)  # type: ignore[attr-defined]
        frame.client.log("error", LINE)
        assert not waited
        frame.client.log("error", "x" * (exchange.LARGE + 1))
        return str(len(waited))

    peer = AsgiClient(server, STATELESS, meta=LEVEL)
    async with peer.open_post(peer.call("send")) as stream:
        messages = [json.loads(event.data) for event in await events_of(stream) if event.data]
    assert messages[-1]["result"]["content"][0]["text"] == "1"


async def test_reading_client_of_a_sync_handler_receives_all_messages() -> None:
    server = Server("busy")

    @server.tool
    def talk(frame: Frame) -> str:
        for _ in range(3 * exchange.WAIT_FOR_LOOP_EVERY):
            frame.client.log("error", LINE)
        return "done"

    peer = AsgiClient(server, STATELESS, meta=LEVEL)
    async with peer.open_post(peer.call("talk")) as stream:
        events = [event for event in await events_of(stream) if event.data]
    assert len(events) == 3 * exchange.WAIT_FOR_LOOP_EVERY + 1


@pytest.mark.usefixtures("quickly")
async def test_sync_handler_whose_client_reads_nothing_receives_the_reason() -> None:
    server, reasons = Server("patient"), []

    @server.tool
    def talk(frame: Frame) -> str:
        for _ in range(10):
            frame.client.log("error", LINE)
        assert frame.cancellation.wait(TIMEOUT)
        reasons.append(frame.cancellation.reason)
        return "done"

    peer = AsgiClient(server, STATELESS, meta=LEVEL)
    async with peer.open_post(peer.call("talk")) as stream:
        stream.stop_reading()
        await until(lambda: bool(reasons))
    assert reasons == [exchange.NOT_READ]


@pytest.mark.usefixtures("quickly")
async def test_call_whose_stream_cannot_be_resumed_is_cancelled_with_it() -> None:
    talk = Talk()
    peer = AsgiClient(talk.server, "2025-06-18")
    await peer.initialize()
    async with peer.open_post(peer.call("talk")) as stream:
        await stream.message()
        stream.stop_reading()
        await until(talk.has_ended)
    assert talk.outcome == "cancelled"


@pytest.mark.usefixtures("quickly")
async def test_all_calls_of_a_batch_are_cancelled_if_their_client_does_not_read() -> None:
    talks = Talk(), Talk()
    server = talks[0].server

    @server.tool
    async def other(frame: Frame) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            talks[1].outcome = "cancelled"
        return ""

    peer = AsgiClient(server, "2025-03-26")
    await peer.initialize()
    batch = [peer.call("talk"), peer.call("other")]
    async with peer.open_post(batch) as stream:
        await stream.message()
        stream.stop_reading()
        await until(talks[0].has_ended)
        await until(talks[1].has_ended)
    assert talks[0].outcome == talks[1].outcome == "cancelled"


@pytest.mark.usefixtures("quickly")
async def test_last_event_waits_for_a_silent_client_no_longer_than_any_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, ending = Server("ending"), asyncio.Event()

    @server.tool
    async def end(frame: Frame) -> str:
        await frame.client.alog("error", LINE)
        await ending.wait()
        return "done"

    peer = AsgiClient(server, STATELESS, meta=LEVEL)
    async with peer.open_post(peer.call("end")) as stream:
        await stream.message()
        stream.stop_reading()
        ending.set()
        await read_until_gone(stream)
    assert "does not read" in caplog.text
