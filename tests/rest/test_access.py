"""Tools that are hidden from callers whom their view refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from rest_framework import permissions

from django_mcp import Server, registry
from django_mcp.checks import authentication
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.testing import ErrorResponse, SyncClient
from example_site.helpdesk.models import Ticket
from tests.rest import api
from tests.rest.conftest import Users

READING = {"ticket_list", "ticket_retrieve"}
WRITING = {"ticket_create", "ticket_partial_update", "ticket_destroy"}


class OwnTicketsOnly(permissions.BasePermission):  # type: ignore[misc]
    """Needs an argument of the URL, which only the call has."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return Ticket.objects.filter(pk=view.kwargs.get("pk"), assignee=request.user).exists()


class ReadersAndObjects(permissions.DjangoObjectPermissions):  # type: ignore[misc]
    """Reads the method, and the data of a request only where it decides about an object."""

    def has_permission(self, request: Any, view: Any) -> bool:
        if request.method == "GET":
            return bool(request.user.has_perm("helpdesk.change_ticket"))
        return bool(super().has_permission(request, view))

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        return bool(request.data) or request.method in ("GET", "POST")


@pytest.fixture
def shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names that a caller sees, with these permission classes of the view."""

    def shown(user: Any, *classes: Any) -> set[str]:
        monkeypatch.setattr(api.TicketViewSet, "permission_classes", classes)
        if not server.components.has_deferred and not any(server.components.registered()):
            actions = sorted(name.removeprefix("ticket_") for name in READING | WRITING)
            rest_tools(api.TicketViewSet, actions, server=server)
        with SyncClient(server, user=user) as client:
            return {tool["name"] for tool in client.list_tools()}

    return shown


def test_tools_are_those_that_the_permission_classes_admit(shown: Any, users: Users) -> None:
    view_ticket = Permission.objects.get(
        codename="change_ticket", content_type__app_label="helpdesk"
    )
    users.agent.user_permissions.add(view_ticket)

    allowed = (permissions.DjangoModelPermissions,)
    assert shown(users.agent, *allowed) == READING | {"ticket_partial_update"}
    assert shown(users.other, *allowed) == READING
    assert shown(users.staff, permissions.IsAdminUser) == READING | WRITING
    assert shown(users.agent, permissions.IsAdminUser) == set()


def test_code_that_decides_about_objects_does_not_keep_a_tool_in_the_list(
    shown: Any, users: Users
) -> None:
    users.agent.user_permissions.add(
        Permission.objects.get(codename="change_ticket", content_type__app_label="helpdesk")
    )

    assert shown(users.other, ReadersAndObjects) == set()
    assert shown(users.agent, ReadersAndObjects) == READING | {"ticket_partial_update"}


def test_permissions_by_action_are_asked_before_a_call(
    shown: Any, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_permissions(view: Any) -> list[Any]:
        """Read an attribute with the name of a function of this module, which is not called."""
        if view.action == "list":
            return [permissions.IsAuthenticated()]
        return [permissions.IsAdminUser()]

    monkeypatch.setattr(api.TicketViewSet, "get_permissions", get_permissions)

    assert shown(users.agent) == {"ticket_list"}
    assert shown(users.staff) == READING | WRITING


def action(view: Any) -> Any:
    return view.kwargs


def test_anonymous_caller_sees_what_a_login_opens(shown: Any, server: Server, db: None) -> None:
    assert shown(None, permissions.IsAuthenticated) == READING | WRITING
    with SyncClient(server) as client, pytest.raises(ErrorResponse, match="Authentication"):
        client.call_tool("ticket_list")


def test_hidden_tool_is_answered_as_an_unknown_one(
    shown: Any, server: Server, users: Users
) -> None:
    assert shown(users.other, permissions.IsAdminUser) == set()
    unknown = pytest.raises(ErrorResponse, match="Unknown tool: ticket_list")
    with SyncClient(server, user=users.other) as client, unknown:
        client.call_tool("ticket_list")


def test_class_that_needs_the_arguments_decides_at_the_call(
    shown: Any, server: Server, users: Users, tickets: list[Ticket]
) -> None:
    assert shown(users.agent, OwnTicketsOnly) == READING | WRITING
    with SyncClient(server, user=users.agent) as client:
        own = client.call_tool("ticket_retrieve", {"id": tickets[0].pk})
        other = client.call_tool("ticket_retrieve", {"id": tickets[1].pk})
    assert own.structured["subject"] == "Printer"
    assert other.text.startswith("Permission denied.")


def test_one_tool_is_shown_where_one_of_its_actions_is_admitted(
    server: Server, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        api.TicketViewSet, "permission_classes", (permissions.DjangoModelPermissions,)
    )
    rest_tools(api.TicketViewSet, ["list", "destroy"], one_tool_per_view=True, server=server)
    rest_tools(
        api.CustomerViewSet,
        one_tool_per_view=True,
        options={"list": {"permission": "auth.view_user"}},
        server=server,
    )
    with SyncClient(server, user=users.other) as client:
        names = [tool["name"] for tool in client.list_tools()]
        assert names == ["customer", "ticket"]
        refused = client.call_tool("ticket", {"action": "destroy", "id": 1})
        assert refused.text.startswith("Permission denied.")
        wrong = client.call_tool("customer", {"action": "list"})
        assert wrong.is_error


class OnTuesdays(permissions.BasePermission):  # type: ignore[misc]
    def has_permission(self, request: Any, view: Any) -> bool:
        return True


def test_check_of_public_writes_names_those_whose_view_admits_everybody(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.Caller, "permission_classes", (OnTuesdays,))
    monkeypatch.setattr(
        api.TicketViewSet, "permission_classes", (permissions.DjangoModelPermissionsOrAnonReadOnly,)
    )
    rest_tool(api.Caller, "post", serializer=None, server=server)
    rest_tools(api.TicketViewSet, ["create", "destroy"], server=server)
    rest_tools(
        api.TicketViewSet, ["create"], one_tool_per_view=True, server=server, read_only=False
    )
    monkeypatch.setattr(registry.registered, "servers", {"api": server})
    any(server.components.all())

    (message,) = authentication.public_writes()
    assert message.msg.endswith("caller_post.")
    assert "ticket" not in message.msg
