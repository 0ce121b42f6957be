"""Listen streams of the stateless era: acknowledged, filtered, told, and ended properly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp.transports import open_stream
from tests.transports.desk import Desk
from tests.transports.driving import MODERN, Peer, message_of
from tests.transports.test_streams import Named, silent

ID = "io.modelcontextprotocol/subscriptionId"
ACK = "notifications/subscriptions/acknowledged"
EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["desk://news", "desk://drawer/7"],
}


def peer_of(desk: Desk, **options: Any) -> Peer:
    return Peer(desk.server, version=MODERN, **options)


@pytest.mark.parametrize("id", [1, "1", 0, "", "a\u2028b"])
async def test_everything_on_the_stream_names_its_subscription(desk: Desk, id: Any) -> None:
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=id, **EVERYTHING)) as stream:
        assert (await stream.headers())["content-type"] == "text/event-stream"
        ack = await message_of(stream)
        assert ack == {
            "jsonrpc": "2.0",
            "method": ACK,
            "params": {"_meta": {ID: id}, "notifications": EVERYTHING},
        }
        await desk.server.anotify_tools_list_changed()
        await desk.server.anotify_prompts_list_changed()
        await desk.server.anotify_resources_list_changed()
        await desk.server.anotify_resource_updated("desk://news")
        heard = [await message_of(stream) for _ in range(4)]
        assert [each["params"]["_meta"][ID] for each in heard] == [id] * 4
        assert [type(each["params"]["_meta"][ID]) for each in heard] == [type(id)] * 4
        assert [each["method"] for each in heard] == [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
        ]
        assert heard[-1]["params"]["uri"] == "desk://news"


async def test_only_what_was_asked_for_is_told(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, promptsListChanged=True)) as stream:
        await message_of(stream)
        await desk.server.anotify_tools_list_changed()
        await desk.server.anotify_resource_updated("desk://news")
        await desk.server.asend_notification("notifications/message", {"level": "info"})
        await desk.server.anotify_prompts_list_changed()
        assert (await message_of(stream))["method"] == "notifications/prompts/list_changed"
        assert await silent(stream)


async def test_an_empty_filter_is_legal(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1)) as stream:
        assert (await message_of(stream))["params"]["notifications"] == {}
        await desk.server.anotify_tools_list_changed()
        assert await silent(stream)


async def test_what_is_not_there_or_hidden_is_not_honoured(desk: Desk) -> None:
    peer = peer_of(desk)
    wanted = ["desk://secret", "desk://none", "desk://drawer/seven", "desk://news"]
    message = peer.listen(id=1, resourceSubscriptions=wanted, taskIds=["x"], toolsListChanged=False)
    async with peer.posting(message) as stream:
        honoured = (await message_of(stream))["params"]["notifications"]
        assert honoured == {"resourceSubscriptions": ["desk://news"]}


async def test_a_capability_which_is_taken_away_is_not_honoured() -> None:
    desk = Desk(capabilities={"tools": {}, "resources": {"listChanged": True}})
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, **EVERYTHING)) as stream:
        honoured = (await message_of(stream))["params"]["notifications"]
        assert honoured == {"promptsListChanged": True, "resourcesListChanged": True}


async def test_who_may_not_read_any_more_is_not_told(desk: Desk) -> None:
    allowed = True
    server = desk.server
    server.resource("desk://guarded", permission=lambda frame: allowed)(lambda: "x")
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, resourceSubscriptions=["desk://guarded"])) as stream:
        await message_of(stream)
        await server.anotify_resource_updated("desk://guarded")
        assert (await message_of(stream))["method"] == "notifications/resources/updated"
        allowed = False
        await server.anotify_resource_updated("desk://guarded")
        assert await silent(stream)


async def test_several_subscriptions_are_independent(desk: Desk) -> None:
    peer = peer_of(desk)
    async with (
        peer.posting(peer.listen(id=1, toolsListChanged=True)) as one,
        peer.posting(peer.listen(id="1", toolsListChanged=True)) as two,
    ):
        for stream in (one, two):
            await message_of(stream)
        await desk.server.anotify_tools_list_changed()
        assert (await message_of(one))["params"]["_meta"][ID] == 1
        assert (await message_of(two))["params"]["_meta"][ID] == "1"
        one.disconnect()
        await one.ended()
        await desk.server.anotify_tools_list_changed()
        assert (await message_of(two))["params"]["_meta"][ID] == "1"


async def test_a_disconnect_frees_everything(desk: Desk) -> None:
    from django_mcp import hub

    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, **EVERYTHING)) as stream:
        await message_of(stream)
        assert hub.here()._receivers
        stream.disconnect()
        await stream.ended()
    assert hub.here()._receivers == {}
    assert open_stream.end_all() == 0


async def test_a_graceful_end_is_the_answer(desk: Desk) -> None:
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=7, toolsListChanged=True)) as stream:
        await message_of(stream)
        assert open_stream.end_all() == 1
        answer = await message_of(stream)
        assert answer["id"] == 7
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][ID] == 7
        assert await stream.event() is None


async def test_streams_give_signs_of_life(desk: Desk, configure: Any) -> None:
    configure(KEEPALIVE_INTERVAL=0.02)
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1)) as stream:
        await message_of(stream)
        assert await stream.read() == b":\n\n"


async def test_the_stream_outlives_the_longest_call(desk: Desk, configure: Any) -> None:
    configure(CALL_TIMEOUT=0.05)
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, toolsListChanged=True)) as stream:
        await message_of(stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.ended(), 0.2)
        await desk.server.anotify_tools_list_changed()
        assert (await message_of(stream))["method"] == "notifications/tools/list_changed"


async def test_a_caller_has_a_bounded_number_of_streams(desk: Desk, configure: Any) -> None:
    configure(MAX_LISTEN_STREAMS=1)
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1)) as stream:
        await message_of(stream)
        reply = await peer.post(peer.listen(id=2))
        assert (reply.status, reply.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize(
    "notifications",
    [None, [], "tools", {"toolsListChanged": 1}, {"resourceSubscriptions": "desk://news"}],
)
async def test_a_filter_which_is_none_is_refused(desk: Desk, notifications: Any) -> None:
    peer = peer_of(desk)
    message = peer.request("subscriptions/listen", {"notifications": notifications})
    reply = await peer.post(message)
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32602)


async def test_too_many_resources_are_refused(desk: Desk, configure: Any) -> None:
    configure(MAX_SUBSCRIPTIONS=1)
    peer = peer_of(desk)
    reply = await peer.post(peer.listen(id=1, resourceSubscriptions=["desk://news", "desk://x"]))
    assert (reply.status, reply.json()["error"]["code"]) == (400, -32602)


async def test_who_does_not_read_loses_the_stream(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_stream, "TOO_MUCH", 1000)
    peer = peer_of(desk)
    async with peer.posting(peer.listen(id=1, toolsListChanged=True)) as stream:
        await message_of(stream)
        stream.stop_reading()
        for _ in range(50):
            await desk.server.anotify_tools_list_changed()
            await asyncio.sleep(0)
        stream.go_on_reading()
        assert len([event async for event in stream.events()]) < 50
    assert "does not read" in caplog.text


async def test_who_takes_no_stream_cannot_listen(desk: Desk) -> None:
    peer = peer_of(desk)
    message = peer.listen(id=1)
    scope = peer._scope("POST", message)
    scope["headers"] = [
        (name, b"application/json" if name == b"accept" else value)
        for name, value in scope["headers"]
    ]
    from django_mcp.testing.exchange import perform

    reply = await perform(peer._application, scope, json.dumps(message).encode())
    assert reply.status == 406


async def test_a_caller_who_loses_her_rights_loses_her_stream(desk: Desk) -> None:
    desk.server.auth = [Named()]
    peer = peer_of(desk, headers={"x-name": "ann"})
    async with peer.posting(peer.listen(id=1)) as stream:
        await message_of(stream)
        (held,) = open_stream._streams_here()._streams
        await held.check()
        assert await silent(stream)
        stream._scope["headers"] = [
            (name, b"bob" if name == b"x-name" else value)
            for name, value in stream._scope["headers"]
        ]
        await held.check()
        assert "result" in await message_of(stream)
        assert await stream.event() is None
