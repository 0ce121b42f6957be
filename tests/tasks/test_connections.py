"""Tasks of a session that ends with its connection, and is in no store."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.testing import Client
from tests.memory_stores import configure

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)


def make_server() -> Server:
    server = Server("factory")

    @server.tool(task_support="required")
    def remember(value: str, frame: Frame) -> tuple[str, Frame]:
        return "remembered", frame.assign(value=value).register_prompt("added")

    @server.tool
    def recall(frame: Frame) -> str:
        return str(frame.assigns.get("value"))

    return server


async def test_session_keeps_what_a_task_assigns_over_stdio() -> None:
    async with Client(make_server(), version="2025-11-25", transport="stdio") as client:
        params: dict[str, Any] = {"name": "remember", "arguments": {"value": "a"}, "task": {}}
        task = (await client.request("tools/call", params))["task"]
        await client.request("tasks/result", {"taskId": task["taskId"]})
        recalled = await client.call_tool("recall")

    assert recalled.text == "a"
