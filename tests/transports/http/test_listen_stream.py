"""Listen streams of the stateless revision: acknowledgement, filters, events, and the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp import Frame
from django_mcp.pubsub import announcements
from django_mcp.transports.http import open_streams, sse_response
from tests.constants import SetConstants
from tests.event_loops import unblocked
from tests.spec import spec
from tests.transports.http.session.streams import NameHeaderAuthentication, has_no_output
from tests.transports.sample_server import Desk
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import STATELESS

ID = "io.modelcontextprotocol/subscriptionId"
ACK = "notifications/subscriptions/acknowledged"
ALL_NOTIFICATIONS = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["desk://news", "desk://drawer/7"],
}


def peer_of(desk: Desk, **options: Any) -> AsgiClient:
    return AsgiClient(desk.server, STATELESS, **options)


@spec("2026/META-06", "2026/SUB-01", "2026/SUB-04", "2026/SUB-09")
@pytest.mark.parametrize("id", [1, "1", 0, "", "a\u2028b"])
async def test_every_message_carries_the_subscription_id(desk: Desk, id: Any) -> None:
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=id, **ALL_NOTIFICATIONS)) as stream:
        assert (await stream.headers())["content-type"] == "text/event-stream"
        ack = await stream.message()
        assert ack == {
            "jsonrpc": "2.0",
            "method": ACK,
            "params": {"_meta": {ID: id}, "notifications": ALL_NOTIFICATIONS},
        }
        await desk.server.anotify_tools_list_changed()
        await desk.server.anotify_prompts_list_changed()
        await desk.server.anotify_resources_list_changed()
        await desk.server.anotify_resource_updated("desk://news")
        received = [await stream.message() for _ in range(4)]
        assert [each["params"]["_meta"][ID] for each in received] == [id] * 4
        assert [type(each["params"]["_meta"][ID]) for each in received] == [type(id)] * 4
        assert [each["method"] for each in received] == [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
        ]
        assert received[-1]["params"]["uri"] == "desk://news"


@spec("2026/SUB-03", "2026/SUB-08", "2026/SUB-10")
async def test_only_requested_notifications_are_sent(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, promptsListChanged=True)) as stream:
        await stream.message()
        await desk.server.anotify_tools_list_changed()
        await desk.server.anotify_resource_updated("desk://news")
        await desk.server.asend_notification("notifications/message", {"level": "info"})
        await desk.server.anotify_prompts_list_changed()
        assert (await stream.message())["method"] == "notifications/prompts/list_changed"
        assert await has_no_output(stream)


@spec("2026/SUB-12")
async def test_empty_filter_is_accepted_and_sends_nothing(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1)) as stream:
        assert (await stream.message())["params"]["notifications"] == {}
        await desk.server.anotify_tools_list_changed()
        assert await has_no_output(stream)


@spec("2026/SUB-02", "2026/SUB-11")
async def test_unknown_and_hidden_resources_are_left_out_of_the_acknowledgement(desk: Desk) -> None:
    peer = peer_of(desk)
    wanted = ["desk://secret", "desk://none", "desk://drawer/seven", "desk://news"]
    message = peer.listen(id=1, resourceSubscriptions=wanted, otherIds=["x"])
    async with peer.open_post(message) as stream:
        honoured = (await stream.message())["params"]["notifications"]
        assert honoured == {"resourceSubscriptions": ["desk://news"]}


@spec("2026/SUB-02", "2026/RES-01")
async def test_disabled_capabilities_are_left_out_of_the_acknowledgement() -> None:
    desk = Desk(capabilities={"tools": {}, "resources": {"listChanged": True}})
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, **ALL_NOTIFICATIONS)) as stream:
        honoured = (await stream.message())["params"]["notifications"]
        assert honoured == {"promptsListChanged": True, "resourcesListChanged": True}


@spec("2026/SUB-11", "2026/RES-06")
async def test_resource_update_is_not_sent_after_read_permission_is_revoked(desk: Desk) -> None:
    allowed = True
    server = desk.server
    server.resource("desk://guarded", permission=lambda frame: allowed)(lambda: "x")
    peer = peer_of(desk)
    async with peer.open_post(
        peer.listen(id=1, resourceSubscriptions=["desk://guarded"])
    ) as stream:
        await stream.message()
        await server.anotify_resource_updated("desk://guarded")
        assert (await stream.message())["method"] == "notifications/resources/updated"
        allowed = False
        await server.anotify_resource_updated("desk://guarded")
        assert await has_no_output(stream)


@spec("2026/SUB-05")
async def test_concurrent_subscriptions_are_independent(desk: Desk) -> None:
    peer = peer_of(desk)
    async with (
        peer.open_post(peer.listen(id=1, toolsListChanged=True)) as one,
        peer.open_post(peer.listen(id="1", toolsListChanged=True)) as two,
    ):
        for stream in (one, two):
            await stream.message()
        await desk.server.anotify_tools_list_changed()
        assert (await one.message())["params"]["_meta"][ID] == 1
        assert (await two.message())["params"]["_meta"][ID] == "1"
        one.disconnect()
        await one.wait_closed()
        await desk.server.anotify_tools_list_changed()
        assert (await two.message())["params"]["_meta"][ID] == "1"


@spec("2026/SUB-07")
async def test_disconnect_releases_subscriptions_and_streams(desk: Desk) -> None:
    from django_mcp.pubsub import bus

    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, **ALL_NOTIFICATIONS)) as stream:
        await stream.message()
        assert bus.here()._receivers
        stream.disconnect()
        await stream.wait_closed()
    assert bus.here()._receivers == {}
    assert open_streams.end_all() == 0


@spec("2026/SUB-06", "2026/CAN-05")
async def test_stream_closed_by_the_server_ends_with_the_response(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=7, toolsListChanged=True)) as stream:
        await stream.message()
        assert open_streams.end_all() == 1
        answer = await stream.message()
        assert answer["id"] == 7
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][ID] == 7
        assert await stream.event() is None


@spec("2026/HTTP-10")
async def test_listen_stream_sends_keepalive_comments(desk: Desk, configure: Any) -> None:
    configure(SSE_PING_INTERVAL=0.02)
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1)) as stream:
        await stream.message()
        assert await stream.read() == b":\n\n"


async def test_listen_stream_is_not_limited_by_the_handler_timeout(
    desk: Desk, configure: Any
) -> None:
    configure(HANDLER_TIMEOUT=0.05)
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, toolsListChanged=True)) as stream:
        await stream.message()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.wait_closed(), 0.2)
        await desk.server.anotify_tools_list_changed()
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


@pytest.fixture
def undecided(desk: Desk) -> asyncio.Event:
    """Is set once it is asked who may read ``desk://slow``, which nobody answers."""
    asked = asyncio.Event()

    async def permission(frame: Frame) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    desk.server.register_resource("desk://slow", lambda: "", permission=permission)
    return asked


