"""Inlines: which are offered, which are only read, and how many rows they take."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.contrib.tokens.models import PersonalAccessToken
from django_mcp.modeladmin import admin_tools, models
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Refund, Ticket
from tests.modeladmin.reading import TICKET, read

USER = "auth.User"


class Refunds(admin.TabularInline):  # type: ignore[type-arg]
    model = Refund
    fk_name = "ticket"
    fields = ["amount", "reason"]
    extra = 0


class RequestedRefunds(Refunds):
    fk_name = "requested_by"


class Tokens(admin.TabularInline):  # type: ignore[type-arg]
    model = PersonalAccessToken
    fields = ["name"]
    extra = 0


class Tickets(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ["customer", "subject"]
    inlines = [Refunds]


class Users(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ["first_name"]
    inlines = [Tokens, RequestedRefunds]


def client_of(user: User, **options: Any) -> SyncClient:
    """Return a client of the tools of an admin with these inlines."""
    site = admin.AdminSite("backstage")
    site.register(Ticket, Tickets)
    site.register(User, Users)
    server = Server("staff")
    admin_tools(site, server=server, prefix="", **options)
    return SyncClient(server, user=user)


@pytest.fixture
def refund(ticket: Ticket) -> Refund:
    return Refund.objects.create(ticket=ticket, amount=5, reason="Late")


@pytest.mark.parametrize("exclude", [["helpdesk.Refund"], ["helpdesk.Comment"]])
def test_inline_of_an_excluded_model_is_neither_read_nor_written(
    root: User, refund: Refund, exclude: list[str]
) -> None:
    is_shown = "helpdesk.Refund" not in exclude
    page = {"model": TICKET, "pk": refund.ticket.pk}
    rows = [{"pk": refund.pk, "amount": 7}, {"amount": 9, "reason": "More"}]
    with client_of(root, exclude=exclude) as client:
        shown = read(client.call("get", **page))
        described = read(client.call("describe_model", model=TICKET))["form"]
        written = client.call("change", **page, inlines={"refunds": rows})
        client.call("change", **page, values={"subject": "x"}).assert_ok()
    assert ("inlines" in shown, "inlines" in described) == (is_shown, is_shown)
    amounts = [*Refund.objects.order_by("pk").values_list("amount", flat=True)]
    assert amounts == ([7, 9] if is_shown else [5])
    if not is_shown:
        written.assert_error("refunds: the page has no such inline")


@pytest.mark.parametrize("include", [[], ["auth"], [USER], ["auth", "django_mcp_tokens"]])
def test_inline_of_tokens_is_read_only_if_include_names_them(
    root: User, include: list[str]
) -> None:
    PersonalAccessToken.objects.create(owner=root, name="mine")
    with client_of(root, include=include) as client:
        shown = read(client.call("get", model=USER, pk=root.pk))["inlines"]
    # ``include`` does not name the model of the other inline, which belongs to the page.
    assert "refunds" in shown
    tokens = [each for each in shown if each != "refunds"]
    assert bool(tokens) == ("django_mcp_tokens" in include)


def test_inline_that_is_left_out_is_in_no_schema(root: User) -> None:
    for exclude, is_described in (["helpdesk.Refund"], False), (["helpdesk.Comment"], True):
        with client_of(root, exclude=exclude, one_set_per_model=True) as client:
            tools = {tool["name"]: tool["inputSchema"] for tool in client.list_tools()}
        properties = tools["change_helpdesk_ticket"]["properties"]
        assert ("inlines" in properties) == is_described


def test_invalid_rows_of_an_inline_that_is_left_out_are_not_shown(
    root: User, refund: Refund
) -> None:
    Refund.objects.update(reason="")
    with client_of(root, exclude=["helpdesk.Refund"]) as client:
        result = client.call("change", model=TICKET, pk=refund.ticket.pk, values={"subject": ""})
    assert result.assert_error().text.splitlines() == [
        "The form is not valid.",
        "subject: This field is required.",
        "The page has rows that only a browser shows, and they are not valid: open it there.",
    ]


def test_inline_that_people_decide_about_is_only_read(
    root: User, refund: Refund, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a program could approve the calls that it has made in the name of its user."""
    monkeypatch.setattr(models, "DECIDED_BY_PEOPLE", {"helpdesk"})
    Refund.objects.update(requested_by=root)
    page = {"model": USER, "pk": root.pk}
    rows = {"refunds": [{"pk": refund.pk, "amount": 7}]}
    with client_of(root) as client:
        shown = read(client.call("get", **page))["inlines"]
        (described,) = read(client.call("describe_model", **page))["form"]["inlines"]
        written = client.call("change", **page, inlines=rows)
        client.call("change", **page, values={"first_name": "Kim"}).assert_ok()
    assert shown["refunds"][0]["amount"] == "5.00"
    assert described["may"] == {"add": False, "change": False, "delete": False}
    written.assert_error("refunds: Tools only read this model: a person decides on its page.")
    refund.refresh_from_db()
    assert refund.amount == 5
