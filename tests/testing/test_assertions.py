"""The assertions of the test client: each passes for what it names, and fails for anything else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import Permission, User
from pydantic import Field

from django_mcp import Frame, Server, ToolError
from django_mcp.core.components.tool import Approval
from django_mcp.testing import CallResult, Client, SyncClient, accept
from django_mcp.testing.plugin import ClientFor

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@dataclass
class Delivery:
    number: int
    day: date


def warehouse() -> Server:
    """A server with a tool for each outcome of a call."""
    server = Server("warehouse")

    @server.tool
    def deliver(number: Annotated[int, Field(ge=1)]) -> Delivery:
        return Delivery(number, date(2026, 11, 23))

    @server.tool
    def describe(number: int) -> str:
        if number > 9:
            raise ToolError(f"There is no delivery {number}.")
        return f"Delivery {number}"

    @server.tool(requests_input=True)
    def greet(frame: Frame) -> str:
        return str(frame.client.elicit("What is your name?", NAME).content["name"])

    @server.tool
    def count(frame: Frame) -> str:
        for value in (1, 2):
            frame.client.progress(value, 2)
        return "done"

    @server.tool(permission="auth.change_user")
    def hide() -> str:
        return "hidden"

    @server.tool(scopes=["stock:write"])
    def write() -> str:
        return "written"

    @server.tool(permission=lambda frame: False, when_denied="challenged")
    def log_in() -> str:
        return "never"

    @server.tool(approval=Approval("auth.change_user"))
    def refund() -> str:
        return "refunded"

    return server


@pytest.fixture
def client() -> Iterator[SyncClient]:
    with SyncClient(warehouse(), elicitation=accept(name="Ada"), capabilities={}) as client:
        yield client


Ask = Callable[[CallResult], object]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("tool", "arguments", "passes", "fails", "failure"),
    [
        ("describe", {"number": 1}, lambda r: r.assert_ok(), lambda r: r.assert_error(), "did not"),
        (
            "describe",
            {"number": 10},
            lambda r: r.assert_error("no delivery 10"),
            lambda r: r.assert_ok(),
            "The call failed",
        ),
        (
            "describe",
            {"number": 1},
            lambda r: r.assert_text("Delivery"),
            lambda r: r.assert_text("Order"),
            "does not contain 'Order'",
        ),
        (
            "deliver",
            {"number": 3},
            lambda r: r.assert_structured(number=3),
            lambda r: r.assert_structured(number=4),
            "'number' is 3 instead of 4",
        ),
        (
            "deliver",
            {"number": 3},
            lambda r: r.assert_structured(),
            lambda r: r.assert_structured(weight=4),
            "no member 'weight'",
        ),
        (
            "deliver",
            {"number": 0},
            lambda r: r.assert_field_error("number", "greater than or equal to 1"),
            lambda r: r.assert_field_error("day"),
            "no error of the argument 'day'",
        ),
        (
            "count",
            {},
            lambda r: r.assert_progress(1, 2).assert_progress(),
            lambda r: r.assert_progress(1),
            re.escape("the progress was [1, 2] instead of [1]").replace("the", "The", 1),
        ),
        (
            "count",
            {},
            lambda r: r.assert_notified("notifications/progress"),
            lambda r: r.assert_notified("notifications/message"),
            "No notifications/message was sent",
        ),
        (
            "write",
            {},
            lambda r: r.assert_challenged("stock:write"),
            lambda r: r.assert_challenged("stock:read"),
            "challenged for the scopes",
        ),
        ("log_in", {}, lambda r: r.assert_challenged(), lambda r: r.assert_ok(), "failed"),
        (
            "describe",
            {"number": 10},
            lambda r: r.assert_error(),
            lambda r: r.assert_challenged(),
            "was not challenged",
        ),
        (
            "describe",
            {"number": 1},
            lambda r: r.assert_ok(),
            lambda r: r.assert_waits_for_approval(),
            "does not wait",
        ),
    ],
)
def test_assertion_passes_for_its_outcome_and_fails_for_another(
    client: SyncClient,
    tool: str,
    arguments: dict[str, Any],
    passes: Ask,
    fails: Ask,
    failure: str,
) -> None:
    result = client.call(tool, **arguments)

    passes(result)
    with pytest.raises(AssertionError, match=failure) as raised:
        fails(result)

    # The whole exchange is shown.
    assert '"method": "tools/call"' in str(raised.value)
    assert f'"name": "{tool}"' in str(raised.value)


@pytest.mark.django_db
def test_call_that_waits_for_its_approval_is_not_ok() -> None:
    ann = User.objects.create_user("ann")
    with SyncClient(warehouse(), user=ann) as client:
        result = client.call("refund")

    result.assert_waits_for_approval()
    with pytest.raises(AssertionError, match="The call waits for an approval"):
        result.assert_ok()


@pytest.mark.parametrize("mcp_transport", ["memory"])
@pytest.mark.parametrize("mcp_version", ["2025-11-25", "2026-07-28"])
async def test_requested_input_is_asserted_in_each_kind_of_revision(client_for: ClientFor) -> None:
    async with client_for(warehouse(), elicitation=accept(name="Ada")) as client:
        result = await client.call("greet")
        other = await client.call("describe", number=1)

    result.assert_ok().assert_input_requested("What is your name?").assert_text("Ada")
    with pytest.raises(AssertionError, match="No input was requested with 'How old'"):
        result.assert_input_requested("How old")
    with pytest.raises(AssertionError, match="No input was requested"):
        other.assert_input_requested()


@pytest.mark.parametrize("mcp_transport", ["memory"])
async def test_data_is_the_value_of_the_return_type(client_for: ClientFor) -> None:
    async with client_for(warehouse()) as client:
        delivery = await client.call("deliver", number=3)
        text = await client.call("describe", number=3)
        failed = await client.call("describe", number=10)

    assert delivery.data == Delivery(3, date(2026, 11, 23))
    assert text.data == "Delivery 3"
    with pytest.raises(AssertionError, match="There is no value"):
        _ = failed.data


@pytest.mark.django_db
def test_client_of_another_user_has_the_options_and_closes_with_the_first() -> None:
    ann = User.objects.create_user("ann")
    bob = User.objects.create_user("bob")
    bob.user_permissions.add(Permission.objects.get(codename="change_user"))

    with SyncClient(warehouse(), user=ann, version="2025-11-25") as client:
        other = client.as_user(User.objects.get(pk=bob.pk))
        client.assert_tool_hidden("hide")
        other.assert_tool_visible("hide")
        other.call("hide").assert_ok().assert_text("hidden")
        with pytest.raises(AssertionError, match="'hide' is listed"):
            other.assert_tool_hidden("hide")
        with pytest.raises(AssertionError, match="'hide' is not listed"):
            client.assert_tool_visible("hide")
        assert other.client.initialize_result["protocolVersion"] == "2025-11-25"

    assert not other.client._is_open


async def test_catalogue_is_compared_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "snapshots" / "catalogue.json"
    server = Server("shop")
    server.tool(name="buy", description="Buy a product")(lambda number: None)

    async with Client(server) as client:
        with pytest.raises(AssertionError, match="MCP_UPDATE_SNAPSHOTS=1"):
            await client.assert_catalogue(path)
        with monkeypatch.context() as environment:
            environment.setenv("MCP_UPDATE_SNAPSHOTS", "1")
            await client.assert_catalogue(path)
        await client.assert_catalogue(path)

    changed = Server("shop")
    changed.tool(name="buy", description="Buy a product at once")(lambda number: None)
    async with Client(changed) as client:
        with pytest.raises(AssertionError) as raised:
            await client.assert_catalogue(path)
    assert '-      "description": "Buy a product"' in str(raised.value)
    assert '+      "description": "Buy a product at once"' in str(raised.value)
