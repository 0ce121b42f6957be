"""What leaks in other packages does not leak here.

The numbers are those of public threads: gts360/django-mcp-server #32, #52, #56, #66, #72, and
7tg/django-admin-mcp #30, #42, #90, #102.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_mcp.testing import Client
from tests.toolsets.conftest import Caller, Desk, ToolFailed
from tests.toolsets.toolsets import customers, tickets

SECRETS = ("hidden", "pa55word", "secret@secret.example", "77")


@pytest.fixture
def call(desk: Desk) -> Any:
    return desk.serve(tickets(desk.models), customers(desk.models))


def test_fields_limit_what_comes_out_and_not_only_what_is_advertised(desk: Desk) -> None:
    """#66: ``fields=['id', 'name']`` still returned ``card_number``."""
    call = desk.serve(customers(desk.models))
    assert [set(item) for item in call("list_customers")["items"]] == [{"pk", "name"}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"pipeline": [{"$project": {"pin": "$customer__password"}}]},
        {"$project": {"pin": "$customer__password"}},
        {"$lookup": {"from": "customer", "as": "customer"}},
        {"fields": ["code"]},
        {"select": "code"},
        {"values": ["code"]},
        {"annotate": {"pin": "customer__password"}},
        {"group_by": ["customer__password"]},
    ],
)
def test_projections_do_not_exist(call: Any, arguments: dict[str, Any]) -> None:
    """#52 and #66: ``$project: "$secret__pin"`` read a model that was never published."""
    for tool in ("list_tickets", "aggregate_tickets", "get_ticket"):
        with pytest.raises(ToolFailed, match="Invalid arguments"):
            call(tool, **arguments)


def test_password_cannot_be_read_letter_by_letter(call: Any) -> None:
    """#72: filter paths over relations were an oracle for password hashes."""
    answers = set()
    for letter in "pqx":
        for lookup in ("startswith", "regex", "gt", "contains"):
            for path in ("customer__password", "customer__team__customers__password"):
                with pytest.raises(ToolFailed) as rejected:
                    call("list_tickets", **{f"{path}__{lookup}": letter})
                answers.add(str(rejected.value).partition("(")[0].replace(path, "…"))
    assert len(answers) == 4  # One for each lookup; none depends on the letter.


def test_operators_in_values_are_values(call: Any) -> None:
    for value in ({"$ne": None}, {"code__startswith": "h"}, ["code"], "F('code')"):
        with pytest.raises(ToolFailed, match="Invalid arguments"):
            call("list_tickets", number=value)
    assert call("list_tickets", subject="F('code')")["items"] == []


def test_related_rows_have_limits_and_permissions_of_their_own(call: Any) -> None:
    """#90: excluded fields were read through a tool for related rows."""
    seen = json.dumps([call("list_tickets"), call("get_ticket", number=8)])
    assert not any(secret in seen for secret in SECRETS)


def test_schemas_do_not_name_what_is_not_listed(call: Any) -> None:
    """#102: names of hidden fields were in the schemas."""

    async def tools() -> Any:
        async with Client(call.server, user=Caller()) as client:
            return await client.list_tools()

    listed = json.dumps(async_to_sync(tools)())
    for name in ("password", "budget", "email", '"code"', "comments", "pa55word"):
        assert name not in listed


def test_error_of_an_unknown_argument_names_only_what_is_accepted(call: Any) -> None:
    with pytest.raises(ToolFailed) as rejected:
        call("list_tickets", nothing=1)
    for name in ("password", "budget", "email", "code", "comments"):
        assert name not in str(rejected.value)


def test_tool_without_permission_is_unknown(call: Any) -> None:
    """#56: tools that a caller may not use were listed, and #42, called."""
    viewer = Caller("north", "toolset_desk.view_ticket")
    for name, arguments in (
        ("delete_ticket", {"number": 1}),
        ("update_ticket", {"number": 1, "subject": "x"}),
        ("list_customers", {}),
        ("list_nothing", {}),
    ):
        with pytest.raises(Exception, match=f"Unknown tool: {name}"):
            call(name, viewer, **arguments)


def test_identity_comes_from_the_request_only(call: Any) -> None:
    for name in ("caller", "team", "tenant", "frame", "self", "using"):
        with pytest.raises(ToolFailed, match="unknown argument"):
            call("list_tickets", **{name: "south"})


def test_failure_shows_no_query(desk: Desk) -> None:
    def get_queryset(self: Any, frame: Any) -> Any:
        return desk.models.Ticket.objects.filter(hidden_name=1)

    call = desk.serve(tickets(desk.models, get_queryset=get_queryset))
    with pytest.raises(ToolFailed) as rejected:
        call("list_tickets")
    assert str(rejected.value) == "The tool failed unexpectedly. The failure has been logged."
