"""Clients that do not read what is sent: what waits for them is bounded, and they are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Frame, Server, stores
from django_mcp.frame.session import address
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.http import response, sse_stream
from django_mcp.transports.http.session import event_log, get_stream
from tests.pubsub.test_bus import until
from tests.transports.http_peer import MODERN, Peer, event_of, message_of

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
    for module in (response, sse_stream):
        monkeypatch.setattr(module, "STALLED", 0.2)


class LoggedPeer(Peer):
    """A client that wants to receive logs in stateless calls."""

    def _modern(self, message: Any) -> dict[str, str]:
        headers = super()._modern(message)
        message["params"]["_meta"] |= LEVEL
        return headers


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
    peer = LoggedPeer(talk.server, MODERN)
    async with peer.open_post(peer.call("talk")) as stream:
        await message_of(stream)
        stream.stop_reading()
        await until(talk.has_ended)
        await read_until_gone(stream)
    assert talk.outcome == "cancelled"
    assert "does not read" in caplog.text


@pytest.mark.usefixtures("quickly")
async def test_call_in_a_session_goes_on_and_can_be_resumed_after_its_client_was_cut_off() -> None:
    talk = Talk()
    peer = Peer(talk.server)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await event_of(stream)
        stream.stop_reading()
        await read_until_gone(stream)
    assert talk.outcome == ""
    async with peer.stream(last=first.id) as resumed:
        await message_of(resumed)
        talk.stopped = True
        while (message := await message_of(resumed)).get("id") != 7:
            pass
    assert message["result"]["content"][0]["text"] == "done"


async def test_resumable_stream_is_left_to_its_log_when_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response, "MAX_WAITING", 10_000)
    monkeypatch.setattr(event_log, "MAX_UNREAD", 10_000)
    talk = Talk()
    peer = Peer(talk.server)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await event_of(stream)
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
    peer = Peer(talk.server)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await event_of(stream)
    async with peer.stream(last=first.id) as resumed:
        await asyncio.sleep(0.4)  # The call has subscribed, and is told that it is read.
        caplog.clear()
        for _ in range(50):
            await event_of(resumed)
    assert "dropped" not in caplog.text
    await until(lambda: "Notifications are dropped" in caplog.text)
    talk.stopped = True
    await until(talk.has_ended)


async def test_stream_that_cannot_be_resumed_drops_what_is_too_much(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response, "MAX_WAITING", 10_000)
    talk = Talk(pause=0)
    peer = Peer(talk.server, "2025-06-18")
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        await message_of(stream)
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
    for module in (sse_stream, get_stream):
        monkeypatch.setattr(module, "MAX_BUFFERED", 5_000)
    talk = Talk()
    peer = Peer(talk.server)
    await peer.initialize()
    async with peer.open_post(peer.call("talk", id=7)) as stream:
        first = await event_of(stream)
        for _ in range(50):
            await event_of(stream)
    talk.stopped = True
    await until(talk.has_ended)
    async with peer.stream(last=first.id) as resumed:
        messages = [event async for event in resumed.events() if event.data]
    assert len(messages) > 50
    assert "does not read" not in caplog.text


@pytest.mark.usefixtures("quickly")
async def test_get_stream_that_takes_nothing_is_cut_off(configure: Any) -> None:
    configure(SSE_PING_INTERVAL=0.05)
    peer = Peer(Talk().server)
    await peer.initialize()
    async with peer.stream() as stream:
        stream.stop_reading()
        async with asyncio.timeout(TIMEOUT):
            await read_until_gone(stream)


# The lease of a call's stream.


async def test_stream_whose_worker_is_silent_ends_with_an_error(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(SSE_PING_INTERVAL=0.05)
    monkeypatch.setattr(event_log, "MIN_LEASE", 0.2)
    peer = Peer(Talk().server)
    await peer.initialize()
    assert peer.session is not None
    log = event_log.StreamLog(address(peer.session), "a ☃")
    position = log.append("{}")
    await log.flush()
    async with peer.stream(last=str(position)) as resumed:
        message = await message_of(resumed)
        assert await resumed.event() is None
    assert message["id"] == "a ☃"
    assert message["error"] == {"code": -32603, "message": event_log.WORKER_ENDED}


async def test_stream_whose_call_is_silent_for_long_keeps_its_lease(
    configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(SSE_PING_INTERVAL=0.05)
    monkeypatch.setattr(event_log, "MIN_LEASE", 0.2)
    server = Server("slow")

    @server.tool
    async def slow(frame: Frame) -> str:
        frame.client.log("error", "started")
        await asyncio.sleep(1)
        return "done"

    peer = Peer(server)
    await peer.initialize()
    async with peer.open_post(peer.call("slow", id=7)) as stream:
        last = await event_of(stream)
    async with peer.stream(last=last.id) as resumed:
        message = await message_of(resumed)
    assert message["result"]["content"][0]["text"] == "done"


async def test_writer_that_has_lost_its_lease_appends_nothing_more(
    configure: Any,
) -> None:
    log = event_log.StreamLog("session", 1)
    log.append("1")
    await log.flush()
    assert await stores.events().close_abandoned("session", log.name, 0, "end")
    for text in "23":
        log.append(text)
        await log.flush()
    await log.close()
    events = await stores.events().after("session", log.name, 0)
    assert events is not None
    assert [event.data for event in events][:2] == ["1", "end"]
    assert "3" not in [event.data for event in events]
