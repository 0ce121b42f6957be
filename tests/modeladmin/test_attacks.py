"""What a caller must not reach: rows, fields, lookups, actions, previews and other admins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import F

from django_mcp import Server
from django_mcp.contrib.approvals.models import Approval
from django_mcp.modeladmin import admin_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Customer, Ticket
from tests.modeladmin import backstage
from tests.modeladmin.conftest import Ask, Staff
from tests.modeladmin.reading import TICKET, read

ALL = tuple(f"helpdesk.{action}_ticket" for action in ("view", "add", "change", "delete"))
COMMENTS = tuple(f"helpdesk.{action}_comment" for action in ("view", "add", "change", "delete"))
APPROVAL = "django_mcp_approvals.Approval"
DENIED = "There is no such object"


@pytest.fixture
def sam(staff: Staff, ticket: Ticket) -> User:
    """A member of the staff with all permissions of tickets, to whom none is assigned."""
    return staff(*ALL, *COMMENTS, "helpdesk.view_customer")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get", {}),
        ("history", {}),
        ("delete", {}),
        ("change", {"values": {"subject": "Mine"}}),
        ("change", {"inlines": {"comments": [{"text": "Mine"}]}}),
        ("describe_model", {}),
        ("autocomplete", {"field": "status"}),
    ],
)
def test_rows_outside_the_query_set_are_not_reached_by_key(
    ask: Ask, sam: User, ticket: Ticket, tool: str, arguments: dict[str, Any]
) -> None:
    ask(sam, tool, model=TICKET, pk=ticket.pk, **arguments).assert_error(DENIED)


def test_rows_outside_the_query_set_are_in_no_list(ask: Ask, sam: User, ticket: Ticket) -> None:
    filters: list[dict[str, Any]] = [{}, {"status": "open"}, {"id": ticket.pk}, {"all": ""}]
    for chosen in filters[:3]:
        assert read(ask(sam, "search", model=TICKET, filters=chosen))["rows"] == []
    ask(sam, "search", model=TICKET, filters=filters[3]).assert_error("no filter")
    result = ask(sam, "run_action", model=TICKET, action="close", pks=[ticket.pk])
    result.assert_error("The list does not show")


def test_options_are_rows_that_the_caller_sees(
    ask: Ask, sam: User, staff: Staff, hidden: Customer
) -> None:
    found = read(ask(sam, "autocomplete", model=TICKET, field="customer", text="Hid"))
    assert found["options"] == []
    values = {"subject": "x", "description": "x", "customer": "Hidden"}
    ask(sam, "add", model=TICKET, values=values).assert_error("no object has the label")
    blind = staff(*ALL, name="blind")
    result = ask(blind, "autocomplete", model=TICKET, field="customer", text="Ac")
    assert result.is_error
    raw = staff("helpdesk.add_refund", name="raw")
    result = ask(raw, "autocomplete", model="helpdesk.Refund", field="ticket", text="Prin")
    result.assert_error("You may not list the rows")


def test_rows_of_an_inline_of_another_object_are_not_changed(
    ask: Ask, root: User, ticket: Ticket
) -> None:
    other = Ticket.objects.create(customer=ticket.customer, subject="Other")
    comment = Comment.objects.create(ticket=other, text="theirs")
    rows = [{"pk": comment.pk, "text": "mine"}]
    result = ask(root, "change", model=TICKET, pk=ticket.pk, inlines={"comments": rows})
    result.assert_error("there is no other row")
    rows = [{"text": "mine", "ticket": other.pk}]
    result = ask(root, "change", model=TICKET, pk=ticket.pk, inlines={"comments": rows})
    result.assert_error("comments[0].ticket: the page has no such field")


def test_inline_without_permission_is_not_written(ask: Ask, staff: Staff, ticket: Ticket) -> None:
    viewer = staff(*ALL, "helpdesk.view_comment", name="viewer")
    Ticket.objects.update(assignee=viewer)
    comment = ticket.comments.first()
    assert comment is not None
    attempts: list[tuple[dict[str, Any], str]] = [
        ({"pk": comment.pk, "text": "mine"}, "may not change"),
        ({"pk": comment.pk, "delete": True}, "may not delete"),
        ({"text": "mine"}, "may not add"),
    ]
    for row, problem in attempts:
        result = ask(viewer, "change", model=TICKET, pk=ticket.pk, inlines={"comments": [row]})
        result.assert_error(problem)
    blind = staff(*ALL, name="blind")
    Ticket.objects.update(assignee=blind)
    page = read(ask(blind, "get", model=TICKET, pk=ticket.pk))
    assert "inlines" not in page


@pytest.mark.parametrize(
    "lookup",
    [
        "customer__email__startswith",
        "customer__tickets__description__contains",
    ],
)
def test_lookups_that_the_admin_does_not_allow_are_refused(
    ask: Ask, root: User, ticket: Ticket, lookup: str
) -> None:
    ask(root, "search", model=TICKET, filters={lookup: "a"}).assert_error("not allow")


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        ("auth.User", "password__startswith"),
        ("auth.User", "user_permissions__user__password__startswith"),
        ("helpdesk.Customer", "email__startswith"),
        ("helpdesk.Customer", "email"),
        ("helpdesk.Customer", "tickets__isnull"),
        ("helpdesk.Ticket", "priority"),
        ("helpdesk.Ticket", "assignee_id"),
        ("helpdesk.Ticket", "assignee__id__gt"),
        ("helpdesk.Ticket", "assignee__password__startswith"),
        ("helpdesk.Ticket", "comments__author__password__contains"),
    ],
)
def test_list_is_not_filtered_by_what_no_page_shows(
    ask: Ask, root: User, ticket: Ticket, model: str, lookup: str
) -> None:
    result = ask(root, "search", model=model, filters={lookup: "1"})
    result.assert_error(f"{lookup}: this is no filter")


@pytest.mark.parametrize(
    ("model", "lookup", "value"),
    [
        ("auth.User", "username__startswith", "ro"),
        ("auth.User", "last_login__isnull", True),
        ("auth.User", "groups__isnull", True),
        ("helpdesk.Customer", "city__contains", "raz"),
        ("helpdesk.Customer", "pk", 1),
        ("helpdesk.Ticket", "description__contains", "broken"),
        ("helpdesk.Ticket", "customer_id__gt", 0),
        ("helpdesk.Ticket", "customer__id__exact", 1),
    ],
)
def test_list_is_filtered_by_what_it_or_a_page_shows(
    ask: Ask, root: User, ticket: Ticket, model: str, lookup: str, value: Any
) -> None:
    value = ticket.customer_id if value == 1 else value
    assert len(read(ask(root, "search", model=model, filters={lookup: value}))["rows"]) == 1


def test_parameters_of_the_list_are_no_filters(ask: Ask, root: User, ticket: Ticket) -> None:
    for name in ("_to_field", "_popup", "q", "p", "e"):
        result = ask(root, "search", model=TICKET, filters={name: "1"})
        result.assert_error("this is no filter")


def test_names_of_the_form_cannot_be_smuggled_in(ask: Ask, root: User, ticket: Ticket) -> None:
    for name in ("_saveasnew", "comments-TOTAL_FORMS", "id", "_to_field"):
        result = ask(root, "change", model=TICKET, pk=ticket.pk, values={name: "1"})
        assert result.is_error
    assert Ticket.objects.count() == 1


def test_viewer_changes_nothing(ask: Ask, staff: Staff, ticket: Ticket) -> None:
    viewer = staff("helpdesk.view_ticket")
    Ticket.objects.update(assignee=viewer)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("change", {"pk": ticket.pk, "values": {"subject": "Mine"}}),
        ("delete", {"pk": ticket.pk}),
        ("add", {"values": {"subject": "Mine"}}),
        ("run_action", {"action": "close", "pks": [ticket.pk]}),
        ("run_action", {"action": "delete_selected", "pks": [ticket.pk]}),
    ]
    for tool, arguments in calls:
        assert ask(viewer, tool, model=TICKET, **arguments).is_error
    ticket.refresh_from_db()
    assert (ticket.subject, ticket.status) == ("Printer", "open")


def test_who_is_not_of_the_staff_sees_no_tool(server: Any, ticket: Ticket) -> None:
    user = User.objects.create_user("ann")
    inactive = User.objects.create_superuser("gone", is_active=False)
    for caller in (None, user, inactive):
        with SyncClient(server, user=caller) as client:
            client.assert_tool_hidden("search")
            assert client.call("search", model=TICKET).is_error


def test_model_of_another_admin_is_unknown(ask: Ask, root: User) -> None:
    result = ask(root, "search", model="django_mcp_calls.Call")
    result.assert_error("There is no model")
    for label in ("", "x", "helpdesk.", ".Ticket", "helpdesk.Ticket.x"):
        ask(root, "search", model=label).assert_error("There is no model")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("describe_model", {}),
        ("describe_model", {"pk": 1}),
        ("search", {}),
        ("search", {"ordering": ["nothing"]}),
        ("search", {"filters": {"o": "1"}}),
        ("get", {"pk": 1}),
        ("history", {"pk": 1}),
        ("history", {"pk": 999}),
        ("autocomplete", {"field": "name"}),
        ("add", {"values": {"name": "x"}}),
        ("change", {"pk": 1}),
        ("change", {"pk": 1, "values": {"id": 7}}),
        ("change", {"pk": 1, "values": {"name": "x"}}),
        ("delete", {"pk": 1}),
        ("run_action", {"action": "nothing", "pks": [1]}),
    ],
)
def test_model_that_is_hidden_from_the_caller_is_as_unknown_as_another(
    ask: Ask, staff: Staff, acme: Customer, tool: str, arguments: dict[str, Any]
) -> None:
    sam = staff("helpdesk.view_ticket")
    if arguments.get("pk") == 1:
        arguments = {**arguments, "pk": acme.pk}
    hidden = ask(sam, tool, model="helpdesk.Customer", **arguments)
    unknown = ask(sam, tool, model="helpdesk.Nothing", **arguments)
    assert hidden.is_error
    assert hidden.text == unknown.text.replace("Nothing", "Customer")


def test_caller_whom_an_object_is_shown_reads_the_errors_of_its_form(
    site_server: Server, acme: Customer, hidden: Customer
) -> None:
    """The index hides the model from them, and they may change this object."""
    owner = User.objects.create_user("owner", is_staff=True)
    with SyncClient(site_server, user=owner) as client:
        shown = {"model": "helpdesk.Customer", "pk": acme.pk}
        client.call("get", **shown).assert_ok()
        client.call("change", **shown, values={"name": ""}).assert_error("name: ")
        result = client.call("get", model="helpdesk.Customer", pk=hidden.pk)
    result.assert_error("There is no model")


class CustomersByObject(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ["name"]

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is not None and obj.name == "Acme"

    has_change_permission = has_view_permission


@pytest.fixture
def site_server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The tools of an admin whose permissions are those of single objects."""
    registered: dict[Any, Any] = backstage.site._registry
    monkeypatch.setitem(registered, Customer, CustomersByObject(Customer, backstage.site))
    server = Server("objects")
    admin_tools(backstage.site, server=server, prefix="")
    return server


