"""Scenarios of the official suite."""

from __future__ import annotations

import asyncio
import json

import pytest

from django_mcp import Server, registry
from tests.by_hand.catalog import in_session
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, Message, text_of


def conformance() -> Server:
    return registry.get("conformance")


async def tools_of(server: Server) -> list[str]:
    peer = AsgiClient(server)
    names: list[str] = []
    cursor: Message = {}
    while True:
        result = (await peer.post(peer.request("tools/list", cursor))).result
        names += [tool["name"] for tool in result["tools"]]
        if "nextCursor" not in result:
            return names
        cursor = {"cursor": result["nextCursor"]}


@pytest.mark.parametrize(
    "tool",
    [
        "test_tool_slow",
        "test_tool_fast",
        "test_elicitation_sep1036_url",
        "test_elicitation_sep1036_error",
        "test_elicitation_sep1036_complete",
        "sep_2106_array_output_tool",
        "sep_2106_primitive_output_tool",
        "test_legacy_extension_capabilities",
    ],
)
async def test_example_site_has_the_tool_of_the_official_suite(tool: str) -> None:
    assert tool in await tools_of(conformance())


async def test_slow_tool_of_the_official_suite_streams_at_once() -> None:
    peer = AsgiClient(conformance())
    message = peer.call(
        "test_tool_slow", durationMs=10_000, params={"_meta": {"progressToken": "p"}}
    )
    async with peer.open_post(message) as exchange:
        assert (await asyncio.wait_for(exchange.message(), 3)).get("method") is not None


async def test_structured_content_of_the_official_suite_is_not_wrapped() -> None:
    peer = AsgiClient(conformance())
    array = (await peer.tool("sep_2106_array_output_tool")).result
    number = (await peer.tool("sep_2106_primitive_output_tool")).result

    assert isinstance(array["structuredContent"], list)
    assert isinstance(number["structuredContent"], int | float)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_session_serves_requests_with_another_supported_version(version: str) -> None:
    peer = await in_session()

    response = await peer.post(peer.call("add", a=3), {"mcp-protocol-version": version})

    assert response.status == 200
    assert text_of(response.result) == "3"


async def test_extensions_are_negotiated_in_a_session() -> None:
    wanted = {"com.example/conformance": {"nested": {"enabled": False}, "values": ["a", 2, None]}}
    peer = AsgiClient(conformance(), NEWEST_SESSION, capabilities={"extensions": wanted})
    opened = await peer.initialize()
    declared = opened.result["capabilities"].get("extensions", {})
    reported = await peer.tool("test_legacy_extension_capabilities")

    assert declared.get("com.example/conformance", {}).get("nested") == {
        "enabled": True,
        "limit": 3,
    }
    assert json.loads(text_of(reported.result))["extensions"] == wanted
