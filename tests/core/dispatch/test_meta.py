"""``_meta``: the framework's keys, the client's keys, and unknown keys."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import ConfigurationError, Frame, Response, Server, TextContent
from django_mcp.core.components.responses import ToolResponse
from django_mcp.testing.plugin import ClientFor
from tests.spec import spec

pytestmark = pytest.mark.usefixtures("configure")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WITHOUT_META_ON_BLOCKS = ("2024-11-05", "2025-03-26")


@spec("2026/META-09")
async def test_frame_trace_contains_the_trace_context_of_the_request(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def trace(frame: Frame) -> dict[str, str]:
        return frame.trace

    trace_meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"}

    async with client_for(server) as client:
        with_trace = await client.call_tool("trace", meta=trace_meta)
        without = await client.call_tool("trace")

    assert PARENT in with_trace.text
    assert with_trace.text.count(":") == 3
    assert without.text == "{}"


@spec("META-01", "2026/META-08")
@pytest.mark.parametrize(
    "meta",
    [
        {"io.modelcontextprotocol/nobody-knows": {"a": 1}},
        {"com.mcp.tools/x": None, "": 1},
        {"com.example/mine": ["anything"]},
        {"traceparent": 1, "tracestate": {}},
    ],
)
async def test_unknown_request_meta_is_passed_to_the_handler(
    client_for: ClientFor, meta: Any
) -> None:
    server = Server("shop")

    @server.tool
    def trace_meta(frame: Frame) -> list[str]:
        assert frame.request is not None
        return sorted(frame.request.params["_meta"])

    async with client_for(server) as client:
        result = await client.call_tool("trace_meta", meta=meta)

    assert not result.get("isError")
    assert all(f'"{key}"' in result.text for key in meta)


@spec("META-08", "TOOL-36")
async def test_meta_of_tools_and_blocks_is_omitted_before_2025_06_18(
    client_for: ClientFor, mcp_version: str
) -> None:
    mine = {"com.example/mine": 1}
    server = Server("shop")

    @server.tool(meta=mine)
    def inspect() -> ToolResponse:
        return Response.tool().add(TextContent("Hm.", meta=mine)).meta(mine)

    async with client_for(server) as client:
        (tool,) = await client.list_tools()
        result = await client.call_tool("inspect")

    has_meta = mcp_version not in WITHOUT_META_ON_BLOCKS
    assert result["_meta"]["com.example/mine"] == 1
    assert tool.get("_meta") == (mine if has_meta else None)
    assert result["content"][0].get("_meta") == (mine if has_meta else None)


@spec("META-02", "2026/META-07")
@pytest.mark.parametrize("key", ["dev.mcp/key", "9com/key", "-key", "a b"])
def test_invalid_or_reserved_meta_key_is_rejected(key: str) -> None:
    with pytest.raises(ConfigurationError, match="_meta"):
        Server("shop").tool(meta={key: 1})(lambda: None)
    with pytest.raises(ValueError, match="_meta"):
        TextContent("Hm.", meta={key: 1})
    with pytest.raises(ValueError, match="_meta"):
        Response.tool().meta({key: 1})


@spec("2026/VER-05")
@pytest.mark.parametrize("identity", ["mine", "dev.mcp/x"])
def test_invalid_extension_identifier_is_rejected(identity: str) -> None:
    with pytest.raises(ConfigurationError, match=identity):
        Server("shop", capabilities={"extensions": {identity: {}}})
    with pytest.raises(ConfigurationError, match=identity):
        Server("shop").capabilities.replace({"extensions": {identity: {}}})


@spec("2026/VER-05")
async def test_extensions_are_declared_in_every_revision(
    client_for: ClientFor, mcp_version: str
) -> None:
    mine = {"com.example/mine": {"depth": 7}}

    async with client_for(Server("shop", capabilities={"extensions": mine})) as client:
        welcome = client.initialize_result or await client.request("server/discover")

    declared = welcome["capabilities"].get("extensions")
    assert declared == mine
