"""Scenarios that the official suite added after the version that we pin, as tests of our own.

http-stream-cancellation, per-request-loglevel, json-rpc-batch-rejection,
server-protocol-version-header and session-isolation, all over HTTP.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.protocol import jsonrpc
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import LOG_LEVEL, REPORTING, SESSIONS, STATELESS, VERSION

pytestmark = pytest.mark.usefixtures("configure")

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


# http-stream-cancellation


@spec("2026/HTTP-11", "2026/CAN-01")
async def test_closed_stream_cancels_only_its_own_call() -> None:
    server = Server("shop")
    ended: list[str] = []
    proceed = asyncio.Event()

    @server.tool
    async def slow(name: str, frame: Frame) -> str:
        await frame.client.aprogress(1)
        try:
            await proceed.wait()
        except asyncio.CancelledError:
            ended.append(f"{name} was cancelled")
            raise
        ended.append(f"{name} was done")
        return name

    server.tool(name="fast")(lambda: "fast")

    wire = AsgiClient(server, meta=REPORTING)
    async with (
        wire.open_post(wire.call("slow", name="first")) as first,
        wire.open_post(wire.call("slow", name="second")) as second,
    ):
        for exchange in (first, second):
            assert (await exchange.message())["method"] == "notifications/progress"
        first.disconnect()
        await first.wait_closed()
        fast = await wire.post(wire.call("fast"))
        proceed.set()
        done = await second.message()

    assert json.loads(fast.body)["result"]["content"][0]["text"] == "fast"
    assert done["result"]["content"][0]["text"] == "second"
    assert ended == ["first was cancelled", "second was done"]


@spec("2026/CAN-08")
async def test_stateless_cancellation_notification_is_accepted_and_ignored() -> None:
    server = Server("shop")
    proceed = asyncio.Event()

    @server.tool
    async def slow(frame: Frame) -> str:
        await frame.client.aprogress(1)
        await proceed.wait()
        return "done"

    wire, stranger = AsgiClient(server, meta=REPORTING), AsgiClient(server, meta=REPORTING)
    call = wire.call("slow")
    cancelled = jsonrpc.notification("notifications/cancelled", {"requestId": call["id"]})
    async with wire.open_post(call) as exchange:
        await exchange.message()
        accepted = [await each.post(cancelled) for each in (wire, stranger)]
        proceed.set()
        done = await exchange.message()

    assert [(reply.status, reply.body) for reply in accepted] == [(202, b"")] * 2
    assert done["result"]["content"][0]["text"] == "done"


# per-request-loglevel


def logging_server() -> Server:
    server = Server("shop")

    @server.tool
    async def log_all(frame: Frame) -> str:
        for level in LEVELS:
            await frame.client.alog(level, level)
        return "sent"

    return server


def at_level(wire: AsgiClient, level: Any) -> dict[str, Any]:
    message = wire.call("log_all")
    del message["params"]["_meta"][LOG_LEVEL]
    if level is not None:
        message["params"]["_meta"][LOG_LEVEL] = level
    return message


@spec("2026/LOG-03")
@pytest.mark.parametrize("level", LEVELS)
async def test_log_messages_below_the_level_of_the_request_are_not_sent(level: str) -> None:
    wire = AsgiClient(logging_server(), meta=REPORTING)

    async with wire.open_post(at_level(wire, level)) as exchange:
        messages = [json.loads(event.data) async for event in exchange.events()]

    levels = [message["params"]["level"] for message in messages[:-1]]
    assert levels == LEVELS[LEVELS.index(level) :]
    assert {message["method"] for message in messages[:-1]} == {"notifications/message"}
    assert "result" in messages[-1]


@spec("2026/HTTP-07", "2026/LOG-02")
async def test_concurrent_requests_have_independent_log_levels() -> None:
    wire = AsgiClient(logging_server(), meta=REPORTING)

    async def count_logs(level: str | None) -> int:
        reply = await wire.post(at_level(wire, level))
        return reply.body.count(b"notifications/message")

    levels = ["debug", None, "error", "emergency", None]
    counts = await asyncio.gather(*map(count_logs, levels))

    assert counts == [8, 0, 4, 1, 0]


@spec("2026/LOG-04")
@pytest.mark.parametrize("level", ["banana", "", "INFO", "warn", 3, None, [], {}])
async def test_unknown_log_level_is_rejected(level: Any) -> None:
    wire = AsgiClient(logging_server(), meta=REPORTING)
    message = at_level(wire, "info")
    message["params"]["_meta"][LOG_LEVEL] = level

    reply = await wire.post(message)

    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, -32602)


# json-rpc-batch-rejection


@spec("RPC-B7", "RPC-B8", "T-HTTP-12", "2026/JR-11")
@pytest.mark.parametrize("version", [STATELESS, "2024-11-05", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("several", ["none", "one request", "two requests", "responses"])
async def test_batch_is_rejected_as_a_whole(version: str, several: str) -> None:
    called: list[str] = []
    server = Server("shop")
    server.tool(name="note")(lambda: called.append("noted"))
    wire = AsgiClient(server, version, meta=REPORTING)
    if version != STATELESS:
        await wire.initialize()
    batches = {
        "none": [],
        "one request": [wire.call("note")],
        "two requests": [wire.call("note"), wire.call("note")],
        "responses": [jsonrpc.result(1, {})],
    }

    reply = await wire.post(batches[several])

    error = json.loads(reply.body)
    assert 400 <= reply.status < 500
    assert (error["jsonrpc"], error["error"]["code"], error.get("id")) == ("2.0", -32600, None)
    assert called == []


# server-protocol-version-header


@spec("2026/VER-03")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("not-a-version", -32022),
        ("2026-7-28", -32022),
        ("1999-01-01", -32022),
        ("2099-12-31", -32022),
        ("v999.0.0", -32022),
        ("", -32022),
    ],
)
async def test_unsupported_version_in_a_stateless_request_is_rejected(
    version: str, code: int
) -> None:
    wire = AsgiClient(Server("shop", capabilities={"tools": {}}), meta=REPORTING)
    message = wire.request("tools/list")
    message["params"]["_meta"][VERSION] = version

    reply = await wire.post(message, {"mcp-protocol-version": version})

    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (400, code)
    assert error["data"] == {"supported": [STATELESS], "requested": version}


@spec("T-HTTP-73")
@pytest.mark.parametrize("version", ["not-a-version", "1999-01-01", "2099-12-31", "", "ü"])
async def test_unknown_version_header_in_a_session_is_rejected(version: str) -> None:
    wire = AsgiClient(Server("shop", capabilities={"tools": {}}), "2025-11-25", meta=REPORTING)
    await wire.initialize()

    reply = await wire.post(wire.request("tools/list"), {"mcp-protocol-version": version})
    again = await wire.post(wire.request("tools/list"))

    assert (reply.status, again.status) == (400, 200)


@spec("T-HTTP-73")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("version", ["not-a-version", "2099-12-31"])
async def test_unknown_version_header_is_rejected_for_every_http_method(
    method: str, version: str
) -> None:
    wire = AsgiClient(Server("shop"), "2025-11-25", meta=REPORTING)
    await wire.initialize()

    reply = await wire.perform(method, {"mcp-protocol-version": version})
    again = await wire.post(wire.request("ping"))

    assert (reply.status, again.status) == (400, 200)


@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize("header", ["not-a-version", "2099-12-31", "2024-11-05", "2025-11-25", ""])
async def test_initialize_negotiates_the_version_regardless_of_the_header(
    version: str, header: str
) -> None:
    wire = AsgiClient(Server("shop"), version, meta=REPORTING)

    reply = await wire.post(wire.initialize_request(), {"mcp-protocol-version": header})

    assert reply.status == 200
    assert reply.json()["result"]["protocolVersion"] == version


@pytest.mark.parametrize("version", SESSIONS)
async def test_initialize_with_a_deleted_session_id_is_not_found(version: str) -> None:
    wire = AsgiClient(Server("shop"), version, meta=REPORTING)
    await wire.initialize()
    await wire.perform("DELETE")

    reply = await wire.post(wire.initialize_request())
    wire.session = None
    again = await wire.post(wire.initialize_request())

    assert (reply.status, again.status) == (404, 200)


# session-isolation


@pytest.mark.parametrize("version", SESSIONS)
async def test_session_state_is_not_visible_in_another_session(version: str) -> None:
    server = Server("shop", notify_lists_on_initialize=False)

    @server.tool
    async def note(text: str, frame: Frame) -> tuple[list[str], Frame]:
        noted = [*frame.assigns.get("noted", ()), text]
        await frame.client.alog("error", text)
        return noted, frame.assign(noted=noted).register_tool(text, handler=f"{__name__}.mine")

    one, other = AsgiClient(server, version), AsgiClient(server, version)
    for peer in (one, other):
        await peer.initialize()

    async with one.stream() as ones, other.stream() as others:
        first = await one.post(one.call("note", id=1, text="mine"))
        second = await other.post(other.call("note", id=1, text="yours"))
        tools = [await peer.post(peer.request("tools/list")) for peer in (one, other)]
        changes = [await stream.message() for stream in (ones, others)]

    assert b"yours" not in first.body
    assert b"mine" not in second.body.replace(b"tests.transports", b"")
    names = [
        [tool["name"] for tool in json.loads(reply.body)["result"]["tools"]] for reply in tools
    ]
    assert names == [["mine", "note"], ["note", "yours"]]
    assert [change["method"] for change in changes] == ["notifications/tools/list_changed"] * 2


@spec("2026/VER-01", "2026/ST-01")
async def test_stateless_request_data_is_not_visible_in_the_next_request() -> None:
    server = Server("shop")

    @server.tool
    def seen(frame: Frame) -> tuple[dict[str, Any], Frame]:
        known = {
            "assigns": sorted(frame.assigns),
            "session": frame.get_mcp_session_id(),
            "client": frame.get_client_info(),
            "can": frame.get_client_capabilities(),
        }
        return known, frame.assign(secret="kept")

    wire = AsgiClient(server, meta=REPORTING)
    telling = wire.call("seen")
    telling["params"]["_meta"] |= {
        "io.modelcontextprotocol/clientInfo": {"name": "somebody", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
    }
    session = {"mcp-session-id": "shared"}
    first = await wire.post(telling, session)
    second = await wire.post(wire.call("seen"), session)

    found = json.loads(second.body)["result"]["structuredContent"]
    assert json.loads(first.body)["result"]["structuredContent"]["can"] == {"sampling": {}}
    assert found == {"assigns": [], "session": None, "client": None, "can": {}}
    assert "mcp-session-id" not in second.headers


def mine() -> str:
    return "mine"
