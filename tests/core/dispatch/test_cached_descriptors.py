"""Descriptors that are kept between requests, and callers that change what they get."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.core.components.tool import ToolComponent
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS


@spec("isolation-10")
async def test_edit_of_a_listed_tool_by_middleware_reaches_no_other_caller() -> None:
    async def append_user(frame: Frame, call_next: Any) -> Any:
        result, after = await call_next(frame)
        for tool in result.get("tools", ()):
            tool["description"] += " [for one user]"
            tool["inputSchema"]["properties"]["hidden"] = {}
        return result, after

    server = Server("shop", middleware=[append_user])

    @server.tool
    async def add(a: int) -> int:
        """Adds."""
        return a

    peer = AsgiClient(server)
    listed = [(await peer.post(peer.request("tools/list"))).result["tools"][0] for _ in range(2)]

    assert listed[0] == listed[1]


async def test_edit_of_a_listed_tool_by_a_caller_in_process_reaches_no_client() -> None:
    server = Server("shop")

    @server.tool
    async def add(a: int) -> int:
        """Adds."""
        return a

    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    before = (await peer.post(peer.request("tools/list"))).result["tools"]
    for tool in await server.alist_tools():
        tool["description"] = "changed"
        tool["inputSchema"]["properties"]["hidden"] = {}
    after = (await peer.post(peer.request("tools/list"))).result["tools"]

    assert after == before


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
async def test_edit_of_server_information_reaches_no_other_caller(version: str) -> None:
    async def append_user(frame: Frame, call_next: Any) -> Any:
        result, after = await call_next(frame)
        if "capabilities" in result:
            result.get("serverInfo", {})["name"] = "changed"
            result["capabilities"]["experimental"]["com.example"]["user"] = 1
        return result, after

    experimental: dict[str, Any] = {"experimental": {"com.example": {}}}
    server = Server("shop", middleware=[append_user], capabilities=experimental)
    peer = AsgiClient(server, version)
    method = "server/discover" if version == STATELESS else "initialize"
    await (peer.post(peer.request(method)) if version == STATELESS else peer.initialize())

    assert experimental == {"experimental": {"com.example": {}}}
    assert {info["name"] for info in server._info_by_version.values()} == {"shop"}


async def test_descriptor_that_is_made_while_its_tool_is_replaced_is_not_kept() -> None:
    server = Server("shop")
    replaced: list[str] = []

    @server.tool(description="the former")
    async def add(a: int) -> int:
        return a

    async def later(a: int) -> int:
        return a

    described = ToolComponent.descriptor

    def descriptor(component: Any) -> Any:
        """Describe the former tool, while another thread replaces it."""
        found = described(component)
        if component.description == "the former" and not replaced:
            replaced.append("yes")
            options = {"description": "the later"}
            thread = threading.Thread(
                target=server.register_tool, args=("add", later), kwargs=options
            )
            thread.start()
            thread.join()
        return found

    peer = AsgiClient(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToolComponent, "descriptor", descriptor)
        await peer.post(peer.request("tools/list"))
    listed = (await peer.post(peer.request("tools/list"))).result["tools"]

    assert listed[0]["description"] == "the later"
