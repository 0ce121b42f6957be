"""Which methods and URLs of a view are tools, and the names of these."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.urls import include, path, re_path
from django.urls.converters import REGISTERED_CONVERTERS, get_converters
from rest_framework import serializers, views, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from django_mcp import Server, checks, registry
from django_mcp.openapi import availability
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Comment
from tests.rest import urls


class ReplySerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Comment
        fields = ("id", "text")


class Replies(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Comment.objects.order_by("id")
    serializer_class = ReplySerializer

    @action(detail=True, methods=["put"])
    def pin(self, request: Any, **kwargs: Any) -> Response:
        return Response({"pinned": kwargs})

    @action(detail=False)
    def statistics(self, request: Any) -> Response:
        return Response({"replies": 0})


class Growing(Replies):
    http_method_names = ["get", "post"]


class Replacing(Replies):
    http_method_names = ["get", "put"]


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a router with one view set, or these patterns."""

    def routed(view: Any, *patterns: Any) -> SimpleRouter:
        router = SimpleRouter()
        router.register("replies", view, basename="reply")
        monkeypatch.setattr(urls, "urlpatterns", [*patterns, path("r/", include(router.urls))])
        return router

    return routed


def names(server: Server) -> set[str]:
    return {tool.name for tool in server.components.of_kind("tool")}


@pytest.mark.django_db
def test_action_of_put_is_a_tool(routed: Any, server: Server) -> None:
    rest_tools(routed(Replies), read_only=False, server=server)

    with SyncClient(server) as client:
        assert client.call_tool("reply_pin", {"id": 3}).structured == {"pinned": {"pk": "3"}}
    assert "reply_partial_update" in names(server)
    assert "reply_update" not in names(server)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (Growing, {"reply_list", "reply_retrieve", "reply_create", "reply_statistics"}),
        (
            Replacing,
            {"reply_list", "reply_retrieve", "reply_update", "reply_pin", "reply_statistics"},
        ),
    ],
)
def test_method_that_the_view_forbids_is_no_tool(
    routed: Any, server: Server, view: Any, expected: set[str]
) -> None:
    rest_tools(routed(view), read_only=False, server=server)
    assert names(server) == expected


def test_named_action_that_the_view_forbids_is_explained(routed: Any, server: Server) -> None:
    routed(Growing)
    rest_tools(Growing, ["list", "destroy"], server=server)

    assert names(server) == {"growing_list"}
    (reason,) = availability.missing(server).values()
    assert "Growing.destroy cannot be called: http_method_names" in reason


@pytest.mark.django_db
def test_view_at_two_urls_is_called_at_the_first_unless_another_is_chosen(
    routed: Any, server: Server
) -> None:
    by_team = path("teams/<slug:team>/", include(routed(Replies).urls))
    router = routed(Replies, by_team)
    other = Server("other")
    rest_tools(router, actions=["pin"], server=server)
    rest_tools(router, actions=["pin"], prefix={"reply_*": "r/"}, server=other)

    with SyncClient(server) as client:
        pinned = client.call_tool("reply_pin", {"id": 3, "team": "a"})
    assert pinned.structured == {"pinned": {"team": "a", "pk": "3"}}
    with SyncClient(other) as client:
        assert client.call_tool("reply_pin", {"id": 3}).structured == {"pinned": {"pk": "3"}}


def test_prefix_of_no_tool_and_of_no_url_is_explained(routed: Any, server: Server) -> None:
    router = routed(Replies)
    rest_tools(router, prefix={"order_*": "r/"}, server=server)
    other = Server("other")
    rest_tools(Replies, ["retrieve"], prefix="x/", server=other)

    assert names(server) == {"reply_list", "reply_retrieve", "reply_statistics"}
    assert names(other) == set()
    (of_router,) = availability.missing(server).values()
    assert "'order_*' is none of the operations" in of_router
    (of_view,) = availability.missing(other).values()
    assert "no URL below x/: its URLs are r/replies/<pk>/" in of_view


def test_variable_twice_in_a_url_is_explained(routed: Any, server: Server) -> None:
    router = routed(Replies)
    routed(Growing, re_path(r"^teams/(?P<pk>[0-9]+)/", include(router.urls)))
    rest_tools(router, include=["*_retrieve", "*_list"], server=server)

    assert names(server) == {"reply_list"}
    (reason,) = availability.missing(server).values()
    assert "has the argument 'pk' twice" in reason
    assert "teams/<pk>/replies/<pk>/" in reason


