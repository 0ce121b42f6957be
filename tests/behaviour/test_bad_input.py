"""What cannot be served is refused by name, and the next request works.

The table of issue 2: each case has the one answer which the specification and the project's
decisions give it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp import McpError, Response, Server
from django_mcp.components.response import ToolResponse
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.behaviour.conftest import Configure
from tests.refusals import refusal

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def add(a: int, b: int = 0) -> int:
        return a + b

    return server


async def works(client: Client) -> bool:
    """Whether the next request is answered."""
    result = await client.call_tool("add", {"a": 1})
    return bool(result["content"][0]["text"] == "1")


async def answer_to(client: Client, data: Any) -> dict[str, Any]:
    """The error with which something raw is answered, beside the id of the answer."""
    answer = await client.send(data)
    assert answer is not None
    assert await works(client)
    return {**answer["error"], "id": answer.get("id")}


# What is no message.


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"not JSON",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": NaN}',
        b'\xff\xfe{"jsonrpc"',
        b'{"a": "\\ud800"}',
        b"[" * 10_000,
    ],
    ids=["open", "words", "NaN", "no UTF-8", "half a surrogate", "nested too deeply"],
)
async def test_what_is_no_json_is_a_parse_error(client_for: ClientFor, data: bytes) -> None:
    async with client_for(shop()) as client:
        error = await answer_to(client, data)

    assert (error["code"], error["id"]) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "message",
    [
        1,
        "tools/list",
        {},
        {"jsonrpc": "1.0", "method": "tools/list"},
        {"jsonrpc": "2.0", "method": 1},
        {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": [1], "method": "tools/list"},
    ],
)
async def test_what_is_no_message_is_an_invalid_request(
    client_for: ClientFor, message: Any
) -> None:
    async with client_for(shop()) as client:
        error = await answer_to(client, json.dumps(message).encode())

    assert (error["code"], error["id"]) == (INVALID_REQUEST, None)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "1.0", "id": 77, "method": "tools/list"},
        {"id": 77, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 77, "method": 1},
        {"jsonrpc": "2.0", "id": 77, "method": "tools/list", "params": []},
        {"jsonrpc": "2.0", "id": 77},
        {"jsonrpc": "2.0", "id": 77, "result": {}, "error": {}},
    ],
)
async def test_an_id_which_could_be_read_is_repeated(client_for: ClientFor, message: Any) -> None:
    async with client_for(shop()) as client:
        error = await answer_to(client, json.dumps(message).encode())

    assert (error["code"], error["id"]) == (INVALID_REQUEST, 77)


@pytest.mark.parametrize("batch", [[], [1], "a request"])
async def test_batches_are_refused_where_the_revision_has_none(
    client_for: ClientFor, mcp_version: str, batch: Any
) -> None:
    async with client_for(shop()) as client:
        data = [client.message("tools/list")] if batch == "a request" else batch
        if mcp_version == "2025-03-26" and batch:
            return
        error = await answer_to(client, json.dumps(data).encode())

    assert error["code"] == INVALID_REQUEST


# Methods and their parameters.


@pytest.mark.parametrize("method", ["tools/forget", "", "tools", "notifications/x"])
async def test_an_unknown_method_is_not_found(client_for: ClientFor, method: str) -> None:
    async with client_for(shop()) as client:
        error = await refusal(client.request(method))
        assert await works(client)

    assert error.code == METHOD_NOT_FOUND


REMOVED = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]


@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
@pytest.mark.parametrize("method", REMOVED)
async def test_methods_which_a_revision_removed_are_unknown_to_it(
    client_for: ClientFor, method: str
) -> None:
    async with client_for(shop()) as client:
        error = (await answer_to(client, client.message(method, meta=client._meta("", 1))))["code"]

    assert error == METHOD_NOT_FOUND


async def test_methods_which_only_a_later_revision_has_are_unknown(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(shop()) as client:
        if mcp_version != "2026-07-28":
            error = await refusal(client.request("server/discover"))
            assert error.code == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "params.name must be a string"),
        ({"name": None}, "params.name must be a string"),
        ({"name": 1}, "params.name must be a string"),
        ({"name": "forget"}, "Unknown tool: forget"),
        ({"name": "Add"}, "Unknown tool: Add"),
        ({"name": "add", "arguments": []}, "params.arguments must be an object"),
        ({"name": "add", "arguments": None}, "params.arguments must be an object"),
        ({"name": "add", "arguments": "a"}, "params.arguments must be an object"),
    ],
)
async def test_a_call_which_names_no_tool_is_refused(
    client_for: ClientFor, params: dict[str, Any], said: str
) -> None:
    async with client_for(shop()) as client:
        error = await refusal(client.request("tools/call", params))
        assert await works(client)

    assert (error.code, error.message) == (INVALID_PARAMS, said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "a: required, but missing"),
        ({"a": "one"}, "a: "),
        ({"a": None}, "a: "),
        ({"a": 1, "c": 2}, "c: unknown argument (accepted: a, b)"),
        ({"a": 1.5, "b": []}, "b: "),
    ],
)
async def test_arguments_which_do_not_fit_are_told_to_the_model(
    client_for: ClientFor, arguments: dict[str, Any], said: str
) -> None:
    async with client_for(shop()) as client:
        result = await client.call_tool("add", arguments)
        assert await works(client)

    (block,) = result["content"]
    assert result["isError"] is True
    assert block["text"].startswith("The arguments do not fit: ")
    assert said in block["text"]


@pytest.mark.parametrize("uri", [None, 7, {}])
async def test_an_address_which_is_no_string_is_refused(client_for: ClientFor, uri: Any) -> None:
    server = shop()
    server.resource("shop://hours", name="hours")(lambda: "9 to 5")

    async with client_for(server) as client:
        error = await refusal(client.request("resources/read", {"uri": uri}))

    assert (error.code, error.message) == (INVALID_PARAMS, "params.uri must be a string")


@pytest.mark.parametrize("token", [1.5, True, [], {}])
async def test_a_progress_token_is_a_string_or_an_integer(
    client_for: ClientFor, token: Any
) -> None:
    async with client_for(shop()) as client:
        error = await refusal(client.request("tools/list", meta={"progressToken": token}))
        assert await works(client)

    assert error.code == INVALID_PARAMS


# What handlers do wrong.


@dataclass
class Unsayable:
    """Something that JSON has no words for."""

    it: object


async def test_a_tool_which_returns_what_it_did_not_promise_is_our_own_fault(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = shop()

    @server.tool(output_schema={"type": "object", "required": ["secret"]})
    def check() -> Any:
        return {"password": "xyzzy"}

    async with client_for(server) as client:
        error = await refusal(client.call_tool("check"))
        assert await works(client)

    assert (error.code, error.data) == (INTERNAL_ERROR, None)
    assert "xyzzy" not in error.message
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {"a": object()}, [object()], "half \ud800", Response.prompt()],
    ids=["object", "bytes", "object inside", "object in list", "surrogate", "other kind"],
)
async def test_a_value_which_cannot_be_said_is_our_own_fault(
    client_for: ClientFor, value: Any
) -> None:
    server = shop()
    server.tool(name="check")(lambda: value)

    async with client_for(server) as client:
        error = await refusal(client.call_tool("check"))
        assert await works(client)

    assert error.code == INTERNAL_ERROR


async def test_a_response_which_cannot_be_said_is_our_own_fault(client_for: ClientFor) -> None:
    server = shop()

    @server.tool
    def check() -> ToolResponse:
        return Response.tool().text("fine").meta({"com.example/key": object()})

    async with client_for(server) as client:
        error = await refusal(client.call_tool("check"))
        assert await works(client)

    assert error.code == INTERNAL_ERROR


async def test_an_error_which_cannot_be_said_is_our_own_fault(client_for: ClientFor) -> None:
    server = shop()

    @server.tool
    async def check() -> str:
        raise McpError("Sorry", data=object())

    async with client_for(server) as client:
        error = await refusal(client.call_tool("check"))
        assert await works(client)

    assert (error.code, error.data) == (INTERNAL_ERROR, None)


async def test_middleware_which_raises_is_our_own_fault(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(frame: Any, call_next: Any) -> Any:
        if frame.request.method == "tools/call":
            raise RuntimeError("the password is xyzzy")
        return await call_next(frame)

    server = Server("shop", middleware=[stumble], capabilities={"tools": {}})

    async with client_for(server) as client:
        error = await refusal(client.call_tool("add"))
        assert (await client.request("tools/list"))["tools"] == []

    assert (error.code, error.message) == (INTERNAL_ERROR, "Internal error")
    assert "xyzzy" in caplog.text


def stumble(frame: Any) -> dict[str, Any]:
    if frame.request.method == "tools/call":
        raise RuntimeError("the password is xyzzy")
    return {}


async def test_a_frame_processor_which_raises_is_our_own_fault(
    client_for: ClientFor, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.stumble"])

    async with client_for(shop()) as client:
        error = await refusal(client.call_tool("add"))
        assert await client.list_tools()

    assert (error.code, error.message) == (INTERNAL_ERROR, "Internal error")
    assert "xyzzy" in caplog.text
