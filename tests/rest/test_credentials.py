"""``request.auth`` of a view: the token that the site's own class has returned, or no call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client as Browser
from django.urls import path
from pytest_django import DjangoDbBlocker
from rest_framework import permissions, views
from rest_framework.authentication import TokenAuthentication
from rest_framework.response import Response

from django_mcp import Frame, Server, checks, registry
from django_mcp.auth.base import Principal
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication, RESTFrameworkPrincipal
from django_mcp.protocol.errors import ToolError
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.rest.calls import credentials
from django_mcp.testing import Client, ErrorResponse, SyncClient
from tests.installed_apps import installed
from tests.memory_stores import Configure, configure
from tests.rest import urls

__all__ = ["configure"]

WITHOUT_TOKEN = ["Permission denied.", credentials.WITHOUT_TOKEN]


@pytest.fixture(scope="module")
def token_model(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Any]:
    """The model of the tokens, with its table."""
    with installed("tests.rest.tokens"), django_db_blocker.unblock():
        from tests.rest.tokens.models import ApiToken

        with connection.schema_editor() as editor:
            editor.create_model(ApiToken)
        yield ApiToken
        with connection.schema_editor() as editor:
            editor.delete_model(ApiToken)


def is_token(auth: Any) -> bool:
    return type(auth).__name__ == "ApiToken"


class TokenPermissions(permissions.IsAuthenticated):  # type: ignore[misc]
    """A token that may only read does not write; a login by session may do everything."""

    def has_permission(self, request: Any, view: Any) -> bool:
        from tests.rest.tokens.models import ApiToken

        if isinstance(request.auth, ApiToken) and not self._may_write(request):
            return False
        return bool(super().has_permission(request, view))

    def _may_write(self, request: Any) -> bool:
        return request.method in permissions.SAFE_METHODS or request.auth.may_write


class TokenWritePermission(permissions.BasePermission):  # type: ignore[misc]
    """Only for tokens that may write."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return is_token(getattr(request, "auth", None)) and request.auth.may_write


class Notes(views.APIView):  # type: ignore[misc]
    permission_classes: tuple[Any, ...] = (TokenPermissions,)
    written: list[str] = []

    def post(self, request: Any) -> Response:
        self.written.append(request.user.username)
        return Response({"auth": type(request.auth).__name__})


class WritersNotes(Notes):
    permission_classes = (TokenWritePermission,)


class CombinedNotes(Notes):
    permission_classes = (
        permissions.IsAdminUser | (permissions.IsAuthenticated & TokenPermissions),
    )


class GuardedNotes(Notes):
    permission_classes = ()

    def check_permissions(self, request: Any) -> None:
        if is_token(request.auth) and not request.auth.may_write:
            self.permission_denied(request)


class ByClass(permissions.IsAuthenticated):  # type: ignore[misc]
    def has_permission(self, request: Any, view: Any) -> bool:
        return isinstance(request.successful_authenticator, TokenAuthentication)


class NotesByClass(Notes):
    permission_classes = (ByClass,)


@pytest.fixture(autouse=True)
def _notes(token_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokens(TokenAuthentication):  # type: ignore[misc]
        model = token_model

    monkeypatch.setattr(Notes, "authentication_classes", (Tokens,))
    monkeypatch.setattr(Notes, "written", [])
    named = {
        "notes": Notes,
        "writers": WritersNotes,
        "combined": CombinedNotes,
        "guarded": GuardedNotes,
        "by-class": NotesByClass,
    }
    paths = [path(f"{name}/", view.as_view()) for name, view in named.items()]
    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, *paths])


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create(username="ada", is_active=True)


@pytest.fixture
def token_server() -> Server:
    """A server that accepts the tokens of the API."""
    return Server(
        "notes", authenticators=[RESTFrameworkAuthentication(*Notes.authentication_classes)]
    )


def post(server: Server, tool: str, key: str) -> Any:
    """Call a tool over HTTP with a token."""
    headers = {"authorization": f"Token {key}"}
    with SyncClient(server, transport="http", headers=headers) as client:
        return client.call_tool(tool)


def lines(result: Any) -> list[str]:
    return str(result["content"][0]["text"]).splitlines()


@pytest.mark.parametrize(
    ("view", "url"),
    [
        (Notes, "/notes/"),
        (WritersNotes, "/writers/"),
        (CombinedNotes, "/combined/"),
        (GuardedNotes, "/guarded/"),
    ],
)
@pytest.mark.parametrize("may_write", [True, False])
def test_token_may_do_over_mcp_what_it_may_do_over_rest(
    token_model: Any, user: User, token_server: Server, view: Any, url: str, may_write: bool
) -> None:
    token_model.objects.create(key="key", user=user, may_write=may_write)
    rest_tool(view, "post", serializer=None, server=token_server, name="write")
    over_rest = Browser().post(url, headers={"authorization": "Token key"})
    Notes.written.clear()

    assert over_rest.status_code == (200 if may_write else 403)
    if may_write:
        result = post(token_server, "write", "key")
        assert result["structuredContent"] == over_rest.json() == {"auth": "ApiToken"}
        assert Notes.written == ["ada"]
    else:
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            post(token_server, "write", "key")
        assert Notes.written == []


@pytest.mark.parametrize("view", [Notes, WritersNotes, CombinedNotes, GuardedNotes])
def test_view_that_reads_the_token_is_not_called_without_one(
    user: User, server: Server, view: Any
) -> None:
    rest_tool(view, "post", serializer=None, server=server, name="write")

    with SyncClient(server, user=user, scopes=["write"]) as client:
        result = client.call_tool("write")

    assert lines(result) == WITHOUT_TOKEN
    assert Notes.written == []


