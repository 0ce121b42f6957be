"""Calling tools."""

from __future__ import annotations

from django_mcp import Server
from django_mcp.testing.plugin import ClientFor


async def test_a_synchronous_function_is_called(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    async with client_for(server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result["content"] == [{"type": "text", "text": "3"}]
