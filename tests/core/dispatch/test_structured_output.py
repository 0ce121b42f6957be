"""Structured content: output schemas, validation, and the format of each revision."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from django_mcp import Response, Server
from django_mcp.core.components.responses import ToolResponse
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec

UNSTRUCTURED = ("2024-11-05", "2025-03-26")
OBJECTS_ONLY = ("2025-06-18", "2025-11-25")


class Ticket(BaseModel):
    number: int
    opened: date


@dataclass
class Point:
    x: int
    y: int


def expected(version: str, value: Any, *, wrapped: bool) -> Any:
    """The structured content for a value; None if there is none."""
    if version in UNSTRUCTURED:
        return None
    return {"result": value} if wrapped and version in OBJECTS_ONLY else value


async def structured(client_for: ClientFor, server: Server) -> tuple[Any, Any, str]:
    """The structured content of the only tool, its schema, and the text content."""
    async with client_for(server) as client:
        (tool,) = await client.list_tools()
        result = await client.call_tool(tool["name"])
    return (
        result.get("structuredContent"),
        tool.get("outputSchema"),
        result.text,
    )


@spec("TOOL-14", "TOOL-17", "2026/TOOL-08")
async def test_pydantic_model_is_sent_as_structured_content_and_text(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")

    @server.tool
    def ticket() -> Ticket:
        return Ticket(number=7, opened=date(2026, 7, 28))

    content, schema, text = await structured(client_for, server)

    value = {"number": 7, "opened": "2026-07-28"}
    assert content == expected(mcp_version, value, wrapped=False)
    assert json.loads(text) == value
    assert (schema is None) == (mcp_version in UNSTRUCTURED)


async def test_dataclass_is_sent_as_structured_content(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("map")

    @server.tool
    async def origin() -> Point:
        return Point(0, 1)

    content, _, _ = await structured(client_for, server)

    assert content == expected(mcp_version, {"x": 0, "y": 1}, wrapped=False)


@spec("TOOL-16")
async def test_list_result_is_wrapped_in_an_object_before_2026_07_28(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")

    @server.tool
    def tickets() -> list[int]:
        return [1, 2]

    content, schema, text = await structured(client_for, server)

    assert content == expected(mcp_version, [1, 2], wrapped=True)
    assert json.loads(text) == [1, 2]
    if mcp_version in OBJECTS_ONLY:
        assert schema["type"] == "object"
        assert schema["required"] == ["result"]
    if mcp_version == "2026-07-28":
        assert schema["type"] == "array"


@spec("2026/TOOL-07")
async def test_union_result_is_wrapped_in_an_object_before_2026_07_28(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")

    @server.tool
    def ticket() -> Ticket | list[str]:
        return Ticket(number=7, opened=date(2026, 7, 28))

    content, _, _ = await structured(client_for, server)

    value = {"number": 7, "opened": "2026-07-28"}
    assert content == expected(mcp_version, value, wrapped=True)


async def test_dict_without_output_schema_is_sent_as_structured_content(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")

    @server.tool
    def anything() -> Any:
        return {"a": [1]}

    content, schema, _ = await structured(client_for, server)

    assert content == expected(mcp_version, {"a": [1]}, wrapped=False)
    assert schema is None


@spec("2026/TOOL-07")
async def test_explicit_output_schema_is_listed_unchanged(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("desk")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    @server.tool(output_schema=schema)
    def count() -> Any:
        return {"a": 1}

    content, listed, _ = await structured(client_for, server)

    assert content == expected(mcp_version, {"a": 1}, wrapped=False)
    assert listed == (None if mcp_version in UNSTRUCTURED else schema)


@spec("TOOL-15", "2026/TOOL-07")
@pytest.mark.parametrize("fits", [True, False])
async def test_response_violating_the_output_schema_returns_internal_error(
    client_for: ClientFor, fits: bool
) -> None:
    server = Server("desk")

    @server.tool(output_schema=Ticket)
    def ticket() -> ToolResponse:
        return Response.tool().structured({"number": 7, "opened": "2026-07-28"} if fits else {})

    async with client_for(server) as client:
        if fits:
            assert (await client.call_tool("ticket"))["content"]
        else:
            assert (await error_of(client.call_tool("ticket"))).code == -32603


async def test_error_response_is_not_checked_against_the_output_schema(
    client_for: ClientFor,
) -> None:
    server = Server("desk")

    @server.tool(output_schema=Ticket)
    def ticket() -> ToolResponse:
        return Response.tool().error("There is none")

    async with client_for(server) as client:
        result = await client.call_tool("ticket")

    assert result["isError"] is True
    assert "structuredContent" not in result
