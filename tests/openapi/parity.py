"""A call by a tool, for tests that compare it with the same call over HTTP."""

from __future__ import annotations

from typing import Any

from django_mcp.testing import ErrorResponse, SyncClient


def by_tool(client: SyncClient, name: str, arguments: dict[str, Any]) -> Any:
    """Return what the tool returns, or None for a refusal."""
    try:
        result = client.call_tool(name, arguments)
    except ErrorResponse:
        return None
    if result.is_error:
        return None
    return result.text if result.structured is None else result.structured
