"""View sets as tools: each answers what the API answers, for users with different rights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client as Browser
from django.urls import get_script_prefix, set_script_prefix
from pytest_django import Settings
from rest_framework import serializers

from django_mcp import Server
from django_mcp.openapi import routes
from django_mcp.rest import rest_tools
from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Ticket
from tests.rest.api import CustomerViewSet, TicketViewSet
from tests.rest.conftest import Call, Users
from tests.spec import spec

ALL = ["list", "retrieve", "create", "update", "partial_update", "destroy", "close", "counts"]


@pytest.fixture(autouse=True)
def _tools(server: Server) -> None:
    rest_tools(TicketViewSet, ALL, server=server)
    rest_tools(CustomerViewSet, server=server, group="customers")


def over_http(user: Any, path: str) -> Any:
    """Return what the API answers."""
    browser = Browser()
    browser.force_login(user)
    return browser.get(path, headers={"accept": "application/json"})


def schema_of(server: Server, name: str) -> dict[str, Any]:
    component: Any = server.components.find("tool", name)
    schema: dict[str, Any] = component.input_schema
    return schema


def test_tools_of_a_view_set_have_its_group(server: Server) -> None:
    groups = {item.name: item.group for item in server.components.of_kind("tool")}
    assert {groups["customer_list"], groups["customer_retrieve"]} == {"customers"}
    assert groups["ticket_list"] is None


QUERIES: list[Mapping[str, Any]] = [
    {},
    {"status": "open"},
    {"status__in": ["open", "waiting"]},
    {"search": "printer"},
    {"ordering": "-id"},
    {"page": 2},
    {"page_size": 1},
    {"page_size": 99},
    {"assignee__isnull": True},
    {"assignee__isnull": False},
    {"created__gte": "2001-01-01T00:00:00Z"},
    {"created__lt": "2001-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("user", Users._fields)
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_list_is_that_of_the_api(
    tickets: list[Ticket], users: Users, call: Call, user: str, query: Mapping[str, Any]
) -> None:
    caller = getattr(users, user)
    pairs = {name: ",".join(v) if isinstance(v, list) else v for name, v in query.items()}
    encoded = urlencode(pairs).replace("True", "true").replace("False", "false")
    response = over_http(caller, f"/api/tickets/?{encoded}")

    result = call("ticket_list", user=caller, **query)

    if response.status_code == 404:
        assert result.text.splitlines() == ["Not found.", response.json()["detail"]]
    else:
        assert result["structuredContent"] == response.json()


def test_urls_in_answers_have_the_prefix_of_the_site(
    tickets: list[Ticket], users: Users, call: Call, settings: Settings
) -> None:
    settings.FORCE_SCRIPT_NAME = "/sub"
    before = get_script_prefix()
    set_script_prefix("/sub/")
    try:
        expected = over_http(users.staff, "/api/tickets/?page_size=1").json()
        result = call("ticket_list", user=users.staff, page_size=1)
    finally:
        set_script_prefix(before)
    assert "/sub/api/tickets/" in expected["next"]
    assert result["structuredContent"] == expected


@pytest.mark.parametrize("user", Users._fields)
def test_retrieve_is_that_of_the_api(
    tickets: list[Ticket], users: Users, call: Call, user: str
) -> None:
    caller = getattr(users, user)
    for ticket in tickets:
        response = over_http(caller, f"/api/tickets/{ticket.pk}/")
        result = call("ticket_retrieve", user=caller, id=ticket.pk)
        if response.status_code == 200:
            assert result["structuredContent"] == response.json()
        else:
            assert response.status_code == 404
            assert result.text.splitlines()[0] == "Not found."


@spec("views-02")
def test_hidden_row_is_answered_as_an_unknown_one(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    hidden = call("ticket_retrieve", user=users.other, id=tickets[2].pk)
    unknown = call("ticket_retrieve", user=users.other, id=99999)

    assert hidden == unknown
    assert hidden["isError"]


@pytest.mark.parametrize("tool", ["ticket_close", "ticket_partial_update", "ticket_destroy"])
def test_object_permission_denies_others(
    tickets: list[Ticket], users: Users, call: Call, tool: str
) -> None:
    free = tickets[1]
    result = call(tool, user=users.other, id=free.pk)

    assert result.text.splitlines() == [
        "Permission denied.",
        "Only the assignee may change this ticket.",
    ]
    free.refresh_from_db()
    assert free.status == "waiting"


def test_assignee_may_close_a_ticket(tickets: list[Ticket], users: Users, call: Call) -> None:
    result = call("ticket_close", user=users.agent, id=tickets[0].pk)

    assert result["structuredContent"] == {"status": "closed"}


def test_create_writes_nested_data(tickets: list[Ticket], users: Users, call: Call) -> None:
    data = {
        "customer": tickets[0].customer_id,
        "subject": "Keyboard",
        "description": "Keys are missing",
        "comments": [{"text": "All of them"}],
        "notify": True,
    }
    result = call("ticket_create", user=users.other, **data)

    made = Ticket.objects.get(subject="Keyboard")
    assert result["structuredContent"]["id"] == made.pk
    assert [comment.text for comment in made.comments.all()] == ["All of them"]


def test_partial_update_changes_only_what_was_sent(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    ticket = tickets[0]
    Ticket.objects.filter(pk=ticket.pk).update(priority="high", status="waiting")

    result = call("ticket_partial_update", user=users.agent, id=ticket.pk, subject="Plotter")

    assert not result.get("isError"), result
    ticket.refresh_from_db()
    assert (ticket.subject, ticket.priority, ticket.status) == ("Plotter", "high", "waiting")


def test_destroy_deletes(tickets: list[Ticket], users: Users, call: Call) -> None:
    result = call("ticket_destroy", user=users.staff, id=tickets[2].pk)

    assert result.text == "Done."
    assert not Ticket.objects.filter(pk=tickets[2].pk).exists()


def test_validation_errors_name_their_fields(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    data = {"customer": 99, "subject": "spam", "description": "x", "comments": [{"text": ""}]}
    result = call("ticket_create", user=users.staff, **data)
    assert "comments" in result.text  # The schema knows that a text is not empty.

    data = {**data, "comments": [{"text": "x"}]}
    assert call("ticket_create", user=users.staff, **data).text.splitlines() == [
        "The request is invalid.",
        'customer: Invalid pk "99" - object does not exist.',
        "subject: This looks like spam.",
    ]


def test_error_of_a_filter_names_its_parameter(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    result = call("ticket_list", user=users.staff, created__gte="yesterday")

    assert result.text.splitlines()[1].startswith("created__gte: ")


@pytest.mark.parametrize("tool", ["ticket_list", "ticket_counts"])
def test_anonymous_caller_has_to_log_in(tickets: list[Ticket], server: Server, tool: str) -> None:
    with SyncClient(server) as client, pytest.raises(ErrorResponse) as raised:
        client.call_tool(tool)

    assert raised.value.message == "Authentication required"


def test_throttle_counts_each_caller(tickets: list[Ticket], users: Users, call: Call) -> None:
    for _ in range(3):
        assert not call("customer_list", user=users.agent).get("isError")

    throttled = call("customer_list", user=users.agent)
    assert throttled["isError"]
    summary, detail = throttled.text.splitlines()
    assert summary.startswith("Too many requests. Try again in ")
    assert "Request was throttled." in detail
    assert not call("customer_list", user=users.other).get("isError")


@spec("views-06")
def test_throttle_counts_calls_and_requests_together(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    browser = Browser()
    browser.force_login(users.agent)
    for _ in range(3):
        call("customer_list", user=users.agent)

    assert browser.get("/api/customers/").status_code == 429


@spec("views-01")
@pytest.mark.parametrize(
    "name", ["Acme/../Mill", "../tickets", "Acme?format=api", "%2e%2e", "Acme%2f", "a.b", "Acme "]
)
def test_argument_of_the_path_leads_to_no_other_url(
    tickets: list[Ticket], users: Users, call: Call, name: str
) -> None:
    result = call("customer_retrieve", user=users.staff, name=name)

    assert result["isError"]
    assert result.text.splitlines()[0] == "Not found."


@spec("views-03")
def test_response_has_no_field_outside_the_serializer(
    tickets: list[Ticket], users: Users, call: Call
) -> None:
    answers = [
        call("ticket_list", user=users.staff),
        call("ticket_list", user=users.staff, search="secret@acme.example"),
        call("ticket_list", user=users.staff, ordering="customer__email"),
        call("ticket_list", user=users.staff, customer__email="secret@acme.example"),
        call("customer_list", user=users.staff),
    ]

    assert "secret@" not in json.dumps(answers).replace("customer__email", "")
    assert answers[1]["structuredContent"]["results"] == []
    assert "customer__email" in answers[3].text
    ordered = [each["structuredContent"]["results"] for each in (answers[0], answers[2])]
    assert ordered[0] == ordered[1]


@spec("views-07")
def test_published_view_still_answers_over_http(
    tickets: list[Ticket], users: Users, server: Server
) -> None:
    before = over_http(users.agent, "/api/tickets/")
    with SyncClient(server, user=users.agent) as client:
        client.list_tools()
        client.call_tool("ticket_list")
    after = over_http(users.agent, "/api/tickets/")

    assert (before.status_code, after.status_code) == (200, 200)
    assert after.json() == before.json()
    assert Browser().get("/api/tickets/").status_code == 403


@spec("views-04")
def test_cookie_of_a_request_does_not_choose_the_user(
    tickets: list[Ticket], users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rest_framework.authentication import BaseAuthentication

    class Everybody(BaseAuthentication):  # type: ignore[misc]
        def authenticate(self, request: Any) -> Any:
            return users.staff, None

    monkeypatch.setattr(TicketViewSet, "authentication_classes", (Everybody,))
    server = Server("counts")
    rest_tools(TicketViewSet, ["counts"], server=server, authenticated_by=[Everybody])

    with SyncClient(server, user=users.agent) as client:
        assert client.call_tool("ticket_counts").structured == {"tickets": 3}
    with (
        SyncClient(server) as client,
        pytest.raises(ErrorResponse, match="Authentication required"),
    ):
        client.call_tool("ticket_counts")


def test_tools_have_annotations_and_texts(server: Server) -> None:
    tools = {tool.name: tool for tool in server.components.of_kind("tool")}

    assert {name: dict(tools[name].annotations or {}) for name in sorted(tools)} == {
        "customer_list": {"readOnlyHint": True},
        "customer_retrieve": {"readOnlyHint": True},
        "ticket_close": {},
        "ticket_counts": {"readOnlyHint": True},
        "ticket_create": {"destructiveHint": False},
        "ticket_destroy": {"destructiveHint": True, "idempotentHint": True},
        "ticket_list": {"readOnlyHint": True},
        "ticket_partial_update": {"destructiveHint": True},
        "ticket_retrieve": {"readOnlyHint": True},
        "ticket_update": {"destructiveHint": True, "idempotentHint": True},
    }
    assert tools["ticket_close"].description == "Close a ticket that needs no more help."
    assert str(tools["ticket_list"].description).splitlines() == [
        "List the tickets.",
        "",
        "Tickets: staff has all of them, an agent those without or with this assignee.",
    ]
    assert tools["ticket_list"].source.startswith("tests.rest.api:")


def test_input_schema_is_that_of_the_serializer(server: Server) -> None:
    schema = schema_of(server, "ticket_create")

    properties = schema["properties"]
    assert schema["required"] == ["customer", "subject", "description"]
    assert schema["additionalProperties"] is False
    assert sorted(properties) == [
        "comments",
        "customer",
        "description",
        "notify",
        "priority",
        "status",
        "subject",
    ]
    assert properties["customer"] == {"type": "integer"}
    assert properties["subject"] == {"type": "string", "minLength": 1, "maxLength": 200}
    assert properties["priority"]["enum"] == ["low", "normal", "high", "urgent"]
    assert properties["notify"] == {"type": "boolean", "default": False}
    assert properties["comments"]["items"]["required"] == ["text"]
    assert "author" not in properties["comments"]["items"]["properties"]


def test_building_tools_leaves_no_context_variables() -> None:
    routes._routes_by_class.cache_clear()
    server = Server("other")
    rest_tools(TicketViewSet, server=server)
    before = len(copy_context())
    assert any(server.components.all())
    assert len(copy_context()) == before


def test_list_takes_filters_search_ordering_and_pages(server: Server) -> None:
    properties = schema_of(server, "ticket_list")["properties"]

    assert sorted(properties) == [
        "assignee__isnull",
        "created__gte",
        "created__lt",
        "cursor",
        "customer",
        "fields",
        "ordering",
        "page",
        "page_size",
        "search",
        "status",
        "status__in",
    ]
    assert properties["status"]["enum"] == ["open", "waiting", "closed"]
    assert properties["status__in"] == {"type": "array", "items": {"type": "string"}, "minItems": 1}
    assert properties["customer"]["type"] == "integer"
    assert "created, id" in properties["ordering"]["description"]


def test_partial_update_requires_nothing_and_has_no_defaults(server: Server) -> None:
    schema = schema_of(server, "ticket_partial_update")

    assert schema["required"] == ["id"]
    assert schema["properties"]["id"] == {
        "type": "integer",
        "description": "The key of the ticket",
    }
    assert "default" not in json.dumps(schema)


def test_extra_action_requires_no_field_of_the_view_set(server: Server) -> None:
    assert schema_of(server, "ticket_close")["required"] == ["id"]
    assert schema_of(server, "ticket_counts")["properties"] == {}


def test_output_schema_is_declared_where_it_is_certain(server: Server) -> None:
    tools: Any = server.components.of_kind("tool")
    schemas = {tool.name: tool.output_schema for tool in tools}

    page = schemas["ticket_list"]["properties"]
    assert page["results"]["items"]["properties"]["subject"] == {"type": ["string", "null"]}
    assert page["count"] == {"type": "integer"}
    assert schemas["customer_list"]["type"] == "array"
    assert schemas["ticket_retrieve"]["properties"]["customer_name"]["type"] == ["string", "null"]
    assert "notify" not in schemas["ticket_retrieve"]["properties"]
    assert schemas["ticket_close"] is None
    assert schemas["ticket_destroy"] is None


class KeyedSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    id = serializers.IntegerField()

    class Meta:
        model = Ticket
        fields = ("id", "subject")


def test_key_of_the_path_has_its_own_name_beside_a_key_in_the_body() -> None:
    keyed = Server("keyed")
    option = {"partial_update": {"serializer": KeyedSerializer}}
    rest_tools(TicketViewSet, ["partial_update"], options=option, server=keyed)

    schema = schema_of(keyed, "ticket_partial_update")
    assert schema["required"] == ["pk"]
    assert {"id", "subject"} < schema["properties"].keys()
