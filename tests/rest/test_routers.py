"""Routers and lists of URL patterns, all views of which become tools by one line."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import include, path
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.routers import APIRootView, DefaultRouter, SimpleRouter

from django_mcp import Server
from django_mcp.openapi import availability
from django_mcp.rest import rest_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment, Ticket
from tests.rest import api, urls
from tests.rest.conftest import Call, Users

WRITING = {"ticket_create", "ticket_partial_update", "ticket_destroy", "ticket_close"}
READING = {"ticket_list", "ticket_retrieve", "ticket_counts"}


class SavedReply(Comment):
    class Meta:
        app_label = "tests_of_routers"
        proxy = True


class ReplySerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = SavedReply
        fields = ("id", "text")


class ReplyViewSet(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = SavedReply.objects.order_by("id")
    serializer_class = ReplySerializer


class PagesAPIViewSet(viewsets.GenericViewSet):  # type: ignore[misc]
    """A view set whose routes are written by hand."""

    queryset = Ticket.objects.order_by("id")
    serializer_class = api.TicketSerializer

    def listing_view(self, request: Any) -> Response:
        return Response({"subjects": [ticket.subject for ticket in self.get_queryset()]})

    def detail_view(self, request: Any, pk: int) -> Response:
        return Response({"subject": self.get_object().subject})


class OwnRouter:
    """A router that is none of REST framework, and makes its patterns anew each time."""

    @property
    def urls(self) -> Any:
        of_list = path("", PagesAPIViewSet.as_view({"get": "listing_view"}))
        of_one = path("<int:pk>/", PagesAPIViewSet.as_view({"get": "detail_view"}))
        return [of_list, of_one], "pages", "pages"


class OwnRootView(APIRootView):  # type: ignore[misc]
    """The index of the API, with a name of its own."""


class BulkReplyViewSet(ReplyViewSet):
    def bulk_update(self, request: Any) -> Response:
        return Response({"updated": "all"})

    def bulk_partial_update(self, request: Any) -> Response:
        return Response({"updated": "some"})


class NotesViewSet(ReplyViewSet):
    @action(detail=True, methods=["post", "get", "delete"])
    def notes(self, request: Any, pk: int) -> Response:
        return Response({"method": request.method})


class BulkRouter(DefaultRouter):  # type: ignore[misc]
    """Maps further methods at the URL of the list."""

    APIRootView = OwnRootView
    routes: list[Any]

    def __init__(self) -> None:
        super().__init__()
        of_list = self.routes[0]
        bulk = {"put": "bulk_update", "patch": "bulk_partial_update"}
        self.routes = [of_list._replace(mapping={**of_list.mapping, **bulk}), *self.routes[1:]]


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, settings: Any) -> SimpleRouter:
    router = DefaultRouter()
    router.register("tickets", api.TicketViewSet)
    router.register("saved_replies", ReplyViewSet)
    monkeypatch.setattr(urls, "urlpatterns", [path("routed/", include(router.urls))])
    settings.ROOT_URLCONF = "tests.rest.urls"
    return router


def names(server: Server) -> set[str]:
    return {tool.name for tool in server.components.of_kind("tool")}


def test_router_offers_what_get_reads_under_names_from_basenames(
    server: Server, router: SimpleRouter
) -> None:
    rest_tools(router, server=server)

    assert names(server) == READING | {"saved_reply_list", "saved_reply_retrieve"}
    tools = server.components.of_kind("tool")
    assert all((tool.annotations or {})["readOnlyHint"] for tool in tools)


def test_whole_router_writes_by_partial_updates(server: Server, router: SimpleRouter) -> None:
    rest_tools(router, read_only=False, exclude=["saved_*"], server=server)

    assert names(server) == READING | WRITING
    update: Any = server.components.find("tool", "ticket_partial_update")
    assert update.input_schema["required"] == ["id"]


def test_router_of_the_site_has_one_tool_of_put_and_patch_and_none_of_its_index(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any, call: Call
) -> None:
    router = BulkRouter()
    router.register("replies", BulkReplyViewSet, basename="reply")
    monkeypatch.setattr(urls, "urlpatterns", [path("bulk/", include(router.urls))])
    rest_tools(router, read_only=False, exclude=["*_list", "*_retrieve"], server=server)

    bulk = {"reply_bulk_partial_update"}
    assert names(server) == {"reply_create", "reply_partial_update", "reply_destroy"} | bulk
    assert call("reply_bulk_partial_update")["structuredContent"] == {"updated": "some"}


def test_action_of_several_methods_is_a_tool_of_each(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: Any, call: Call
) -> None:
    router = SimpleRouter()
    router.register("replies", NotesViewSet, basename="reply")
    monkeypatch.setattr(urls, "urlpatterns", [path("notes/", include(router.urls))])
    rest_tools(router, read_only=False, include=["*_notes"], server=server)

    tools = {"reply_notes": "GET", "reply_create_notes": "POST", "reply_delete_notes": "DELETE"}
    assert names(server) == {*tools}
    for name, method in tools.items():
        assert call(name, id=1)["structuredContent"] == {"method": method}


def test_one_tool_has_an_action_for_each_method(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    router = SimpleRouter()
    router.register("replies", NotesViewSet, basename="reply")
    monkeypatch.setattr(urls, "urlpatterns", [path("notes/", include(router.urls))])
    rest_tools(router, read_only=False, one_tool_per_view=True, include=["*_notes"], server=server)

    tool: Any = server.components.find("tool", "replies")
    methods = {"notes": "GET", "create_notes": "POST", "delete_notes": "DELETE"}
    assert {*tool.input_schema["properties"]["action"]["enum"]} == {*methods}
    for name, method in methods.items():
        assert call("replies", action=name, id=1)["structuredContent"] == {"method": method}


def test_second_action_of_a_name_in_one_tool_is_reported(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: Call, tickets: list[Ticket]
) -> None:
    other: Any = type("TicketViewSet", (PagesAPIViewSet,), {"list": PagesAPIViewSet.listing_view})
    served = [
        path("tickets/", api.TicketViewSet.as_view({"get": "list"})),
        path("others/", other.as_view({"get": "list"})),
    ]
    monkeypatch.setattr(urls, "urlpatterns", served)
    for view_class in (api.TicketViewSet, other):
        rest_tools(view_class, ["list"], one_tool_per_view=True, server=server)

    assert names(server) == {"ticket"}
    (reason,) = availability.missing(server).values()
    assert "has another action 'list' already: leave one of them out, or declare it" in reason


def test_include_and_exclude_choose_by_name(server: Server, router: SimpleRouter) -> None:
    rest_tools(router, include=["*_list", "ticket_*"], exclude=["saved_*"], server=server)

    assert names(server) == {"ticket_list", "ticket_retrieve", "ticket_counts"}


def test_pattern_of_no_name_is_reported(server: Server, router: SimpleRouter) -> None:
    rest_tools(router, exclude=["nothing"], server=server)

    assert "ticket_list" in names(server)
    (reason,) = availability.missing(server).values()
    assert "'nothing' is none of the operations: there are saved_reply_c" in reason


def test_name_of_what_writes_is_reported(server: Server, router: SimpleRouter) -> None:
    rest_tools(router, include=["ticket_list", "ticket_create"], server=server)

    assert names(server) == {"ticket_list"}
    (reason,) = availability.missing(server).values()
    assert "'ticket_create' is none of the tools, because it writes: give read_only=" in reason


def test_writes_may_be_excluded_where_there_are_none(server: Server, router: SimpleRouter) -> None:
    rest_tools(router, exclude=["*_destroy"], server=server)

    assert "ticket_list" in names(server)
    assert availability.missing(server) == {}


def test_tools_of_a_router_answer_as_those_of_the_view_set(
    server: Server, router: SimpleRouter, call: Call, users: Users, tickets: list[Ticket]
) -> None:
    rest_tools(router, read_only=False, server=server)
    other = Server("other")
    rest_tools(api.TicketViewSet, server=other)

    rows = call("ticket_list", user=users.agent)["structuredContent"]["results"]
    with SyncClient(other, user=users.agent) as client:
        own = client.call_tool("ticket_list").structured["results"]
    assert [row["id"] for row in rows] == [row["id"] for row in own]
    closed = call("ticket_close", user=users.agent, id=tickets[0].pk)
    assert closed["structuredContent"] == {"status": "closed"}


def test_routes_written_by_hand_and_functions_are_tools(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: Call, tickets: list[Ticket]
) -> None:
    own_router = OwnRouter()
    patterns = [path("ping/<slug:name>/", api.ping)]
    served = [path("own/", own_router.urls), path("", include(patterns))]
    monkeypatch.setattr(urls, "urlpatterns", served)
    rest_tools(own_router, server=server)
    rest_tools(patterns, server=server)

    assert names(server) == {"page_listing", "page_detail", "ping"}
    assert call("page_detail", id=tickets[0].pk)["structuredContent"] == {"subject": "Printer"}
    assert call("ping", name="a")["structuredContent"] == {"pong": "a"}


def test_action_that_is_mapped_by_hand_can_be_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urls, "urlpatterns", [path("own/", OwnRouter().urls)])
    rest_tools(PagesAPIViewSet, ["listing_view"], server=server)

    assert names(server) == {"pages_listing_view"}


def test_versions_and_parents_are_chosen_by_prefix_and_kwargs(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: Call, tickets: list[Ticket]
) -> None:
    router = SimpleRouter()
    router.register("saved_replies", ReplyViewSet)
    served = [path(f"{version}/<slug:parent>/", include(router.urls)) for version in ("v1", "v2")]
    monkeypatch.setattr(urls, "urlpatterns", served)
    rest_tools(router, include=["*_list"], prefix="v2/", kwargs={"parent": "a"}, server=server)
    rest_tools(router, include=["*_retrieve"], prefix="v2/", server=server)
    rest_tools(router, actions=["create"], server=server)

    assert names(server) == {"saved_reply_list", "saved_reply_retrieve", "saved_reply_create"}
    assert call("saved_reply_list")["structuredContent"][0]["text"] == "On my way"
    retrieve: Any = server.components.find("tool", "saved_reply_retrieve")
    assert retrieve.input_schema["required"] == ["parent", "id"]
    create: Any = server.components.find("tool", "saved_reply_create")
    assert create.input_schema["required"] == ["parent", "text"]


def test_second_view_of_a_name_is_reported(server: Server, router: SimpleRouter) -> None:
    router.register("others", ReplyViewSet, basename="tickets")
    patterns = router.get_urls()
    urls.urlpatterns[:] = [path("routed/", include(patterns))]
    rest_tools(patterns, server=server)

    assert "ticket_list" in names(server)
    (reason,) = availability.missing(server).values()
    assert "several operations have these names: ticket_list (ReplyViewSet), ticket_" in reason


def test_one_tool_for_each_view_takes_an_action(
    server: Server, router: SimpleRouter, call: Call, users: Users, tickets: list[Ticket]
) -> None:
    rest_tools(router, read_only=False, one_tool_per_view=True, server=server)

    assert names(server) == {"tickets", "saved_replies"}
    tool: Any = server.components.find("tool", "tickets")
    actions = tool.input_schema["properties"]["action"]["enum"]
    assert {"list", "retrieve", "create", "partial_update", "close"} <= {*actions}
    assert tool.input_schema["required"] == ["action"]
    listed = call("tickets", user=users.agent, action="list", status="waiting")
    assert [row["subject"] for row in listed["structuredContent"]["results"]] == ["Scanner"]
    closed = call("tickets", user=users.agent, action="close", id=tickets[0].pk)
    assert closed["structuredContent"] == {"status": "closed"}


class StepSerializer(ReplySerializer):
    action = serializers.CharField(write_only=True)

    class Meta(ReplySerializer.Meta):
        fields = ("id", "text", "action")  # type: ignore[assignment]


class StepViewSet(ReplyViewSet):
    serializer_class = StepSerializer


def test_argument_that_would_choose_the_action_is_reported(
    server: Server, monkeypatch: pytest.MonkeyPatch, db: None
) -> None:
    router = SimpleRouter()
    router.register("steps", StepViewSet, basename="step")
    monkeypatch.setattr(urls, "urlpatterns", router.urls)
    rest_tools(
        router, actions=["list", "create"], read_only=False, one_tool_per_view=True, server=server
    )

    tool: Any = server.components.find("tool", "steps")
    assert tool.input_schema["properties"]["action"] == {"enum": ["list"]}
    (reason,) = availability.missing(server).values()
    assert "the action 'create' has an argument 'action' of its own" in reason


def test_action_validates_its_own_arguments(
    server: Server, router: SimpleRouter, call: Call, users: Users
) -> None:
    rest_tools(router, read_only=False, one_tool_per_view=True, server=server)

    result = call("tickets", user=users.agent, action="retrieve", search="printer")

    assert result["isError"]
    assert result.text.startswith("The arguments of the action 'retrieve' are invalid.")
    assert "id" in result.text
