"""Tools for scenarios of the conformance suite that are newer than the version that we pin."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import registry
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]

in_2025_11_25 = pytest.mark.parametrize("mcp_version", ["2025-11-25"])

VISITS: dict[str, Any] = {"elicitation": {"url": {}}}


class Visitor:
    """A user who visits every page."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(params)
        return {"action": "accept"}


@in_2025_11_25
async def test_url_elicitation_has_a_message_a_url_and_an_id(client_for: ClientFor) -> None:
    server, user = registry.get("conformance"), Visitor()

    async with client_for(server, elicitation=user, capabilities=VISITS) as client:
        answer = await client.call_tool("test_elicitation_sep1036_url")

    (request,) = user.requests
    assert answer.text == "User response: accept"
    assert request["mode"] == "url"
    assert request["url"].startswith("https://")
    assert request["message"]
    assert request["elicitationId"]


@in_2025_11_25
async def test_url_elicitation_error_lists_the_page(client_for: ClientFor) -> None:
    server, user = registry.get("conformance"), Visitor()

    async with client_for(server, elicitation=user, capabilities=VISITS) as client:
        error = await error_of(client.call_tool("test_elicitation_sep1036_error"))

    (page,) = error.data["elicitations"]
    assert error.code == -32042
    assert set(page) == {"mode", "url", "message", "elicitationId"}


@in_2025_11_25
async def test_completed_url_elicitation_is_notified_with_its_id(client_for: ClientFor) -> None:
    server, user = registry.get("conformance"), Visitor()

    async with client_for(server, elicitation=user, capabilities=VISITS) as client:
        await client.call_tool("test_elicitation_sep1036_complete")

    completed = [
        each["params"]["elicitationId"]
        for each in client.notifications
        if each["method"] == "notifications/elicitation/complete"
    ]
    assert completed == [user.requests[0]["elicitationId"]]


@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
async def test_structured_content_of_any_type_conforms_to_its_schema(client_for: ClientFor) -> None:
    async with client_for(registry.get("conformance")) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        array = await client.call_tool("sep_2106_array_output_tool")
        number = await client.call_tool("sep_2106_primitive_output_tool")

    assert tools["sep_2106_array_output_tool"]["outputSchema"]["type"] == "array"
    assert tools["sep_2106_primitive_output_tool"]["outputSchema"] == {"type": "number"}
    assert [hour["temp"] for hour in array["structuredContent"]] == [68, 72]
    assert number["structuredContent"] == 42


# The published JSON schema of 2026-07-28 has no null in the settings of an extension.
@in_2025_11_25
async def test_extensions_of_both_sides_are_exchanged(client_for: ClientFor) -> None:
    wanted = {"com.example/conformance": {"nested": {"limit": 0}, "values": ["a", 2, None]}}

    async with client_for(
        registry.get("conformance"), capabilities={"extensions": wanted}
    ) as client:
        welcome = client.initialize_result or await client.request("server/discover")
        reported = await client.call_tool("test_legacy_extension_capabilities")

    assert welcome["capabilities"]["extensions"] == {
        "io.modelcontextprotocol/skills": {"directoryRead": True},
        "io.modelcontextprotocol/ui": {},
        "com.example/conformance": {
            "nested": {"enabled": True, "limit": 3},
            "values": [True, "b", 4],
        },
        "com.example/empty": {},
    }
    assert json.loads(reported.text) == {"extensions": wanted}


@pytest.mark.parametrize("mcp_version", ["2026-07-28"])
async def test_slow_tool_reports_progress_until_its_time_is_over(client_for: ClientFor) -> None:
    async with client_for(registry.get("conformance")) as client, asyncio.timeout(SECONDS):
        slow = await client.call_tool("test_tool_slow", {"durationMs": 300})
        fast = await client.call_tool("test_tool_fast")

    assert slow.text == "Waited for 300 ms."
    assert fast.text == "Done."
    assert client.notifications[0]["method"] == "conformance/started"
    assert [each["progress"] for each in client.progress] == [0, 250]