def test_token_is_not_kept_where_a_principal_is_made_anew() -> None:
    """As caches, tasks and approvals make it from what they have stored."""
    original = RESTFrameworkPrincipal(scheme="rest_framework", subject="7", request_auth="secret")
    stored = Principal(scheme=original.scheme, subject=original.subject)
    needing = credentials.Credentials(reader="TokenPermissions", substitute=None)
    user = User(pk=7)

    assert needing.request_auth(Frame(user=user, auth=original)) == "secret"
    impersonated = replace(original, scheme="django_middleware", subject="8")
    for other in (stored, impersonated):
        with pytest.raises(ToolError, match="an approved call have none"):
            needing.request_auth(Frame(user=user, auth=other))
    assert "secret" not in repr(original)


@pytest.mark.django_db(transaction=True)
async def test_task_of_a_caller_with_a_token_has_no_token(
    token_model: Any, token_server: Server, configure: Configure
) -> None:
    configure()
    user = await User.objects.acreate(username="ada")
    await token_model.objects.acreate(key="key", user=user)
    rest_tool(
        Notes, "post", serializer=None, server=token_server, name="write", task_support="required"
    )
    options: dict[str, Any] = {
        "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "headers": {"authorization": "Token key"},
        "transport": "http",
        "sync_execution": "threads",
    }

    async with Client(token_server, **options) as client, asyncio.timeout(20):
        task = await client.request("tools/call", {"name": "write", "arguments": {}})
        while task["status"] == "working":
            await asyncio.sleep(0.01)
            task = await client.request("tasks/get", {"taskId": task["taskId"]})

    assert lines(task["result"]) == WITHOUT_TOKEN
    assert Notes.written == []


def test_declared_substitute_is_request_auth(user: User, server: Server) -> None:
    def auth(frame: Frame) -> None:
        assert frame.auth is not None
        if frame.auth.scopes != {"notes:write"}:
            raise PermissionDenied

    rest_tool(Notes, "post", serializer=None, server=server, auth=auth, name="write")

    with SyncClient(server, user=user, scopes=["notes:write"]) as client:
        assert client.call_tool("write")["structuredContent"] == {"auth": "NoneType"}
    with SyncClient(server, user=user, scopes=["notes:read"]) as client:
        assert client.list_tools() == []
    assert Notes.written == ["ada"]


def test_view_that_asks_for_the_class_of_the_authenticator_is_not_offered(server: Server) -> None:
    rest_tool(NotesByClass, "post", serializer=None, server=server)

    messages = found(server, "django_mcp_rest.W001")

    assert len(messages) == 1
    assert "ByClass" in messages[0].msg
    assert not server.components.of_kind("tool")


def found(server: Server, id: str) -> list[CheckMessage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_servers", {server.name: server})
        return [each for each in run_checks(tags=[checks.TAG]) if each.id == id]


def test_check_names_views_that_need_a_token(server: Server, token_server: Server) -> None:
    def auth(frame: Frame) -> None:
        return None

    for target in (server, token_server):
        rest_tool(Notes, "post", serializer=None, server=target)
    rest_tool(WritersNotes, "post", serializer=None, server=server, auth=auth)

    (message,) = found(server, "django_mcp_rest.W002")
    assert message.msg.startswith("TokenPermissions reads request.auth, and decides about tools")
    assert "of the MCP server 'api': tests.rest.test_credentials.Notes.post. " in message.msg
    assert found(token_server, "django_mcp_rest.W002") == []


def test_check_has_one_message_for_all_views_of_a_permission_class(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[Any] = [type(f"Notes{number}", (Notes,), {}) for number in range(100)]
    patterns = [path(f"{view.__name__}/", view.as_view()) for view in views]
    monkeypatch.setattr(urls, "urlpatterns", patterns)
    rest_tools(patterns, read_only=False, server=server)

    (message,) = found(server, "django_mcp_rest.W002")

    assert "Notes0.post, " in message.msg
    assert " and 97 others. " in message.msg


# Permission classes of access tokens, such as those of django-oauth-toolkit.


def test_scopes_of_the_caller_are_those_of_its_token() -> None:
    auth = credentials.CallerAuth(
        Principal(scheme="jwt", subject="7", scopes=frozenset({"a", "b"}))
    )

    assert auth.scope == "a b"
    assert auth.allow_scopes(["a"])
    assert auth.is_valid(["b", "a"])
    assert auth.is_valid([])
    assert not auth.allow_scopes(["a", "c"])
    assert not auth.is_valid(["c"])


def test_view_with_scopes_denies_a_token_without_them(
    user: User, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oauth2_provider.contrib.rest_framework import TokenHasScope

    monkeypatch.setattr(Notes, "permission_classes", (TokenHasScope,))
    monkeypatch.setattr(Notes, "required_scopes", ["write"], raising=False)
    rest_tool(Notes, "post", serializer=None, server=server, name="write")

    with SyncClient(server, user=user, scopes=["read"]) as client:
        assert client.list_tools() == []
    with SyncClient(server, user=user, scopes=["read", "write"]) as client:
        assert client.call_tool("write")["structuredContent"] == {"auth": "CallerAuth"}


def test_anonymous_caller_has_no_token() -> None:
    reading = credentials.Credentials(reader="TokenPermissions", substitute=None)

    assert reading.request_auth(Frame()) is None