async def test_listen_request_that_is_not_accepted_in_time_fails(
    desk: Desk, undecided: asyncio.Event, configure: Any
) -> None:
    configure(HANDLER_TIMEOUT=0.05)
    peer = peer_of(desk)
    reply = await peer.post(peer.listen(id=1, resourceSubscriptions=["desk://slow"]))
    assert (reply.json()["id"], reply.json()["error"]["code"]) == (1, -32603)


async def test_listen_request_is_a_running_one_until_it_is_accepted(
    desk: Desk, undecided: asyncio.Event, configure: Any
) -> None:
    configure(MAX_IN_FLIGHT=1)
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, resourceSubscriptions=["desk://slow"])):
        await undecided.wait()
        assert (await peer.post(peer.request("tools/list"))).status == 429
    async with peer.open_post(peer.listen(id=1)) as stream:
        await stream.message()
        assert (await peer.post(peer.request("tools/list"))).status == 200


async def test_listen_request_of_a_client_that_leaves_is_not_accepted(
    desk: Desk, undecided: asyncio.Event
) -> None:
    peer = peer_of(desk)
    message = peer.listen(id=1, resourceSubscriptions=["desk://slow"])
    async with peer.open_post(message) as stream, asyncio.timeout(SECONDS):
        await undecided.wait()
        stream.disconnect()
        await stream.task


async def test_listen_stream_beyond_the_limit_is_rejected(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(MAX_STREAMS=1)
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1)) as stream:
        await stream.message()
        reply = await peer.post(peer.listen(id=2))
        assert (reply.status, reply.json()["error"]["code"]) == (429, -32600)
        assert reply.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    "notifications",
    [None, [], "tools", {"toolsListChanged": 1}, {"resourceSubscriptions": "desk://news"}],
)
async def test_malformed_filter_is_rejected(desk: Desk, notifications: Any) -> None:
    peer = peer_of(desk)
    message = peer.request("subscriptions/listen", {"notifications": notifications})
    reply = await peer.post(message)
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32602)


async def test_too_many_resource_subscriptions_are_rejected(
    desk: Desk, set_constants: SetConstants
) -> None:
    set_constants(MAX_SUBSCRIPTIONS=1)
    peer = peer_of(desk)
    reply = await peer.post(peer.listen(id=1, resourceSubscriptions=["desk://news", "desk://x"]))
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32602)


async def test_long_filter_does_not_hold_the_loop(desk: Desk) -> None:
    for number in range(300):
        uri = f"desk{number}://tickets/{{+path}}"
        desk.server.register_resource_template(uri, lambda path: path, name=f"tickets {number}")
    peer = peer_of(desk)
    uris = [f"desk7://tickets/ {number}" for number in range(1000)]
    async with (
        unblocked(),
        peer.open_post(peer.listen(id=1, resourceSubscriptions=uris)) as stream,
    ):
        ack = await stream.message()
    assert ack["params"]["notifications"] == {"resourceSubscriptions": uris}


async def test_stream_of_a_client_that_does_not_read_is_cut_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse_response, "MAX_WAITING", 1000)
    monkeypatch.setattr(announcements, "MERGE_INTERVAL", 0)
    peer = peer_of(desk)
    async with peer.open_post(peer.listen(id=1, toolsListChanged=True)) as stream:
        await stream.message()
        stream.stop_reading()
        for _ in range(50):
            await desk.server.anotify_tools_list_changed()
            await asyncio.sleep(0)
        with pytest.raises(ConnectionError, match="without completing"):
            _ = [event async for event in stream.events()]
    assert "does not read" in caplog.text


async def test_client_that_does_not_accept_event_streams_gets_406(desk: Desk) -> None:
    peer = peer_of(desk)
    reply = await peer.post(peer.listen(id=1), {"accept": "application/json"})
    assert reply.status == 406


async def test_listen_stream_is_closed_when_the_principal_changes(desk: Desk) -> None:
    desk.server.authenticators = [NameHeaderAuthentication()]
    peer = peer_of(desk, headers={"x-name": "ann"})
    async with peer.open_post(peer.listen(id=1)) as stream:
        await stream.message()
        (held,) = open_streams.here().streams
        await held.check()
        assert await has_no_output(stream)
        stream._scope["headers"] = [
            (name, b"bob" if name == b"x-name" else value)
            for name, value in stream._scope["headers"]
        ]
        await held.check()
        assert "result" in await stream.message()
        assert await stream.event() is None
