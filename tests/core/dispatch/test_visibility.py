"""Hidden components are unknown to a caller who may not use them: in lists and in calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import Frame, Server, Tool
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec


class Member(AnonymousUser):
    """A user with these permissions, without a database."""

    def __init__(self, *permissions: str) -> None:
        super().__init__()
        self.granted = permissions

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return perm in self.granted


STAFF = Member("desk.view_ticket")
UNPRIVILEGED = Member()


def desk(permission: str | Callable[..., Any]) -> Server:
    """A server whose components require a permission, except one."""
    server = Server("desk")

    @server.tool
    def hello() -> str:
        return "hello"

    @server.tool(permission=permission)
    def close() -> str:
        return "closed"

    @server.resource("desk://tickets", permission=permission)
    def tickets() -> str:
        return "tickets"

    @server.resource("desk://tickets/{number}", permission=permission)
    def ticket(number: str) -> str:
        return number

    @server.prompt(permission=permission, complete={"number": lambda value: ["7"]})
    def summarise(number: str) -> str:
        return number

    return server


def is_staff(frame: Frame) -> bool:
    return frame.user is STAFF


async def ais_staff(frame: Frame) -> bool:
    return frame.user is STAFF


PERMISSIONS = pytest.mark.parametrize(
    "permission", ["desk.view_ticket", is_staff, ais_staff], ids=["name", "function", "async"]
)


@PERMISSIONS
async def test_permitted_user_can_list_and_use_components(
    client_for: ClientFor, permission: str | Callable[..., Any]
) -> None:
    async with client_for(desk(permission), user=STAFF) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["close", "hello"]
        assert len(await client.list_resources()) == 1
        assert len(await client.list_resource_templates()) == 1
        assert len(await client.list_prompts()) == 1
        assert (await client.call_tool("close")).text == "closed"
        assert (await client.read_resource("desk://tickets")).text == "tickets"
        assert (await client.read_resource("desk://tickets/7")).text == "7"
        assert (await client.get_prompt("summarise", {"number": "7"}))["messages"]
        assert (await client.complete("summarise", "number"))["values"] == ["7"]


@spec("2026/TOOL-02", "2026/RES-02", "2026/PRM-02")
@PERMISSIONS
async def test_components_are_not_listed_without_permission(
    client_for: ClientFor, permission: str | Callable[..., Any]
) -> None:
    async with client_for(desk(permission), user=UNPRIVILEGED) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["hello"]
        assert await client.list_resources() == []
        assert await client.list_resource_templates() == []
        assert await client.list_prompts() == []


@spec("TOOL-31", "RES-16", "PROMPT-12", "2026/CCH-05", "2026/TOOL-11", "2026/RES-06", "2026/PRM-05")
@PERMISSIONS
async def test_forbidden_component_returns_the_same_error_as_a_missing_one(
    client_for: ClientFor, permission: str | Callable[..., Any]
) -> None:
    async def refusals(server: Server) -> list[tuple[int | None, str]]:
        async with client_for(server, user=UNPRIVILEGED) as client:
            errors = [
                await error_of(client.call_tool("close")),
                await error_of(client.read_resource("desk://tickets")),
                await error_of(client.read_resource("desk://tickets/7")),
                await error_of(client.get_prompt("summarise", {"number": "7"})),
            ]
        return [(error.code, error.message) for error in errors]

    others = Server("desk")
    others.tool(name="other")(lambda: None)
    others.resource("desk://other", name="other")(lambda: None)
    others.prompt(name="other")(lambda: None)

    assert await refusals(desk(permission)) == await refusals(others)


@spec("COMP-10", "2026/CMP-04")
async def test_completion_of_a_forbidden_prompt_returns_the_error_of_a_missing_one(
    client_for: ClientFor,
) -> None:
    async with client_for(desk("desk.view_ticket"), user=UNPRIVILEGED) as client:
        hidden = await error_of(client.complete("summarise", "number"))
        missing = await error_of(client.complete("nobody", "number"))

    assert (hidden.code, hidden.message) == (missing.code, missing.message)


@spec("2026/PAG-03")
async def test_pages_are_filled_with_permitted_components(client_for: ClientFor) -> None:
    server = Server("desk", page_size=2)
    for number in range(6):
        permission = "desk.view_ticket" if number % 2 else None
        server.tool(name=f"tool_{number}", permission=permission)(lambda: None)

    async with client_for(server, user=UNPRIVILEGED) as client:
        first = await client.request("tools/list")
        second = await client.request("tools/list", {"cursor": first["nextCursor"]})

    pages = [[tool["name"] for tool in page["tools"]] for page in (first, second)]
    assert pages == [["tool_0", "tool_2"], ["tool_4"]]
    assert "nextCursor" not in second


@spec("SEC-08")
async def test_component_requires_all_of_its_scopes(client_for: ClientFor) -> None:
    server = Server("desk", when_denied="hidden")

    @server.tool(scopes=["tickets:read", "tickets:write"])
    def close() -> str:
        return "closed"

    async with client_for(server, scopes=["tickets:read"]) as client:
        assert await client.list_tools() == []
        assert (await error_of(client.call_tool("close"))).message == "Unknown tool: close"
    async with client_for(server, scopes=["tickets:read", "tickets:write", "more"]) as client:
        assert (await client.call_tool("close")).text == "closed"


@spec("SEC-08")
async def test_component_requires_both_scopes_and_permission(client_for: ClientFor) -> None:
    server = Server("desk", when_denied="hidden")

    @server.tool(scopes=["write"], permission="desk.view_ticket")
    def close() -> str:
        return "closed"

    async with client_for(server, scopes=["write"], user=UNPRIVILEGED) as client:
        assert await client.list_tools() == []
    async with client_for(server, user=STAFF) as client:
        assert await client.list_tools() == []
    async with client_for(server, scopes=["write"], user=STAFF) as client:
        assert len(await client.list_tools()) == 1


async def test_permission_method_of_a_tool_class_is_applied(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.tool
    class Close(Tool):
        """Closes."""

        def permission(self, frame: Frame) -> bool:
            return frame.user is STAFF

        def execute(self) -> str:
            return "closed"

    async with client_for(server, user=UNPRIVILEGED) as client:
        assert await client.list_tools() == []
    async with client_for(server, user=STAFF) as client:
        assert len(await client.list_tools()) == 1


async def test_component_whose_permission_raises_is_hidden_and_the_failure_is_logged(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("desk")

    def unsure(frame: Frame) -> bool:
        raise RuntimeError("the password is xyzzy")

    @server.tool(permission=unsure)
    def close() -> str:
        return "closed"

    async with client_for(server) as client:
        assert await client.list_tools() == []
        error = await error_of(client.call_tool("close"))

    assert (error.code, error.message) == (-32602, "Unknown tool: close")
    assert "xyzzy" in caplog.text


async def test_unknown_components_cost_as_many_permission_checks_as_hidden_ones(
    client_for: ClientFor,
) -> None:
    checks: list[str] = []

    def refuse(frame: Frame) -> bool:
        checks.append(frame.message.method)
        return False

    server = desk(refuse)

    @server.tool(scopes=["desk"], when_denied="hidden")
    def scoped() -> str:
        return ""

    async with client_for(server) as client:
        for request, hidden, unknown in (
            ("tools/call", {"name": "close"}, {"name": "open"}),
            ("tools/call", {"name": "scoped"}, {"name": "open"}),
            ("prompts/get", {"name": "summarise"}, {"name": "open"}),
            ("resources/read", {"uri": "desk://tickets"}, {"uri": "desk://unknown"}),
            ("resources/read", {"uri": "desk://tickets/1"}, {"uri": "desk://unknown"}),
        ):
            counts = []
            for params in (hidden, unknown):
                checks.clear()
                await error_of(client.request(request, params))
                counts.append(len(checks))
            assert counts[0] == counts[1] > 0, (request, hidden)
