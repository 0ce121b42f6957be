"""Invalid messages are rejected with a specific error, and the next request works.

The table of issue 2: each case has the one response that the specification and the project's
decisions prescribe.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from django_mcp import McpError, Response, Server
from django_mcp.core.components.responses import ToolResponse
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from django_mcp.testing.results import ErrorResponse
from tests.http_errors import error_of
from tests.memory_stores import Configure
from tests.spec import spec

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def add(a: int, b: int = 0) -> int:
        return a + b

    return server


async def works(client: Client) -> bool:
    """Return whether the next request succeeds."""
    result = await client.call_tool("add", {"a": 1})
    return bool(result.text == "1")


async def error_for(client: Client, data: Any) -> dict[str, Any]:
    """Return the error for raw input, and the id of the response."""
    answer = await client.send(data)
    assert answer is not None
    assert await works(client)
    return {**answer["error"], "id": answer.get("id")}


# Invalid messages.


@spec("RPC-08", "RPC-15", "RPC-16", "2026/JR-01")
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"not JSON",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": NaN}',
        b'\xff\xfe{"jsonrpc"',
        b"[" * 10_000,
    ],
    ids=["unclosed", "text", "NaN", "invalid UTF-8", "nested too deeply"],
)
async def test_invalid_json_returns_parse_error(client_for: ClientFor, data: bytes) -> None:
    async with client_for(shop()) as client:
        error = await error_for(client, data)

    assert (error["code"], error["id"]) == (PARSE_ERROR, None)


@spec("RPC-01", "RPC-02", "RPC-03", "RPC-15", "2026/JR-01", "2026/JR-02")
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
async def test_invalid_jsonrpc_message_returns_invalid_request(
    client_for: ClientFor, message: Any
) -> None:
    async with client_for(shop()) as client:
        error = await error_for(client, json.dumps(message).encode())

    assert (error["code"], error["id"]) == (INVALID_REQUEST, None)


@spec("RPC-14", "2026/JR-07")
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
async def test_error_for_invalid_message_repeats_readable_request_id(
    client_for: ClientFor, message: Any
) -> None:
    async with client_for(shop()) as client:
        error = await error_for(client, json.dumps(message).encode())

    assert (error["code"], error["id"]) == (INVALID_REQUEST, 77)


@pytest.mark.parametrize("batch", [[], [1], "a request"])
async def test_batch_is_rejected_by_revisions_without_batches(
    client_for: ClientFor, mcp_version: str, batch: Any
) -> None:
    async with client_for(shop()) as client:
        data = [client.message("tools/list")] if batch == "a request" else batch
        if mcp_version == "2025-03-26" and batch:
            return
        error = await error_for(client, json.dumps(data).encode())

    assert error["code"] == INVALID_REQUEST


# Methods and their parameters.


@spec("RPC-15")
@pytest.mark.parametrize("method", ["tools/forget", "", "tools", "notifications/x"])
async def test_unknown_method_returns_method_not_found(client_for: ClientFor, method: str) -> None:
    async with client_for(shop()) as client:
        error = await error_of(client.request(method))
        assert await works(client)

    assert error.code == METHOD_NOT_FOUND


REMOVED = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]


@spec("2026/ERR-07")
@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
@pytest.mark.parametrize("method", REMOVED)
async def test_removed_method_returns_method_not_found(client_for: ClientFor, method: str) -> None:
    async with client_for(shop()) as client:
        error = (await error_for(client, client.message(method, meta=client._meta("", 1))))["code"]

    assert error == METHOD_NOT_FOUND


async def test_server_discover_returns_method_not_found_before_2026_07_28(
    client_for: ClientFor, mcp_version: str
) -> None:
    async with client_for(shop()) as client:
        if mcp_version != "2026-07-28":
            error = await error_of(client.request("server/discover"))
            assert error.code == METHOD_NOT_FOUND


@spec("RPC-15", "TOOL-25", "TOOL-26", "2026/TOOL-09")
@pytest.mark.parametrize(
    ("params", "expected_message"),
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
async def test_tool_call_with_invalid_name_or_arguments_returns_invalid_params(
    client_for: ClientFor, params: dict[str, Any], expected_message: str
) -> None:
    async with client_for(shop()) as client:
        error = await error_of(client.request("tools/call", params))
        assert await works(client)

    assert (error.code, error.message) == (INVALID_PARAMS, expected_message)


@spec("TOOL-27", "TOOL-28", "TOOL-30", "2026/TOOL-10", "2026/TOOL-11")
@pytest.mark.parametrize(
    ("arguments", "expected_message"),
    [
        ({}, "a: required, but missing"),
        ({"a": "one"}, "a: "),
        ({"a": None}, "a: "),
        ({"a": 1, "c": 2}, "c: unknown argument (accepted: a, b)"),
        ({"a": 1.5, "b": []}, "b: "),
    ],
)
async def test_arguments_violating_the_schema_return_an_error_result(
    client_for: ClientFor, arguments: dict[str, Any], expected_message: str
) -> None:
    async with client_for(shop()) as client:
        result = await client.call_tool("add", arguments)
        assert await works(client)

    (block,) = result["content"]
    assert result["isError"] is True
    assert block["text"].startswith("Invalid arguments: ")
    assert expected_message in block["text"]


@pytest.mark.parametrize("uri", [None, 7, {}])
async def test_resource_uri_that_is_not_a_string_is_rejected(
    client_for: ClientFor, uri: Any
) -> None:
    server = shop()
    server.resource("shop://hours", name="hours")(lambda: "9 to 5")

    async with client_for(server) as client:
        error = await error_of(client.request("resources/read", {"uri": uri}))

    assert (error.code, error.message) == (INVALID_PARAMS, "params.uri must be a string")


@pytest.mark.parametrize("token", [1.5, True, [], {}, None])
async def test_progress_token_of_invalid_type_is_rejected(
    client_for: ClientFor, token: Any
) -> None:
    async with client_for(shop()) as client:
        error = await error_of(client.request("tools/list", meta={"progressToken": token}))
        assert await works(client)

    assert error.code == INVALID_PARAMS


@pytest.mark.parametrize("meta", [5, "x", [], True, None])
async def test_meta_that_is_no_object_is_rejected(client_for: ClientFor, meta: Any) -> None:
    async with client_for(shop()) as client:
        message = client.message("tools/list")
        message["params"] = {**message.get("params", {}), "_meta": meta}
        error = await error_for(client, json.dumps(message).encode())
        assert await works(client)

    assert (error["code"], error["id"]) == (INVALID_PARAMS, message["id"])
    assert error["message"].startswith("params._meta must be an object")


@pytest.mark.parametrize("name", ["elicitation", "sampling", "roots", "experimental", "extensions"])
@pytest.mark.parametrize("value", [5, True, None, []])
async def test_capability_that_is_no_object_is_rejected(
    client_for: ClientFor, name: str, value: Any
) -> None:
    client = client_for(shop(), capabilities={name: value})
    with pytest.raises(ErrorResponse, match=rf"{name} must be an object") as caught:
        async with client:
            await client.list_tools()

    assert caught.value.code == INVALID_PARAMS


# Errors of handlers.


@dataclass
class Unserializable:
    """A value that JSON cannot represent."""

    it: object


@spec("RPC-15", "TOOL-15", "TOOL-33", "2026/TOOL-11")
async def test_result_violating_the_output_schema_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = shop()

    @server.tool(output_schema={"type": "object", "required": ["secret"]})
    def check() -> Any:
        return {"password": "xyzzy"}

    async with client_for(server) as client:
        error = await error_of(client.call_tool("check"))
        assert await works(client)

    assert (error.code, error.data) == (INTERNAL_ERROR, None)
    assert "xyzzy" not in error.message
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {"a": object()}, [object()], "half \ud800", Response.prompt()],
    ids=["object", "bytes", "object inside", "object in list", "surrogate", "other kind"],
)
async def test_unserializable_return_value_returns_internal_error(
    client_for: ClientFor, value: Any
) -> None:
    server = shop()
    server.tool(name="check")(lambda: value)

    async with client_for(server) as client:
        error = await error_of(client.call_tool("check"))
        assert await works(client)

    assert error.code == INTERNAL_ERROR


async def test_unserializable_response_meta_returns_internal_error(client_for: ClientFor) -> None:
    server = shop()

    @server.tool
    def check() -> ToolResponse:
        return Response.tool().text("fine").meta({"com.example/key": object()})

    async with client_for(server) as client:
        error = await error_of(client.call_tool("check"))
        assert await works(client)

    assert error.code == INTERNAL_ERROR


async def test_unserializable_error_data_returns_internal_error(client_for: ClientFor) -> None:
    server = shop()

    @server.tool
    async def check() -> str:
        raise McpError("Sorry", data=object())

    async with client_for(server) as client:
        error = await error_of(client.call_tool("check"))
        assert await works(client)

    assert (error.code, error.data) == (INTERNAL_ERROR, None)


async def test_exception_in_middleware_returns_internal_error(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    async def raise_on_tool_call(frame: Any, call_next: Any) -> Any:
        if frame.request.method == "tools/call":
            raise RuntimeError("the password is xyzzy")
        return await call_next(frame)

    server = Server("shop", middleware=[raise_on_tool_call], capabilities={"tools": {}})

    async with client_for(server) as client:
        error = await error_of(client.call_tool("add"))
        assert (await client.request("tools/list"))["tools"] == []

    assert (error.code, error.message) == (INTERNAL_ERROR, "Internal error")
    assert "xyzzy" in caplog.text


def raise_on_tool_call(frame: Any) -> dict[str, Any]:
    if frame.request.method == "tools/call":
        raise RuntimeError("the password is xyzzy")
    return {}


async def test_exception_in_frame_processor_returns_internal_error(
    client_for: ClientFor, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    configure(FRAME_PROCESSORS=[f"{__name__}.raise_on_tool_call"])

    async with client_for(shop()) as client:
        error = await error_of(client.call_tool("add"))
        assert await client.list_tools()

    assert (error.code, error.message) == (INTERNAL_ERROR, "Internal error")
    assert "xyzzy" in caplog.text
