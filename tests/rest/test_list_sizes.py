"""Tokens of the first list of sites with 65 and 765 tools, and for whom it is smaller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import include, path
from django_filters import rest_framework as filters
from rest_framework import permissions, serializers, viewsets
from rest_framework.routers import SimpleRouter

from django_mcp import Server
from django_mcp.rest import rest_tools
from django_mcp.testing import SyncClient
from example_site.helpdesk.models import Ticket
from tests.rest import urls
from tests.rest.conftest import Users

ACTIONS = 5
"""Tools of each view set: list, retrieve, create, update, destroy."""
VISIBLE = range(4)
"""The numbers of the views that an agent may read."""
TEXTS = ("subject", "description", "status")
LOOKUPS = ("ic", "nic", "ie", "nie", "iew", "niew", "isw", "nisw", "n", "empty")
TOKENS_OF_SEARCH = 400
TOKENS_OF_FOUR_MODELS = 1_400


class ReadsSomeViews(permissions.BasePermission):  # type: ignore[misc]
    def has_permission(self, request: Any, view: Any) -> bool:
        is_visible = view.number in VISIBLE and request.method in permissions.SAFE_METHODS
        return bool(request.user.is_staff or is_visible)


class Filters(filters.FilterSet):  # type: ignore[misc]
    """Ten lookups of each field, as NetBox generates them."""

    vars().update(
        {f"{name}__{each}": filters.CharFilter(method="skip") for name in TEXTS for each in LOOKUPS}
    )

    def skip(self, queryset: Any, name: str, value: str) -> Any:
        return queryset


class TicketSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    class Meta:
        model = Ticket
        fields = ("id", *TEXTS, "priority", "customer", "assignee", "created")


class Rows(viewsets.ModelViewSet):  # type: ignore[misc]
    queryset = Ticket.objects.order_by("id")
    serializer_class = TicketSerializer
    permission_classes = (ReadsSomeViews,)
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = Filters
    number: int


def site_of(views: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Server:
    """Return a server of all actions of many view sets; the first eight are a group."""
    routers = {"stock": SimpleRouter(), "sales": SimpleRouter()}
    for number in range(views):
        kind: Any = type(f"Row{number}ViewSet", (Rows,), {"number": number})
        group = "stock" if number < 8 else "sales"
        routers[group].register(f"row{number}s", kind, basename=f"row{number}")
    patterns = [path("", include(router.urls)) for router in routers.values()]
    monkeypatch.setattr(urls, "urlpatterns", patterns)
    server = Server(
        "rows", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"], **options
    )
    for group, router in routers.items():
        rest_tools(router, read_only=False, server=server, group=group)
    assert any(server.components.all())  # Built here, and not while a client waits.
    return server


def first_list(server: Server, user: User, query: str = "") -> tuple[int, int]:
    """Return the number of the listed tools and their tokens, as ``mcp_show`` counts them."""
    with SyncClient(server, user=user, transport="http", query=query) as client:
        tools = client.list_tools()
    size = sum(len(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in tools)
    return len(tools), size // 4


@pytest.mark.parametrize("views", [13, 153])
@pytest.mark.django_db(transaction=True)
def test_first_list_has_only_what_a_connection_selects(
    views: int, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = site_of(views, monkeypatch)
    tools, tokens = first_list(server, users.staff)
    assert tools == views * ACTIONS
    assert tokens < tools * 320  # About 1,100 of each list would be its thirty filters.

    of_reading, tokens_of_reading = first_list(server, users.staff, "read_only=1")
    of_group, tokens_of_group = first_list(server, users.staff, "groups=stock")
    assert of_reading == 2 * views
    assert of_group == 8 * ACTIONS
    assert tokens_of_reading < 0.6 * tokens
    assert tokens_of_group < 9 / views * tokens


@pytest.mark.parametrize("views", [13, 153])
@pytest.mark.django_db(transaction=True)
def test_first_list_of_who_may_read_four_models_is_as_small_on_a_large_site(
    views: int, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, tokens = first_list(site_of(views, monkeypatch), users.agent)
    assert tools == 2 * len(VISIBLE)
    assert tokens <= TOKENS_OF_FOUR_MODELS


@pytest.mark.parametrize("views", [13, 153])
@pytest.mark.django_db(transaction=True)
def test_first_list_of_a_server_with_search_has_two_tools(
    views: int, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, tokens = first_list(site_of(views, monkeypatch, tool_search=True), users.staff)
    assert tools == 2
    assert tokens <= TOKENS_OF_SEARCH