class PlainUsers(admin.ModelAdmin):  # type: ignore[type-arg]
    """Users without the forms of UserAdmin: a text field has the hash of the password."""

    list_display = ["username", "password"]
    list_filter = ["password", "is_staff"]


@pytest.mark.parametrize("options", [{}, {"include": ["auth.User"], "one_set_per_model": True}])
def test_hash_in_a_plain_field_is_neither_read_nor_written(
    monkeypatch: pytest.MonkeyPatch, root: User, options: dict[str, Any]
) -> None:
    registered: dict[Any, Any] = backstage.site._registry
    monkeypatch.setitem(registered, User, PlainUsers(User, backstage.site))
    server = Server("people")
    admin_tools(backstage.site, server=server, prefix="", **options)
    end, model = ("_auth_user", {}) if options else ("", {"model": "auth.User"})
    changed = {"pk": root.pk, **model}
    with SyncClient(server, user=root) as client:
        listed = json.dumps(client.list_tools())
        described = client.call("describe_model", model="auth.User", pk=root.pk)
        answers = [client.call(f"search{end}", **model), client.call(f"get{end}", **changed)]
        answers.append(client.call(f"change{end}", **changed, values={"first_name": "Ruth"}))
        for tool, given in (("change", changed), ("add", model)):
            result = client.call(f"{tool}{end}", **given, values={"password": "x"})
            result.assert_error("password: passwords are set in the browser")
    assert '"password":' not in listed
    assert "password" not in read(described)["form"]["fields"]
    for answer in (described, *answers):
        assert root.password not in answer.assert_ok().text
    hash_before = root.password
    root.refresh_from_db()
    assert (root.first_name, root.password) == ("Ruth", hash_before)


