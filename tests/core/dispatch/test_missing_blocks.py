"""Blocks of content that a revision lacks."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from django_mcp import Frame, Server, routing
from tests.by_hand.processes import stdio
from tests.memory_stores import Configure
from tests.waiting import happens
from tests.wire.asgi import AsgiClient
from tests.wire.messages import SESSIONS, STATELESS, Message, encoded


def odd() -> Server:
    server = Server("odd")
    block = {"type": "tool_use", "id": "1", "name": "x", "input": {}}

    @server.prompt
    def odd_prompt() -> Any:
        return [{"role": "user", "content": block}]

    return server


async def test_prompt_with_an_unknown_block_is_an_error_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(9, "prompts/get", {"name": "odd"})

    assert answer["error"]["code"] == -32603


async def test_prompt_with_an_unknown_block_is_an_error_over_http() -> None:
    peer = AsgiClient(odd())

    response = await peer.post(peer.request("prompts/get", {"name": "odd_prompt"}, id=9))

    assert response.error["code"] == -32603
    assert response.answer.get("id") == 9


async def test_prompt_with_an_unknown_block_is_an_error_over_http_sse(
    configure: Configure,
) -> None:
    configure(HTTP_SSE=True)
    found = routing.endpoints(odd())
    paths = {path.rpartition("/")[2]: path for path in found if path.count("/") == 2}
    reader = AsgiClient(odd(), "2024-11-05", application=found[paths["sse"]], path=paths["sse"])
    writer = AsgiClient(
        odd(), "2024-11-05", application=found[paths["messages"]], path=paths["messages"]
    )
    async with reader.open_get() as stream:
        assert await happens(lambda: b"data:" in stream.sent_body)
        line = next(
            each for each in stream.sent_body.decode().split("\n") if each.startswith("data:")
        )
        query = line.partition("?")[2].strip()

        async def post(message: Message) -> None:
            scope = writer.scope(message)
            scope["query_string"] = query.encode()
            incoming: asyncio.Queue[Message] = asyncio.Queue()
            incoming.put_nowait(
                {"type": "http.request", "body": encoded(message), "more_body": False}
            )

            async def send(_: Message) -> None:
                """The response says only that it was accepted."""

            await writer.application(scope, incoming.get, send)

        hello = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        await post(writer.request("initialize", hello, id=1))
        await happens(lambda: b'"id":1' in stream.sent_body)
        await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await post(writer.request("prompts/get", {"name": "odd_prompt"}, id=9))
        answered = await happens(lambda: b'"id":9' in stream.sent_body, 1)
    # A task whose exception nobody retrieved is logged now, and not while pytest reads a file.
    await asyncio.sleep(0)
    gc.collect()

    assert answered, "There is no answer"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        *(("resource", version) for version in [*SESSIONS, STATELESS]),
        # The first two revisions have no links at all, which is noticed.
        *(("resource_link", version) for version in [*SESSIONS[2:], STATELESS]),
        # This one they all have: what is not sent is not sent because of the block.
        *(("text", version) for version in [*SESSIONS, STATELESS]),
    ],
)
async def test_sampling_with_a_block_that_it_lacks_is_not_sent(version: str, kind: str) -> None:
    block = {
        "text": {"type": "text", "text": "x"},
        "resource": {"type": "resource", "resource": {"uri": "shop://x", "text": "x"}},
        "resource_link": {"type": "resource_link", "uri": "shop://x", "name": "x"},
    }[kind]
    server = Server("shop")

    @server.tool(requests_input=True)
    async def sample(frame: Frame) -> str:
        await frame.client.acreate_message([{"role": "user", "content": block}], 50, timeout=0.5)
        return "done"

    peer = AsgiClient(server, version, capabilities={"sampling": {}})
    if version != STATELESS:
        await peer.initialize()
    async with peer.open_post(peer.call("sample")) as exchange:
        found = str((await exchange.reply()).messages)

    assert ("sampling/createMessage" in found) == (kind == "text")
