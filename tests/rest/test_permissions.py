"""Permission classes of REST framework as the permission of a component."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import Http404
from pytest_django import Settings
from rest_framework import permissions

from django_mcp import Server, registry
from django_mcp.testing import ErrorResponse, SyncClient

pytestmark = pytest.mark.django_db
seen: list[dict[str, Any]] = []


class IsStaff(permissions.BasePermission):  # type: ignore[misc]
    def has_permission(self, request: Any, view: Any) -> bool:
        seen.append(
            {
                "method": request.method,
                "user": request.user,
                "action": view.action,
                "kwargs": view.kwargs,
                "tenant": request.mcp_frame.assigns.get("tenant"),
            }
        )
        return bool(request.user.is_staff)


class NeedsQuerySet(permissions.DjangoModelPermissions):  # type: ignore[misc]
    pass


class TokenMayWrite(permissions.BasePermission):  # type: ignore[misc]
    """Refuses tokens that may not write, and lets everybody else in."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return not isinstance(request.auth, str) or request.auth == "may write"


class Refuses(permissions.BasePermission):  # type: ignore[misc]
    def has_permission(self, request: Any, view: Any) -> bool:
        raise Http404


@pytest.fixture(autouse=True)
def _no_declaration(settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": None}


@pytest.fixture
def staff() -> User:
    return User.objects.create_user("ann", is_staff=True)


@pytest.fixture
def user() -> User:
    return User.objects.create_user("bob")


def guarded(permission: Any, **options: Any) -> Server:
    server = Server("desk", notify_lists_on_initialize=False)
    server.tool(name="it", permission=permission, **options)(lambda: "done")
    return server


def is_allowed(server: Server, user: Any) -> bool:
    with SyncClient(server, user=user) as client:
        if not client.list_tools():
            with pytest.raises(ErrorResponse, match="Unknown tool"):
                client.call_tool("it")
            return False
        return client.call_tool("it").text == "done"


@pytest.mark.parametrize(
    ("permission", "expected"),
    [
        (permissions.AllowAny, (True, True, True)),
        (permissions.IsAuthenticated, (False, True, True)),
        (permissions.IsAdminUser, (False, False, True)),
        (IsStaff(), (False, False, True)),
        (permissions.IsAuthenticated & ~permissions.IsAdminUser, (False, True, False)),
        (permissions.IsAdminUser | permissions.AllowAny, (True, True, True)),
        (permissions.IsAuthenticatedOrReadOnly, (False, True, True)),
        (Refuses, (False, False, False)),
    ],
)
def test_permission_class_decides_who_sees_and_calls_a_tool(
    permission: Any, expected: tuple[bool, ...], user: User, staff: User
) -> None:
    server = guarded(permission)
    assert tuple(is_allowed(server, caller) for caller in (None, user, staff)) == expected


def test_what_changes_nothing_is_asked_for_as_get() -> None:
    assert is_allowed(guarded(permissions.IsAuthenticatedOrReadOnly, read_only=True), None)


def test_class_gets_a_request_and_a_view_of_the_component(staff: User) -> None:
    seen.clear()
    assert is_allowed(guarded(IsStaff), staff)
    assert seen[0] == {
        "method": "POST",
        "user": staff,
        "action": "it",
        "kwargs": {},
        "tenant": None,
    }


def test_class_that_needs_a_query_set_hides_the_component_and_is_logged(
    staff: User, caplog: pytest.LogCaptureFixture
) -> None:
    assert not is_allowed(guarded(NeedsQuerySet), staff)
    assert "The permission of the tool 'it' failed: it is hidden" in caplog.text


def test_class_that_reads_the_token_refuses_callers_without_a_token_of_the_api(
    staff: User,
) -> None:
    assert not is_allowed(guarded(TokenMayWrite), staff)


def test_declaration_of_the_site_is_what_a_class_reads(staff: User, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": "django_mcp.rest.without_token"}
    assert is_allowed(guarded(TokenMayWrite), staff)


def test_class_is_named_in_the_list_of_components() -> None:
    server = guarded(permissions.IsAuthenticated)
    assert [entry.permission for entry in registry.entries(server)] == ["IsAuthenticated"]
