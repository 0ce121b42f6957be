"""Each message is sent on one stream: responses on their own, others on another one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.protocol import jsonrpc
from tests.spec import spec
from tests.transports.http.session.streams import has_no_output
from tests.transports.sample_server import Desk
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, REPORTING, STATELESS

pytestmark = pytest.mark.usefixtures("configure")

STREAMABLE = ["2025-03-26", "2025-06-18", "2025-11-25"]


def counting_server() -> Server:
    server = Server("shop", notify_lists_on_initialize=False)

    @server.tool
    async def count(name: str, frame: Frame) -> str:
        for number in range(3):
            await frame.client.alog("error", f"{name} {number}")
            await asyncio.sleep(0)
        return name

    return server


async def read_stream(exchange: Any) -> list[Any]:
    """The messages of a stream to its end: texts of log messages, and results."""
    messages = [json.loads(event.data) async for event in exchange.events() if event.data]
    return [
        message["params"]["data"]
        if "method" in message
        else message["result"]["content"][0]["text"]
        for message in messages
    ]


@spec("T-HTTP-24", "T-HTTP-27", "T-HTTP-43", "T-HTTP-44", "T-HTTP-51")
@pytest.mark.parametrize("version", STREAMABLE)
async def test_notifications_of_a_call_are_sent_only_on_its_own_stream(version: str) -> None:
    peer = AsgiClient(counting_server(), version)
    await peer.initialize()

    async with (
        peer.stream() as standalone,
        peer.open_post(peer.call("count", name="a")) as one,
        peer.open_post(peer.call("count", name="b")) as other,
    ):
        received = [*await asyncio.gather(read_stream(one), read_stream(other))]
        await peer.server.anotify_tools_list_changed()
        notification = await standalone.message()
        assert await has_no_output(standalone)

    assert received == [["a 0", "a 1", "a 2", "a"], ["b 0", "b 1", "b 2", "b"]]
    assert notification["method"] == "notifications/tools/list_changed"


@spec("T-HTTP-57")
async def test_resumed_stream_replays_only_its_own_messages() -> None:
    peer = AsgiClient(counting_server(), NEWEST_SESSION)
    await peer.initialize()

    firsts = []
    for name in ("a", "b"):
        async with peer.open_post(peer.call("count", name=name)) as stream:
            primed = await stream.event()
            assert primed is not None
            firsts.append(primed.id)
            await read_stream(stream)
    again = []
    for last in firsts:
        async with peer.stream(last=last) as stream:
            again.append(await read_stream(stream))

    assert again == [["a 0", "a 1", "a 2", "a"], ["b 0", "b 1", "b 2", "b"]]


@spec("T-HTTP-44", "T-HTTP-51")
async def test_resumed_stream_of_a_call_receives_no_message_for_the_session() -> None:
    desk = Desk(notify_lists_on_initialize=False)
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.open_post(peer.call("work")) as stream:
        started = await stream.data_event()
        await desk.wait_started()

    async with peer.stream(last=started.id) as resumed:
        await desk.server.asend_notification("x/for-the-session", session_id=peer.session)
        desk.proceed.set()
        messages = [json.loads(event.data) async for event in resumed.events() if event.data]
    async with peer.stream() as standalone:
        notification = await standalone.message()

    assert [message.get("method") for message in messages] == ["notifications/message", None]
    assert notification["method"] == "x/for-the-session"


@spec("ELIC-17", "ELIC-18")
async def test_elicitation_complete_is_sent_only_to_its_session() -> None:
    server = Server("shop", notify_lists_on_initialize=False)
    one, other = AsgiClient(server, NEWEST_SESSION), AsgiClient(server, NEWEST_SESSION)
    for peer in (one, other):
        await peer.initialize()
    visited = "notifications/elicitation/complete"

    async with one.stream() as ones, other.stream() as others:
        await others.event()
        await server.asend_notification(
            visited, {"elicitationId": "visit-1"}, session_id=one.session
        )
        notification = await ones.message()
        assert await has_no_output(others)

    assert (notification["method"], notification["params"]) == (
        visited,
        {"elicitationId": "visit-1"},
    )


@spec("2026/JR-11", "2026/TR-01", "2026/HTTP-05", "2026/HTTP-17")
async def test_stateless_stream_is_not_resumable_and_responses_are_rejected() -> None:
    wire = AsgiClient(counting_server(), meta=REPORTING)

    resumed = await wire.post(wire.call("count", name="a"), {"last-event-id": "pstream.1"})
    answered = await wire.post(jsonrpc.result(1, {"action": "accept"}))
    replies = [await wire.perform(method) for method in ("GET", "DELETE")]

    assert resumed.body.count(b"data:") == 4
    assert b"id:" not in resumed.body.replace(b'"id":', b"")
    assert answered.status == 400
    assert answered.json()["error"]["code"] == -32600
    assert [reply.status for reply in replies] == [405, 405]


@pytest.mark.parametrize("version", [*STREAMABLE, STATELESS])
async def test_responses_are_not_cacheable(version: str) -> None:
    wire = AsgiClient(counting_server(), version, meta=REPORTING)
    if version != STATELESS:
        await wire.initialize()

    replies = [
        await wire.post(wire.request("tools/list")),
        await wire.post(wire.request("tools/forget")),
        await wire.post(wire.request("tools/list"), {"origin": "https://elsewhere.example"}),
    ]
    stream = await wire.post(wire.call("count", name="a"))

    assert {reply.headers["cache-control"] for reply in replies} == {"no-store"}
    assert stream.headers["cache-control"] == "no-cache, no-transform"
