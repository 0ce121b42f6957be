"""Answers of REST tools: of a write what it changed, of rows what the caller asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from rest_framework import serializers, viewsets

from django_mcp import ConfigurationError, Server
from django_mcp.core.components.tool import ToolComponent
from django_mcp.openapi.calls import responses
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.testing import CallResult, SyncClient
from example_site.helpdesk import demo
from example_site.helpdesk.api import TicketViewSet
from example_site.helpdesk.models import Customer, Ticket
from tests.docs.examples import ROOT
from tests.rest import api

PAGE = ROOT / "docs" / "how-to" / "rest-framework.md"
FIELDS = ["id", "subject", "status"]
ACTIONS = ["list", "create", "partial_update", "reopen"]
OPTIONS: Any = {"reopen": {"serializer": None}}


@pytest.fixture
def staff(db: None, settings: Any) -> User:
    """The staff of a helpdesk with 200 tickets."""
    settings.ROOT_URLCONF = "example_site.urls"
    agents = [User.objects.create(username=name) for name in ("ada", "bob")]
    demo.create(agents)
    return User.objects.create(username="staff", is_staff=True, is_superuser=True)


def tools_of(answer: Any) -> Server:
    name = "full" if answer == "full" else "short"
    server = Server(name, authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    rest_tools(TicketViewSet, ACTIONS, answer=answer, options=OPTIONS, server=server)
    return server


@pytest.fixture
def clients(staff: User) -> Iterator[tuple[SyncClient, SyncClient]]:
    """Clients of the same tools: with the whole object, and with what changed."""
    of_all = SyncClient(tools_of("full"), user=staff)
    of_changes = SyncClient(tools_of(None), user=staff)
    with of_all as full, of_changes as short:
        yield full, short


def tokens(result: CallResult) -> int:
    """What a model reads of a result: four characters are about a token."""
    return len(result.text) // 4


def longest_ticket() -> Ticket:
    """A ticket with all comments that one may have."""
    tickets = Ticket.objects.order_by("pk")
    return max(tickets, key=lambda ticket: (ticket.comments.count(), -ticket.pk))


@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_page_shows_the_tokens_of_the_helpdesk(clients: tuple[SyncClient, SyncClient]) -> None:
    full, short = clients
    whole = tokens(full.call_tool("ticket_list"))
    named = tokens(short.call_tool("ticket_list", {"fields": FIELDS}))

    assert f"take {named:,} tokens instead of {whole:,}." in PAGE.read_text()


@pytest.mark.django_db(transaction=True)
def test_write_is_answered_with_a_tenth_of_the_tokens_of_the_object(
    clients: tuple[SyncClient, SyncClient],
) -> None:
    full, short = clients
    change = {"id": longest_ticket().pk, "priority": "urgent"}
    whole = tokens(full.call_tool("ticket_partial_update", change))
    changed = tokens(short.call_tool("ticket_partial_update", change))

    assert 0 < changed < whole / 10


@pytest.mark.django_db(transaction=True)
def test_write_answers_with_the_key_and_what_was_sent(
    clients: tuple[SyncClient, SyncClient], staff: User
) -> None:
    full, short = clients
    ticket = Ticket.objects.order_by("pk")[0]
    browser = Browser()
    browser.force_login(staff)
    row = browser.get(f"/api/tickets/{ticket.pk}/").json()

    changed = {"id": ticket.pk, "subject": "Till"}
    assert short.call_tool("ticket_partial_update", changed).structured == changed
    assert full.call_tool("ticket_partial_update", changed).structured == {**row, **changed}

    new = {"customer": ticket.customer_id, "subject": "Till", "description": "Open?"}
    made = short.call_tool("ticket_create", new).structured
    assert made == {"id": Ticket.objects.latest("pk").pk, **new}


@pytest.mark.django_db(transaction=True)
def test_action_without_data_answers_in_full(clients: tuple[SyncClient, SyncClient]) -> None:
    _, short = clients
    ticket = Ticket.objects.filter(status="closed")[0]
    answer = short.call_tool("ticket_reopen", {"id": ticket.pk})
    assert answer.structured.keys() == {*TicketViewSet.serializer_class.Meta.fields}


@pytest.mark.django_db(transaction=True)
def test_errors_of_a_write_are_whole(clients: tuple[SyncClient, SyncClient]) -> None:
    full, short = clients
    for client in clients:
        result = client.call_tool("ticket_create", {"customer": 0, "subject": "A"})
        assert result.is_error
        assert result.text == full.call_tool("ticket_create", {"customer": 0, "subject": "A"}).text


@pytest.mark.django_db(transaction=True)
def test_rows_have_the_members_that_are_asked_for(
    clients: tuple[SyncClient, SyncClient],
) -> None:
    _, short = clients
    whole = short.call_tool("ticket_list").structured
    page = short.call_tool("ticket_list", {"fields": FIELDS}).structured
    rows = [{name: row[name] for name in FIELDS} for row in whole["results"]]
    assert page == {**whole, "results": rows}
    wrong = short.call_tool("ticket_list", {"fields": ["subjekt"]})
    assert wrong.text == "fields: rows have no 'subjekt'; did you mean 'subject'?"


@pytest.mark.django_db(transaction=True)
def test_one_tool_of_several_actions_shortens_as_each_does(staff: User) -> None:
    server = Server("one", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])
    rest_tools(
        TicketViewSet,
        ["list", "create", "partial_update"],
        one_tool_per_view=True,
        options={"create": {"answer": "full"}},
        server=server,
    )
    ticket = Ticket.objects.order_by("pk")[0]
    new = {"customer": ticket.customer_id, "subject": "Till", "description": "Open?"}
    with SyncClient(server, user=staff) as client:
        (tool,) = client.list_tools()
        change = {"id": ticket.pk, "subject": "Till"}
        changed = client.call_tool("ticket", {"action": "partial_update", **change})
        made = client.call_tool("ticket", {"action": "create", **new})
        rows = client.call_tool("ticket", {"action": "list", "fields": FIELDS})
    assert "fields" in tool["inputSchema"]["properties"]
    assert changed.structured == change
    assert made.structured["comments"] == []
    assert list(rows.structured["results"][0]) == FIELDS


class Slugs(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Customer
        fields = ("name", "city", "email")
        read_only_fields = ("name",)


class BySlug(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Customer.objects.order_by("id")
    serializer_class = Slugs
    lookup_field = "name"


class Calculated(viewsets.ViewSet):  # type: ignore[misc]
    """Calculates, so that its answer is no object that was saved."""

    serializer_class = Slugs

    def create(self, request: Any) -> Any:
        from rest_framework.response import Response

        return Response({"id": 1, **request.data, "total": 8})


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Any:
    """Serve a view set below ``more/``."""
    from django.urls import include, path
    from rest_framework.routers import SimpleRouter

    from tests.rest import urls

    def serve(viewset: Any) -> Any:
        router = SimpleRouter()
        router.register("more", viewset, basename="more")
        monkeypatch.setattr(urls, "urlpatterns", [path("more/", include(router.urls))])
        return viewset

    return serve


@pytest.mark.django_db(transaction=True)
def test_key_is_the_field_that_the_view_looks_up(routed: Any, server: Server) -> None:
    rest_tools(routed(BySlug), ["partial_update"], server=server)
    Customer.objects.create(name="acme", city="Rome", email="a@acme.example")
    with SyncClient(server) as client:
        changed = client.call_tool("by_slug_partial_update", {"name": "acme", "city": "Bern"})
    assert changed.structured == {"name": "acme", "city": "Bern"}


@pytest.mark.parametrize(("answer", "keys"), [(None, 3), ("changed", 2), ("full", 3)])
def test_post_without_status_201_is_shortened_where_the_author_says_so(
    routed: Any, server: Server, answer: Any, keys: int
) -> None:
    options: Any = {"create": {"serializer": Names, "answer": answer}}
    rest_tools(routed(Calculated), ["create"], options=options, server=server)
    with SyncClient(server) as client:
        result = client.call_tool("calculated_create", {"name": "acme"})
    assert len(result.structured) == keys


class Names(serializers.Serializer):  # type: ignore[misc]
    name = serializers.CharField()


@pytest.mark.parametrize("declare", [rest_tools, rest_tool])
def test_unknown_answer_is_refused(server: Server, declare: Any) -> None:
    with pytest.raises(ConfigurationError, match="'ful': did you mean 'full'"):
        declare(api.TicketViewSet, answer="ful", server=server)


def test_own_parameter_of_a_view_is_kept(server: Server, settings: Any) -> None:
    own = {"fields": {"type": "string", "description": "Of the view"}}
    rest_tools(api.TicketViewSet, ["list"], options={"list": {"query": own}}, server=server)
    component = server.components.find("tool", "ticket_list")
    assert isinstance(component, ToolComponent)
    assert component.input_schema["properties"]["fields"]["description"] == "Of the view"
    assert "Members of rows" not in json.dumps(component.input_schema)


def test_streamed_response_is_put_together_once() -> None:
    class Part(bytes):
        """It counts the bytes that a concatenation of the parts before it copies."""

        copied = 0

        def __radd__(self, before: bytes) -> bytes:
            Part.copied += len(before)
            return bytes(before) + bytes(self)

    parts = [Part(b"ab") for _ in range(100)]
    assert responses.bounded(parts, 200) == b"ab" * 100
    assert Part.copied == 0
    with pytest.raises(responses.TooLarge):
        responses.bounded(parts, 199)