class DayConverter:
    """As the documentation of Django has it: the view takes another type."""

    regex = "[0-9]{4}-[0-9]{2}-[0-9]{2}"

    def to_python(self, value: str) -> date:
        return date.fromisoformat(value)

    def to_url(self, value: date) -> str:
        return value.isoformat()


@pytest.mark.django_db
def test_argument_of_a_path_is_read_by_its_converter(
    routed: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTERED_CONVERTERS, "day", DayConverter())
    cached: Any = get_converters
    cached.cache_clear()
    by_day = path("days/<day:day>/", include(routed(Replies).urls))
    router = routed(Replies, by_day)
    rest_tools(router, actions=["pin"], server=server)
    cached.cache_clear()

    with SyncClient(server) as client:
        pinned = client.call_tool("reply_pin", {"id": 3, "day": "2026-05-01"})
        assert pinned.structured == {"pinned": {"day": "2026-05-01", "pk": "3"}}
        for day in ("2026-02-30", "today"):
            result = client.call_tool("reply_pin", {"id": 3, "day": day})
            result.assert_error("Not found")


@pytest.mark.django_db
def test_key_of_a_parent_is_sent_as_it_was_read(routed: Any, server: Server) -> None:
    router = routed(Replies)
    routed(Growing, re_path(r"^teams/(?P<team_pk>[^/.]+)/", include(router.urls)))
    rest_tools(router, actions=["pin"], server=server)

    with SyncClient(server) as client:
        for key in (7, "7"):
            pinned = client.call_tool("reply_pin", {"id": 3, "team_pk": key})
            assert pinned.structured == {"pinned": {"team_pk": "7", "pk": "3"}}


def test_description_does_not_take_a_noun_for_a_verb(routed: Any, server: Server) -> None:
    rest_tools(routed(Replies), read_only=False, server=server)

    tools: Any = {tool.name: tool.description for tool in server.components.of_kind("tool")}
    assert tools["reply_statistics"] == "Read “statistics” of the comments."
    assert tools["reply_pin"] == "Run “pin” of one of the comments."


# Answers that are credentials.


class KeySerializer(serializers.Serializer):  # type: ignore[misc]
    primary_key = serializers.CharField()
    password = serializers.CharField(write_only=True)
    api_key = serializers.CharField()


class Accounts(Replies):
    serializer_class = KeySerializer
    http_method_names = ["get"]


class Devices(Replies):
    @action(detail=True, methods=["post"])
    def create_access_token(self, request: Any, **kwargs: Any) -> Response:
        return Response({})


class PasswordView(views.APIView):  # type: ignore[misc]
    def get(self, request: Any) -> Response:
        return Response({})


def found(server: Server, id: str) -> list[CheckMessage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.registered, "servers", {server.name: server})
        return [each for each in run_checks(tags=[checks.TAG]) if each.id == id]


def test_check_names_tools_that_may_answer_with_credentials(routed: Any, server: Server) -> None:
    patterns = [
        path("accounts/", Accounts.as_view({"get": "list"})),
        path("password/", PasswordView.as_view()),
    ]
    router = routed(Devices, *patterns)
    rest_tools(patterns, server=server)
    rest_tools(router, read_only=False, server=server)

    (message,) = found(server, "django_mcp_openapi.W004")
    module = "tests.rest.test_routes_of_views"
    assert message.msg == (
        "By their names, these tools may answer with credentials: "
        f"{module}.Accounts.list ('api_key'), {module}.PasswordView.get ('password'), "
        f"{module}.Devices.create_access_token ('create_access_token'). The model, its host and "
        "their logs would have them."
    )


def test_check_is_silent_about_other_tools(routed: Any, server: Server) -> None:
    rest_tools(routed(Replies), read_only=False, server=server)
    assert found(server, "django_mcp_openapi.W004") == []


def test_one_cause_is_one_message_for_all_servers(routed: Any) -> None:
    routed(Replies, path("password/", PasswordView.as_view()))
    servers = {name: Server(name) for name in ("one", "two")}
    for server in servers.values():
        rest_tools(Growing, server=server)
        rest_tool(PasswordView, server=server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.registered, "servers", servers)
        messages = [
            it for it in run_checks(tags=[checks.TAG]) if it.id == "django_mcp_openapi.W001"
        ]

    (message,) = messages
    assert message.msg.startswith("The MCP servers 'one', 'two' lack a tool: ")
    assert message.msg.endswith(
        "The same holds for tests.rest.test_routes_of_views.Growing.retrieve."
    )
