"""Tokens that are bound to groups of components, or to what changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.auth.token import TokenAuthentication
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.core.auth.selection import Selection, of_token
from django_mcp.testing import ErrorResponse, SyncClient

pytestmark = pytest.mark.django_db

SESSION, STATELESS = "2025-11-25", "2026-07-28"
VERSIONS = [SESSION, STATELESS]
TOOLS = {
    "list_tickets": ("tickets", True),
    "close_ticket": ("tickets", False),
    "list_invoices": ("billing", True),
    "pay_invoice": ("billing", False),
    "ping": (None, True),
    "restart": (None, False),
}


def office(**options: Any) -> Server:
    server = Server("office", authenticators=[TokenAuthentication()], scopes=[], **options)
    for name, (group, is_read) in TOOLS.items():
        server.tool(name=name, group=group, read_only=is_read)(lambda: "done")
    server.resource("billing://all", name="all", group="billing")(lambda: "all")
    return server


def connect(server: Server, query: str = "", version: str = STATELESS, **limits: Any) -> SyncClient:
    user, _ = User.objects.get_or_create(username="ann")
    _, token = PersonalAccessToken.objects.issue(user, "laptop", **limits)
    headers = {"Authorization": f"Bearer {token}"}
    return SyncClient(server, transport="http", query=query, version=version, headers=headers)


def names(client: SyncClient) -> set[str]:
    return {tool["name"] for tool in client.list_tools()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("limits", "query", "expected"),
    [
        ({}, "", {*TOOLS}),
        ({"groups": ["tickets"]}, "", {"list_tickets", "close_ticket"}),
        ({"read_only": True}, "", {"list_tickets", "list_invoices", "ping"}),
        (
            {"groups": ["tickets", "billing"], "read_only": True},
            "",
            {"list_tickets", "list_invoices"},
        ),
        ({"groups": ["tickets", "billing"]}, "groups=billing", {"list_invoices", "pay_invoice"}),
        ({"groups": ["billing"]}, "read_only=1", {"list_invoices"}),
        ({"read_only": True}, "read_only=0&tools=all", {"list_tickets", "list_invoices", "ping"}),
        ({"groups": ["gone"]}, "", set()),
    ],
)
def test_list_and_calls_have_what_the_token_is_for(
    version: str, limits: Any, query: str, expected: set[str]
) -> None:
    with connect(office(), query, version, **limits) as client:
        assert names(client) == expected
        for name in TOOLS:
            if name in expected:
                assert client.call_tool(name).text == "done"
            else:
                with pytest.raises(ErrorResponse, match=f"Unknown tool: {name}"):
                    client.call_tool(name)


def test_group_that_the_token_is_not_for_is_unknown_in_the_url() -> None:
    for group in ("billing", "nothing"):
        client = connect(office(), f"groups={group}", groups=["tickets"])
        message = f"{group}.*you can select tickets"
        with client, pytest.raises(ErrorResponse, match=message):
            client.list_tools()


def test_search_and_resources_stay_within_the_token() -> None:
    with connect(office(tool_search=True), groups=["tickets"]) as client:
        found = json.loads(client.call_tool("find_tools", {"query": "list pay invoice"}).text)
        assert [tool["name"] for tool in found["tools"]] == ["list_tickets"]
        with pytest.raises(ErrorResponse, match="Unknown tool: pay_invoice"):
            client.call_tool("call_tool", {"name": "pay_invoice"})
        assert client.list_resources() == []
        with pytest.raises(ErrorResponse):
            client.read_resource("billing://all")


def test_selection_of_a_token_is_stored_with_a_task() -> None:
    selection = of_token(["tickets"], read_only=True)
    assert selection is not None
    assert Selection.from_json(json.loads(json.dumps(selection.to_json()))) == selection
    assert of_token([], read_only=False) is None
