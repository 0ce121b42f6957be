"""Models, lists, pages of objects, options and the history, as the admin shows them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_mcp import Server
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import TICKET, read


def test_models_are_listed_with_what_the_caller_may_do(ask: Ask, staff: Staff) -> None:
    sam = staff("helpdesk.view_ticket", "helpdesk.add_customer")
    models = {each["model"]: each["may"] for each in read(ask(sam, "list_models"))["models"]}
    assert models == {TICKET: ["view"], "helpdesk.Customer": ["add"]}


def test_description_has_the_list_the_form_the_inlines_and_the_actions(
    ask: Ask, root: User
) -> None:
    described = read(ask(root, "describe_model", model=TICKET))
    columns = described["list"]["columns"]
    assert columns == {
        "subject": "subject",
        "customer": "customer",
        "status": "status",
        "is_late": "Late",
    }
    assert described["list"]["sortable"] == ["subject", "customer", "status"]
    (status,) = described["list"]["filters"]
    assert {"label": "Closed", "filter": {"status__exact": "closed"}} in status["choices"]
    form = described["form"]
    assert form["required"] == ["customer", "subject", "description", "status"]
    assert form["read_only"] == ["number_of_comments"]
    assert form["fields"]["customer"]["of"] == "helpdesk.Customer"
    (inline,) = form["inlines"]
    assert inline["name"] == "comments"
    assert inline["may"] == {"add": True, "change": True, "delete": True}
    names = [each["name"] for each in described["actions"]]
    assert names == ["delete_selected", "close", "move", "export", "break_down"]


def test_description_counts_the_objects_of_each_filter(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    described = read(ask(root, "describe_model", model=TICKET, facets=True))
    labels = [each["label"] for each in described["list"]["filters"][0]["choices"]]
    assert "Open (1)" in labels


def test_description_names_pages_that_only_a_browser_shows(ask: Ask, root: User) -> None:
    described = read(ask(root, "describe_model", model="auth.User"))
    assert described["pages"] == ["<id>/password/"]
    assert "password1" not in described["form"]["fields"]


def test_search_returns_the_columns_of_the_list(ask: Ask, root: User, ticket: Ticket) -> None:
    Ticket.objects.create(customer=ticket.customer, subject="Screen", priority="urgent")
    page = read(ask(root, "search", model=TICKET, text="screen", filters={"status": "open"}))
    (row,) = page["rows"]
    assert row["values"]["is_late"] is True
    assert row["values"]["customer"] == {"key": ticket.customer_id, "label": "Acme"}
    assert row["admin_url"].endswith(f"/backstage/helpdesk/ticket/{row['pk']}/change/")
    assert (page["count"], page["pages"], page["next_page"]) == (1, 1, None)


def test_search_orders_and_pages(ask: Ask, root: User, acme: Customer) -> None:
    for number in range(5):
        Ticket.objects.create(customer=acme, subject=f"T{number}")
    page = read(ask(root, "search", model=TICKET, ordering=["-subject"], limit=2, page=2))
    assert [row["values"]["subject"] for row in page["rows"]] == ["T2", "T1"]
    assert (page["count"], page["next_page"]) == (5, 3)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"ordering": ["is_late"]}, "the list is sorted by subject, customer, status"),
        ({"page": 9}, "The list has 1 pages"),
        ({"filters": {"nothing": "1"}}, "no such filter or page"),
        ({"filters": {"o": "1"}}, "this is no filter"),
        ({"filters": {"status": "\0"}}, "null character"),
        ({"filters": {"status__exact": []}}, "status__exact: give at least one value"),
        ({"filters": {"id": [{"a": 1}]}}, "no such filter or page"),
        ({"filters": {"subject__regex": "("}}, "cannot be filtered by these values"),
        ({"model": "auth.User", "filters": {"last_login__year": 2**31}}, "cannot be filtered"),
    ],
)
def test_what_the_list_does_not_have_is_an_error(
    ask: Ask, root: User, ticket: Ticket, arguments: dict[str, Any], problem: str
) -> None:
    ask(root, "search", **{"model": TICKET, **arguments}).assert_error(problem)


@pytest.mark.parametrize("name", ["subject__isnull", "customer__isnull"])
@pytest.mark.parametrize("values", [[False], [0], [None]])
def test_values_of_a_list_are_read_as_single_ones(
    ask: Ask, root: User, ticket: Ticket, name: str, values: list[Any]
) -> None:
    (row,) = read(ask(root, "search", model=TICKET, filters={name: values}))["rows"]
    assert row["pk"] == ticket.pk


def test_unknown_model_is_an_error_with_the_nearest_name(ask: Ask, root: User) -> None:
    result = ask(root, "search", model="helpdesk.Tickets")
    result.assert_error("did you mean 'helpdesk.Ticket'?")


def test_page_of_an_object_has_its_fields_and_inlines(ask: Ask, root: User, ticket: Ticket) -> None:
    page = read(ask(root, "get", model=TICKET, pk=ticket.pk))
    assert page["values"]["number_of_comments"] == "2 comments"
    assert page["values"]["customer"] == {"key": ticket.customer_id, "label": "Acme"}
    assert "priority" not in page["values"]
    assert [row["text"] for row in page["inlines"]["comments"]] == ["first", "second"]


def test_user_with_view_permission_reads_the_same_page(
    ask: Ask, staff: Staff, ticket: Ticket
) -> None:
    sam = staff("helpdesk.view_ticket", "helpdesk.view_comment")
    Ticket.objects.update(assignee=sam)
    page = read(ask(sam, "get", model=TICKET, pk=ticket.pk))
    assert page["values"]["subject"] == "Printer"
    assert [row["text"] for row in page["inlines"]["comments"]] == ["first", "second"]


def test_hash_of_a_password_is_not_in_a_page(ask: Ask, root: User, staff: Staff) -> None:
    sam = staff("auth.view_user")
    for caller in (root, sam):
        result = ask(caller, "get", model="auth.User", pk=root.pk)
        assert "password" not in read(result)["values"]
        assert root.password not in result.text


def test_options_of_a_field_match_a_text(ask: Ask, root: User, acme: Customer) -> None:
    found = read(ask(root, "autocomplete", model=TICKET, field="customer", text="acm"))
    assert found["options"] == [{"key": str(acme.pk), "label": "Acme"}]
    found = read(ask(root, "autocomplete", model=TICKET, field="comments.author", text="roo"))
    assert found["options"] == [{"key": root.pk, "label": "root"}]
    found = read(ask(root, "autocomplete", model=TICKET, field="status", text="clo"))
    assert found["options"] == [{"key": "closed", "label": "Closed"}]


def test_history_tells_who_changed_what_by_which_program(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    ask(root, "change", model=TICKET, pk=ticket.pk, values={"subject": "Scanner"}).assert_ok()
    (entry,) = read(ask(root, "history", model=TICKET, pk=ticket.pk))["entries"]
    assert entry["message"] == "Changed Subject."
    assert entry["program"].startswith("django-mcp-test-client")
    (recent,) = read(ask(root, "recent_actions"))["entries"]
    assert (recent["model"], recent["pk"]) == (TICKET, str(ticket.pk))
    assert LogEntry.objects.get().get_change_message() == "Changed Subject."


def test_search_makes_the_queries_of_the_change_list(
    server: Server, root: User, ticket: Ticket
) -> None:
    for number in range(30):
        Ticket.objects.create(customer=ticket.customer, subject=f"T{number}")
    with SyncClient(server, user=root) as client:
        client.call("search", model="helpdesk.Customer", limit=10).assert_num_queries(3)


def test_list_of_tools_is_short(server: Server, root: User) -> None:
    with SyncClient(server, user=root) as client:
        tools = client.list_tools()
    assert len(tools) == 11
    characters = len(json.dumps(tools, separators=(",", ":")))
    assert characters / 4 < 3_000


def test_many_to_many_field_has_keys_and_labels(ask: Ask, root: User) -> None:
    group = Group.objects.create(name="Editors")
    root.groups.add(group)
    page = read(ask(root, "get", model="auth.User", pk=root.pk))
    assert page["values"]["groups"] == [{"key": group.pk, "label": "Editors"}]


def test_comments_of_nobody_are_no_page(ask: Ask, root: User, ticket: Ticket) -> None:
    comment = Comment.objects.first()
    assert comment is not None
    ask(root, "get", model="helpdesk.Comment", pk=comment.pk).assert_error("There is no model")


@pytest.mark.parametrize("query", [{}, {"q": "Printer"}, {"status": "open", "o": "-2"}, {"p": "2"}])
def test_search_issues_the_queries_of_the_list_and_no_more(
    server: Server, staff: Staff, acme: Customer, query: dict[str, str]
) -> None:
    sam = staff("helpdesk.view_ticket", "helpdesk.view_customer")
    for number in range(120):
        subject = f"Printer {number}"
        Ticket.objects.create(customer=acme, subject=subject, description="d", assignee=sam)
    arguments = {
        "text": query.get("q", ""),
        "filters": {name: value for name, value in query.items() if name == "status"},
        "ordering": ["-customer"] if "o" in query else [],
        "page": int(query.get("p", 1)),
        "limit": 100,
    }
    url = reverse("backstage:helpdesk_ticket_changelist")
    browser = Browser()
    browser.force_login(sam)
    with CaptureQueriesContext(connection) as of_browser:
        assert browser.get(url, query).status_code == 200
    user = User.objects.get(pk=sam.pk)
    with SyncClient(server, user=user) as client, CaptureQueriesContext(connection) as of_tool:
        listed = read(client.call("search", model=TICKET, **arguments))
    assert listed["rows"]
    assert listed["count"] == 120
    in_browser, by_tool = (Counter(each["sql"] for each in one) for one in (of_browser, of_tool))
    assert by_tool - in_browser == Counter()
    # Those of the session and its user.
    assert (in_browser - by_tool).total() == 2