class SearchedUsers(PlainUsers):
    ordering = ["username"]
    search_fields = ["username", "=password", "groups__user__password", "password__startswith"]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """An admin that finds users, and what belongs to them, by the hashes of their passwords."""
    registered: dict[Any, Any] = backstage.site._registry
    monkeypatch.setitem(registered, User, SearchedUsers(User, backstage.site))
    monkeypatch.setattr(registered[Ticket], "search_fields", ["subject", "assignee__password"])
    monkeypatch.setattr(registered[Ticket], "autocomplete_fields", ["customer", "assignee"])
    monkeypatch.setattr(registered[Ticket], "fields", ["subject", "assignee"])


def test_hash_is_not_found_out_by_search(
    searched: None, ask: Ask, root: User, ticket: Ticket
) -> None:
    Ticket.objects.update(assignee=root)
    users: dict[str, Any] = {"model": "auth.User"}
    tickets: dict[str, Any] = {"model": TICKET}
    for given, word in ((users, "root"), (tickets, "Printer")):
        assert read(ask(root, "search", **given, text=word))["count"] == 1
        for text in (root.password, root.password[:30]):
            assert read(ask(root, "search", **given, text=text))["count"] == 0
    assert read(ask(root, "describe_model", **users))["list"]["search"] == "username"
    assert read(ask(root, "describe_model", **tickets))["list"]["search"] == "subject"


