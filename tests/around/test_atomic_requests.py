"""ATOMIC_REQUESTS: the writes of a handler that fails are rolled back."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction

from django_mcp import Server, ToolError
from django_mcp.testing import Client

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


@pytest.fixture
def server() -> Server:
    """Tools which write a group and may fail afterwards."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    def sync_tool(fails: bool) -> str:
        Group.objects.create(name="sync")
        if fails:
            raise ToolError("No")
        return str(transaction.get_connection().in_atomic_block)

    @server.tool
    async def async_tool(fails: bool) -> str:
        await Group.objects.acreate(name=f"async {fails}")
        if fails:
            raise ToolError("No")
        return str(await sync_to_async(lambda: transaction.get_connection().in_atomic_block)())

    @server.tool
    @transaction.non_atomic_requests
    def excluded(fails: bool) -> str:
        Group.objects.create(name="excluded")
        if fails:
            raise ToolError("No")
        return str(transaction.get_connection().in_atomic_block)

    @server.tool
    @transaction.non_atomic_requests
    async def excluded_async(fails: bool) -> str:
        await Group.objects.acreate(name="excluded")
        if fails:
            raise ToolError("No")
        return str(await sync_to_async(lambda: transaction.get_connection().in_atomic_block)())

    @server.tool(requests_input=True)
    def with_input(fails: bool) -> str:
        Group.objects.create(name="input")
        if fails:
            raise ToolError("No")
        return str(transaction.get_connection().in_atomic_block)

    return server


async def result_of(server: Server, tool: str, *, fails: bool) -> str:
    # In parallel, as in production: a test's own thread has one connection for all.
    async with Client(server, transport="http", sync_execution="threads") as client:
        result = await client.call_tool(tool, {"fails": fails})
        text: str = result.text
        return text


TOOLS = {"sync_tool": 0, "async_tool": 0, "with_input": 0, "excluded": 1, "excluded_async": 1}
"""The tools, and how many rows are left by a call that fails."""


@pytest.mark.parametrize(("tool", "left"), TOOLS.items())
async def test_writes_of_a_failed_handler_are_rolled_back(
    server: Server, tool: str, left: int
) -> None:
    assert await result_of(server, tool, fails=True) == "No"
    assert await Group.objects.acount() == left


@pytest.mark.parametrize(("tool", "left"), TOOLS.items())
async def test_writes_of_a_handler_that_succeeds_are_committed(
    server: Server, tool: str, left: int
) -> None:
    assert await result_of(server, tool, fails=False) == str(not left)
    assert await Group.objects.acount() == 1
