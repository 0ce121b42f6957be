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
from example_site.helpdesk.models import Comment, Customer, Refund, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.browser import Browser
from tests.modeladmin.conftest import Ask
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


@pytest.mark.parametrize("extra", [0, 2])
def test_rows_up_to_the_minimum_are_required_as_in_a_browser(
    ask: Ask, root: User, acme: Customer, monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    monkeypatch.setattr(backstage.CommentInline, "min_num", 2)
    monkeypatch.setattr(backstage.CommentInline, "extra", extra)
    values = {"customer": acme.pk, "subject": "Screen", "description": "Dark"}
    row = {"text": "first"}
    for rows in ([], [row]):
        inlines = {"comments": rows} if rows else {}
        missing = range(len(rows), 2)
        result = ask(root, "add", model=TICKET, values=values, inlines=inlines)
        lines = [f"comments[{place}].text: This field is required." for place in missing]
        assert result.assert_error().text.splitlines()[1:] == lines
        in_browser = Browser("backstage", root).save(Ticket, None, values, inlines)
        assert len(in_browser) == len(lines)
        assert not Ticket.objects.exists()
    ask(root, "add", model=TICKET, values=values, inlines={"comments": [row, row]}).assert_ok()
    assert Comment.objects.count() == 2


def test_rows_that_are_there_count_for_the_minimum(
    ask: Ask, root: User, ticket: Ticket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backstage.CommentInline, "min_num", 2)
    page = {"model": TICKET, "pk": ticket.pk, "values": {"subject": "Screen"}}
    ask(root, "change", **page).assert_ok()
    Comment.objects.filter(text="second").delete()
    ask(root, "change", **page).assert_error("comments[0].text: This field is required.")


@pytest.mark.parametrize("most", [0, 2, 3])
def test_rows_beyond_the_maximum_are_refused_as_in_a_browser(
    ask: Ask, root: User, ticket: Ticket, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(backstage.CommentInline, "max_num", most)
    page = {"model": TICKET, "pk": ticket.pk}
    # Rows that are there can be changed, also if there are too many.
    first = ticket.comments.all()[0]
    rows = [{"pk": first.pk, "text": "changed"}]
    ask(root, "change", **page, inlines={"comments": rows}).assert_ok()
    new = [{"text": "third"}, {"text": "fourth"}]
    result = ask(root, "change", **page, inlines={"comments": new})
    assert Browser("backstage", root).save(Ticket, ticket.pk, {}, {"comments": new}) == "refused"
    place = max(most - 2, 0)
    result.assert_error(f"comments[{place}]: the page has room for {most} rows")
    assert ticket.comments.count() == 2


def test_description_has_the_least_and_the_most_rows(
    ask: Ask, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backstage.CommentInline, "min_num", 1)
    monkeypatch.setattr(backstage.CommentInline, "max_num", 5)
    (inline,) = read(ask(root, "describe_model", model=TICKET))["form"]["inlines"]
    assert (inline["min"], inline["max"]) == (1, 5)