@pytest.mark.parametrize("view", ["autocomplete_fields", "raw_id_fields"])
def test_hash_is_not_found_out_by_the_options_of_a_field(
    searched: None, ask: Ask, root: User, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    monkeypatch.setattr(backstage.site._registry[Ticket], "autocomplete_fields", ())
    monkeypatch.setattr(backstage.site._registry[Ticket], view, ["assignee"])
    field = {"model": TICKET, "field": "assignee"}
    assert read(ask(root, "autocomplete", **field, text="root"))["options"]
    assert read(ask(root, "autocomplete", **field, text=root.password[:30]))["options"] == []


def test_list_is_not_sorted_by_a_hash(searched: None, ask: Ask, root: User) -> None:
    for term in ("password", "-password"):
        result = ask(root, "search", model="auth.User", ordering=[term])
        result.assert_error("password: the list is sorted by username.")
    assert read(ask(root, "describe_model", model="auth.User"))["list"]["sortable"] == ["username"]


def test_row_is_not_overwritten_by_another_key(ask: Ask, root: User, ticket: Ticket) -> None:
    result = ask(root, "change", model=TICKET, pk=ticket.pk, values={"id": 77})
    result.assert_error("primary key of a row cannot be changed")


def test_held_calls_are_read_and_never_decided_by_tools(root: User) -> None:
    """Otherwise a program could approve the calls that it has made in the name of its user."""
    office = Server("office")
    admin_tools(server=office, include=[APPROVAL.rpartition(".")[0]])
    till = Server("till")

    @till.tool(approval="auth.change_group")
    def pay(amount: int) -> str:
        """Pay out money."""
        return f"Paid {amount}"

    with SyncClient(till, user=root) as client:
        client.call_tool("pay", {"amount": 5})
    held = Approval.objects.get()
    with SyncClient(office, user=root) as client:
        described = read(client.call("admin_describe_model", model=APPROVAL, pk=held.pk))
        (row,) = read(client.call("admin_search", model=APPROVAL))["rows"]
        writes: list[tuple[str, dict[str, Any]]] = [
            ("run_action", {"action": "approve", "pks": [held.pk]}),
            ("run_action", {"action": "delete_selected", "pks": [held.pk]}),
            ("delete", {"pk": held.pk}),
            ("change", {"pk": held.pk, "values": {"status": "approved"}}),
            ("add", {"values": {}}),
        ]
        for tool, arguments in writes:
            result = client.call(f"admin_{tool}", model=APPROVAL, **arguments)
            result.assert_error("a person decides on its page")
    assert row["pk"] == str(held.pk) or row["pk"] == held.pk
    assert described.get("actions", []) == []
    held.refresh_from_db()
    assert held.decided_at is None


def test_list_is_not_filtered_by_an_annotation_that_no_column_shows(
    ask: Ask, root: User, acme: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Customer.objects.annotate(address=F("email"), town=F("city"))
    model_admin = backstage.site.get_model_admin(Customer)
    kind = type(model_admin)

    @admin.display(ordering="town")
    def where(model_admin: Any, customer: Any) -> str:
        return str(customer.town)

    monkeypatch.setattr(kind, "get_queryset", lambda *_: rows.all())
    monkeypatch.setattr(kind, "where", where, raising=False)
    monkeypatch.setattr(kind, "list_display", ["name", "where"])
    hidden = {"address__startswith": "a"}
    result = ask(root, "search", model="helpdesk.Customer", filters=hidden)
    result.assert_error("this is no filter")
    shown = ask(root, "search", model="helpdesk.Customer", filters={"town": "Graz"})
    assert shown["structuredContent"]["count"] == 1
