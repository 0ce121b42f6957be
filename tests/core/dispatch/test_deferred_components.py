"""Components that are built when they are first read: who waits for them, and who does not."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest

from django_mcp import Server
from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.tool import tool_component
from django_mcp.core.server.components import Expected
from django_mcp.testing import Client, ErrorResponse
from tests.waiting import SECONDS
from tests.wire.messages import STATELESS

SESSION = "2025-11-25"


async def whoami() -> str:
    """Say who calls."""
    return "you"


class Build:
    """Builds one tool when it is released."""

    def __init__(self) -> None:
        self.count = 0
        self.begun = Event()
        self.released = Event()
        self.error: Exception | None = None

    def __call__(self) -> list[Component]:
        self.count += 1
        self.begun.set()
        assert self.released.wait(SECONDS)
        if self.error is not None:
            raise self.error
        return [tool_component(whoami, group="people", task_support="optional")]


@pytest.fixture
def build() -> Build:
    return Build()


@pytest.fixture
def server(build: Build) -> Server:
    server = Server("office")
    expected = Expected("tool", options={"task_support": "optional"})
    server.components.defer(build, lambda: [expected])
    return server


def connect(server: Server, version: str, query: str = "") -> Client:
    return Client(server, transport="http", query=query, version=version)


async def begun(build: Build) -> None:
    assert await asyncio.to_thread(build.begun.wait, 10)


async def capabilities(client: Client, version: str) -> Any:
    if version == SESSION:
        return client.initialize_result["capabilities"]
    return (await client.request("server/discover"))["capabilities"]


@pytest.mark.parametrize("version", [SESSION, STATELESS])
async def test_capabilities_are_declared_before_tools_are_built(
    server: Server, build: Build, version: str
) -> None:
    async with connect(server, version) as client:
        before = await capabilities(client, version)
        assert build.count == 0
        build.released.set()
        assert [tool["name"] for tool in await client.list_tools()] == ["whoami"]
    async with connect(server, version) as client:
        assert await capabilities(client, version) == before
    assert "tools" in before


async def test_first_lists_share_one_build_while_others_are_answered(
    server: Server, build: Build
) -> None:
    async with connect(server, SESSION) as one, connect(server, SESSION) as other:
        left = asyncio.create_task(one.list_tools())
        await begun(build)
        left.cancel()
        lists = [asyncio.create_task(client.list_tools()) for client in (one, other)]
        call = asyncio.create_task(other.call_tool("whoami"))
        await other.request("ping")
        assert not any(task.done() for task in (*lists, call))

        build.released.set()
        assert len({str(await listed) for listed in lists}) == 1
        assert (await call).text == "you"
    assert build.count == 1


@pytest.mark.parametrize("error", [ConfigurationError("No serializer"), StopIteration()])
async def test_failed_build_is_tried_again_by_the_next_request(
    server: Server, build: Build, error: Exception
) -> None:
    build.released.set()
    build.error = error
    async with connect(server, SESSION) as client:
        with pytest.raises(ErrorResponse):
            await client.list_tools()
        build.error = None
        assert len(await client.list_tools()) == 1
    assert build.count == 2


async def test_connection_that_selects_a_group_waits_for_its_tools(
    server: Server, build: Build
) -> None:
    build.released.set()
    async with connect(server, STATELESS, "groups=people") as client:
        assert len(await client.list_tools()) == 1


def test_components_of_which_nothing_is_known_are_built_for_the_capabilities() -> None:
    server = Server("office")
    server.components.defer(lambda: [tool_component(whoami)])
    assert "tools" in server.get_capabilities()
    assert not server.components.has_deferred


async def test_deferred_tool_with_a_taken_name_is_left_out_alone(
    server: Server, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    server.tool(name="whoami", description="The one of the site.")(lambda: "me")
    server.components.defer(lambda: [tool_component(lambda: None, name="other")])
    build.released.set()

    async with connect(server, SESSION) as client:
        assert {tool["name"] for tool in await client.list_tools()} == {"whoami", "other"}
        assert (await client.call_tool("whoami")).text == "me"
    (logged,) = caplog.messages
    assert "The MCP server 'office' lacks a tool: The tool 'whoami' is registered twice" in logged


async def test_deferred_tool_of_a_group_without_its_scopes_is_left_out_alone() -> None:
    server = Server("office", group_scopes={"people": []})
    tools = [
        tool_component(whoami, group="people"),
        tool_component(lambda: None, name="lost", group="peple"),
    ]
    server.components.defer(lambda: tools)

    async with connect(server, SESSION) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["whoami"]
        with pytest.raises(ErrorResponse, match="lost"):
            await client.call_tool("lost")
    assert [component.name for component in server.components.left_out] == ["lost"]
