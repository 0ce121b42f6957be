"""JSON-RPC messages: ids, unknown members, and non-ASCII text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.protocol import jsonrpc
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.memory_stores import Configure
from tests.spec import spec
from tests.waiting import SECONDS

pytestmark = pytest.mark.usefixtures("configure")

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
in_sessions = pytest.mark.parametrize("mcp_version", SESSIONS)


def shop(**options: Any) -> Server:
    server = Server("shop", **options)

    @server.tool
    def repeat(text: str) -> str:
        return text

    return server


async def response_to(client: Client, message: Any) -> dict[str, Any]:
    answer = await client.send(message)
    assert answer is not None
    return answer


@spec("RPC-02", "RPC-05", "RPC-06", "RPC-07", "2026/JR-02", "2026/JR-04", "2026/JR-05")
@pytest.mark.parametrize("identity", [0, 1, -1, 2**53, 2**63 - 1, "", "1", "a b", "ü", "x" * 256])
async def test_response_repeats_the_request_id_with_its_type(
    client_for: ClientFor, identity: Any
) -> None:
    async with client_for(shop()) as client:
        request = {**client.message("tools/list"), "id": identity}
        found = await response_to(client, request)
        unknown = await response_to(client, {**request, "method": "tools/forget"})

    assert [type(each["id"]) for each in (found, unknown)] == [type(identity)] * 2
    assert found["id"] == unknown["id"] == identity
    assert ("result" in found, "error" in found) == (True, False)
    assert ("result" in unknown, "error" in unknown) == (False, True)


@spec("2026/JR-03", "2026/ST-02")
async def test_two_clients_can_use_the_same_request_id_concurrently(client_for: ClientFor) -> None:
    started, proceed = asyncio.Event(), asyncio.Event()
    server = Server("shop")

    @server.tool
    async def wait(name: str) -> str:
        started.set()
        await proceed.wait()
        return name

    async with client_for(server) as one, client_for(server) as other:
        messages = [
            {**client.message("tools/call", {"name": "wait", "arguments": {"name": name}}), "id": 7}
            for client, name in ((one, "one"), (other, "other"))
        ]
        first = asyncio.ensure_future(one.send(messages[0]))
        async with asyncio.timeout(SECONDS):
            await started.wait()
        second = asyncio.ensure_future(other.send(messages[1]))
        proceed.set()
        answers = [await first, await second]

    texts = [answer and answer["result"]["content"][0]["text"] for answer in answers]
    assert texts == ["one", "other"]


@spec("RPC-17", "2026/VER-06")
async def test_unknown_members_and_notifications_are_ignored(client_for: ClientFor) -> None:
    async with client_for(shop()) as client:
        params = {"name": "repeat", "arguments": {"text": "a"}, "task": {"ttl": 60}, "later": []}
        message = {**client.message("tools/call", params), "later": {"x": 1}}
        answer = await response_to(client, message)
        await client.notify("notifications/nobody/knows", {"a": 1})
        again = await client.call_tool("repeat", {"text": "b"})

    assert answer["result"]["content"][0]["text"] == "a"
    assert again.text == "b"


@spec("LIFE-21")
@in_sessions
async def test_unknown_client_capabilities_are_accepted(
    client_for: ClientFor, mcp_version: str
) -> None:
    client = client_for(shop(), capabilities={"telepathy": {"range": 7}, "sampling": {"x": {}}})

    async with client:
        assert client.initialize_result["protocolVersion"] == mcp_version


@spec("RPC-16")
@pytest.mark.parametrize(
    "text", ["Grüße, мир, 世界 🌍", "a\nb\r\nc\u2028d\u2029e", "\x00\x1f\x7f", ""]
)
async def test_unicode_and_control_characters_are_preserved(
    client_for: ClientFor, text: str
) -> None:
    async with client_for(shop()) as client:
        result = await client.call_tool("repeat", {"text": text})

    assert result.text == text


@spec("T-STDIO-02", "2026/STD-01")
@pytest.mark.parametrize("value", ["a\nb", {"a": ["\r\n", "\u2028"]}, 'quote " and \\'])
def test_encoded_message_contains_no_line_breaks(value: Any) -> None:
    encoded = jsonrpc.encode(jsonrpc.result(1, {"value": value}))

    assert b"\n" not in encoded
    assert b"\r" not in encoded
    assert json.loads(encoded)["result"]["value"] == value


@spec("CANC-02")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
@in_sessions
async def test_initialize_request_cannot_be_cancelled(
    client_for: ClientFor, mcp_version: str
) -> None:
    hook_called, proceed = asyncio.Event(), asyncio.Event()

    server = shop()

    @server.hook
    async def on_initialize(info: Any, capabilities: Any, frame: Frame) -> None:
        hook_called.set()
        await proceed.wait()

    client = client_for(server)
    await client.connect()
    params = {
        "protocolVersion": mcp_version,
        "capabilities": {},
        "clientInfo": {"name": "somebody", "version": "1"},
    }
    opening = asyncio.ensure_future(
        client.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    )
    async with asyncio.timeout(SECONDS):
        await hook_called.wait()
    await client.notify("notifications/cancelled", {"requestId": 1})
    proceed.set()
    answer = await opening
    await client.close()

    assert answer is not None
    assert answer["result"]["protocolVersion"] == mcp_version


@spec("CANC-13")
@in_sessions
async def test_cancellation_of_unknown_ids_does_not_affect_a_running_request(
    client_for: ClientFor, configure: Configure
) -> None:
    server = Server("shop")

    @server.tool
    async def think(frame: Frame) -> str:
        return (await frame.client.acreate_message("Well?", 50)).text

    received: list[Any] = []

    async def answer(params: dict[str, Any]) -> dict[str, Any]:
        # The ids of both sides are independent: this one refers to none of the client's requests.
        for identity in ("question-1", 1, 2, "1"):
            await client.notify("notifications/cancelled", {"requestId": identity})
        received.append(params)
        return {"role": "assistant", "content": {"type": "text", "text": "Hm."}, "model": "m"}

    client = client_for(server, sampling=answer, log_level=None)
    async with client:
        message = {**client.message("tools/call", {"name": "think"}), "id": "mine"}
        result = await client.send(message)

    assert result is not None
    assert result["result"]["content"][0]["text"] == "Hm."
    assert len(received) == 1
