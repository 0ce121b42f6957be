"""Authors are warned once of what the newest revision deprecates."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from django_mcp import Frame, McpDeprecationWarning, Server
from django_mcp.core.frame.client import base
from django_mcp.testing import Client
from tests.spec import spec

STATELESS = "2026-07-28"
RESPONSES: dict[str, Any] = {
    "roots": lambda params: {"roots": [{"uri": "file:///home/ann"}]},
    "sampling": lambda params: {
        "role": "assistant",
        "content": {"type": "text", "text": "Hm."},
        "model": "m",
    },
}


def desk() -> Server:
    server = Server("desk")

    @server.tool
    async def log(frame: Frame) -> str:
        await frame.client.alog("info", "done")
        return "done"

    @server.tool
    async def roots(frame: Frame) -> str:
        return (await frame.client.alist_roots())[0].uri

    @server.tool
    async def sampling(frame: Frame) -> str:
        await frame.client.acreate_message("Hello", 10)
        return "done"

    return server


@spec("2026/DEP-01")
@pytest.mark.parametrize(
    ("tool", "method"),
    [
        ("log", "notifications/message"),
        ("roots", "roots/list"),
        ("sampling", "sampling/createMessage"),
    ],
)
async def test_handler_that_uses_a_deprecated_feature_is_warned_of_once(
    tool: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_warned", set())
    async with Client(desk(), version=STATELESS, **RESPONSES) as client:
        with pytest.warns(McpDeprecationWarning, match=f"{STATELESS} deprecates {method}"):
            await client.call_tool(tool)
        with warnings.catch_warnings(record=True) as further:
            warnings.simplefilter("always")
            await client.call_tool(tool)

    assert [str(each.message) for each in further] == []


@pytest.mark.parametrize("tool", ["log", "roots", "sampling"])
async def test_session_of_a_revision_that_has_the_feature_causes_no_warning(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_warned", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        async with Client(desk(), version="2025-11-25", **RESPONSES) as client:
            await client.call_tool(tool)

    assert [str(each.message) for each in found] == []
