"""``request.auth`` of a view: the token that the site's own class has returned, or no call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client as Browser
from django.urls import path
from pytest_django import DjangoDbBlocker, Settings
from rest_framework import permissions, views
from rest_framework.authentication import SessionAuthentication, TokenAuthentication
from rest_framework.response import Response
from rest_framework.settings import api_settings

from django_mcp import Frame, Server, checks, registry
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication, RESTFrameworkPrincipal
from django_mcp.auth.token import TokenAuthentication as TokensOfPackage
from django_mcp.core.auth.base import Principal
from django_mcp.core.protocol.errors import ToolError
from django_mcp.openapi.calls import credentials as called_as
from django_mcp.rest import rest_tool, rest_tools
from django_mcp.rest.calls import credentials, guards
from django_mcp.rest.calls.guards import Guards
from django_mcp.testing import Client, ErrorResponse, SyncClient
from tests.installed_apps import installed
from tests.memory_stores import Configure, configure
from tests.rest import urls
from tests.spec import spec
from tests.waiting import SECONDS

__all__ = ["configure"]

WITHOUT_TOKEN = ["Permission denied.", credentials.WITHOUT_TOKEN]
OTHER_CLASS = ["Permission denied.", called_as.OTHER_CLASS]


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


def of_site(*unknown: str) -> Guards:
    """What guards a view with the authentication classes of the site."""
    classes = frozenset(api_settings.DEFAULT_AUTHENTICATION_CLASSES)
    return Guards(classes=classes, unknown=unknown, is_open=False)


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


def may_write(request: Any) -> bool:
    return not is_token(request.auth) or request.auth.may_write


class AsksFunction(permissions.IsAuthenticated):  # type: ignore[misc]
    """Has a function of a module decide, which reads the token."""

    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(super().has_permission(request, view)) and checked(request)


checked = partial(may_write)  # What it calls is in no code of the class.


class FunctionNotes(Notes):
    permission_classes = (AsksFunction,)


class OpenNotes(Notes):
    permission_classes = (permissions.IsAuthenticated,)


class TokenList(OpenNotes):
    """The tokens of a user, for whoever has logged in by session."""


class Signup(Notes):
    """A view without authentication: all its callers are anonymous."""

    permission_classes = (permissions.AllowAny,)

    def post(self, request: Any) -> Response:
        return Response({"user": request.user.username, "auth": request.auth})


@pytest.fixture(autouse=True)
def _notes(token_model: Any, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": None}

    class Tokens(TokenAuthentication):  # type: ignore[misc]
        model = token_model

    monkeypatch.setattr(Notes, "authentication_classes", (Tokens,))
    monkeypatch.setattr(TokenList, "authentication_classes", (SessionAuthentication,))
    monkeypatch.setattr(Signup, "authentication_classes", ())
    monkeypatch.setattr(Notes, "written", [])
    named = {
        "notes": Notes,
        "writers": WritersNotes,
        "combined": CombinedNotes,
        "guarded": GuardedNotes,
        "by-class": NotesByClass,
        "function": FunctionNotes,
        "open": OpenNotes,
        "tokens": TokenList,
        "signup": Signup,
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


@spec("views-12")
@pytest.mark.parametrize(
    "view", [Notes, WritersNotes, CombinedNotes, GuardedNotes, FunctionNotes, NotesByClass]
)
def test_view_that_may_read_the_token_is_no_tool_without_one(
    user: User, server: Server, view: Any
) -> None:
    accepted: dict[str, Any] = {"authenticated_by": view.authentication_classes}
    rest_tool(view, "post", serializer=None, server=server, name="write", **accepted)

    with SyncClient(server, user=user, scopes=["write"]) as client:
        assert client.list_tools() == []
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            client.call_tool("write")
    assert Notes.written == []


def test_permission_of_a_tool_does_not_let_in_who_has_no_token(user: User, server: Server) -> None:
    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    named: dict[str, Any] = {"name": "write", "permission": lambda frame: True}
    rest_tool(Notes, "post", serializer=None, server=server, **accepted, **named)

    with SyncClient(server, user=user) as client:
        assert lines(client.call_tool("write")) == WITHOUT_TOKEN
    assert Notes.written == []


def test_site_declares_once_what_its_views_read(
    user: User, server: Server, settings: Settings
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "REST_AUTH": "django_mcp.rest.without_token"}
    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    rest_tool(FunctionNotes, "post", serializer=None, server=server, name="write", **accepted)

    with SyncClient(server, user=user) as client:
        assert client.call_tool("write").structured == {"auth": "NoneType"}


# The authentication classes of a view.


def of_server(server: Server) -> Any:
    return {"server": server, "revision": None}


def admitting(server: Server, principal: Principal) -> list[str]:
    """The names of the tools that a caller has."""
    frame = Frame(user=principal.user, auth=principal, private=of_server(server))
    tools: Any = server.components.of_kind("tool")
    return [tool.name for tool in tools if tool.permission(frame)]


@spec("views-11")
def test_view_of_sessions_answers_no_caller_with_a_token(
    token_model: Any, user: User, token_server: Server
) -> None:
    token_model.objects.create(key="key", user=user)
    for view, name in ((TokenList, "tokens"), (OpenNotes, "notes")):
        rest_tool(view, "post", serializer=None, server=token_server, name=name)

    assert Browser().post("/tokens/", headers={"authorization": "Token key"}).status_code == 403
    headers = {"authorization": "Token key"}
    with SyncClient(token_server, transport="http", headers=headers) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["notes"]
        with pytest.raises(ErrorResponse, match="Unknown tool"):
            client.call_tool("tokens")
        assert client.call_tool("notes").structured == {"auth": "ApiToken"}
    assert Notes.written == ["ada"]


@pytest.mark.parametrize("scheme", ["personal_token", "django_session"])
def test_view_of_sessions_accepts_who_has_logged_in(
    user: User, token_server: Server, scheme: str
) -> None:
    rest_tool(TokenList, "post", serializer=None, server=token_server, name="tokens")
    principal = Principal(scheme=scheme, user=user)

    names = admitting(token_server, principal)
    assert names == (["tokens"] if scheme == "django_session" else [])


def test_declared_class_opens_a_view_to_other_callers(user: User, server: Server) -> None:
    accepted: dict[str, Any] = {
        "authenticated_by": ["rest_framework.authentication.SessionAuthentication"]
    }
    rest_tool(TokenList, "post", serializer=None, server=server, name="tokens", **accepted)
    rest_tool(OpenNotes, "post", serializer=None, server=server, name="notes", **accepted)

    with SyncClient(server, user=user) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["tokens"]
        assert client.call_tool("tokens").structured == {"auth": "CallerAuth"}


def test_caller_stored_for_later_came_in_by_a_class_of_the_server(
    user: User, server: Server, token_server: Server
) -> None:
    """As tasks and approvals store it: without the class, and without the token."""
    stored = Principal(scheme="rest_framework", user=user)
    for target in (server, token_server):
        rest_tool(OpenNotes, "post", serializer=None, server=target, name="notes")
        rest_tool(TokenList, "post", serializer=None, server=target, name="tokens")

    assert admitting(server, stored) == []
    assert admitting(token_server, stored) == ["notes"]


def test_caller_of_a_view_without_authentication_is_anonymous(user: User, server: Server) -> None:
    rest_tool(Signup, "post", serializer=None, server=server, name="sign_up")

    with SyncClient(server, user=user) as client:
        assert client.call_tool("sign_up").structured == {"user": "", "auth": None}


def test_view_with_the_classes_of_the_site_needs_no_declaration(
    user: User, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = api_settings.DEFAULT_AUTHENTICATION_CLASSES
    monkeypatch.setattr(OpenNotes, "authentication_classes", (*default, TokenAuthentication))
    rest_tool(OpenNotes, "post", serializer=None, server=server, name="notes")

    with SyncClient(server, user=user) as client:
        assert client.call_tool("notes").structured == {"auth": "CallerAuth"}
    assert found(server, "django_mcp_openapi.W002") == []


def test_check_names_views_that_accept_others_only(server: Server, token_server: Server) -> None:
    for target in (server, token_server):
        target.authenticators = [*(target.authenticators or ()), DjangoSessionAuthentication()]
        rest_tool(TokenList, "post", serializer=None, server=target, name="tokens")
    rest_tool(OpenNotes, "post", serializer=None, server=token_server, name="notes")

    first, second = found(token_server, "django_mcp_openapi.W002")
    assert first.msg == (
        "tests.rest.test_credentials.TokenList.post: these accept callers of SessionAuthentication "
        "only. For callers of RESTFrameworkAuthentication, they are no tools."
    )
    assert "OpenNotes.post: these accept callers of Tokens only." in second.msg
    assert "callers of DjangoSessionAuthentication" in second.msg
    assert found(server, "django_mcp_openapi.W002") == []


@pytest.mark.parametrize("kind", [permissions.IsAuthenticated, permissions.DjangoModelPermissions])
def test_class_that_only_sets_values_is_known(kind: Any) -> None:
    class Mixin(permissions.BasePermission):  # type: ignore[misc]
        def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
            return request.auth is None

    worded = type("Worded", (kind,), {"message": "No.", "perms_map": {}})
    assert guards.is_known(kind)
    assert guards.is_known(worded)
    assert not guards.is_known(type("Mixed", (worded, Mixin), {}))
    assert not guards.is_known(type("Own", (kind,), {"authenticated_users_only": property(len)}))
    assert not guards.is_known(type("Other", (), {}))


def test_token_is_not_kept_where_a_principal_is_made_anew() -> None:
    """As caches, tasks and approvals make it from what they have stored."""
    original = RESTFrameworkPrincipal(
        scheme="rest_framework",
        subject="7",
        request_auth="secret",
        authentication_class=SessionAuthentication,
    )
    stored = Principal(scheme=original.scheme, subject=original.subject)
    needing = credentials.Credentials(guards=of_site("TokenPermissions"))
    user = User(pk=7)
    tokens = RESTFrameworkAuthentication(*api_settings.DEFAULT_AUTHENTICATION_CLASSES)
    server = Server("api", authenticators=[tokens])

    caller = needing.caller(Frame(user=user, auth=original))
    assert caller.attributes["_force_auth_token"] == "secret"
    impersonated = replace(original, scheme="django_middleware", subject="8")
    for other in (stored, impersonated):
        with pytest.raises(ToolError, match="an approved call have none"):
            needing.caller(Frame(user=user, auth=other, private=of_server(server)))
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

    async with Client(token_server, **options) as client, asyncio.timeout(SECONDS):
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

    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    rest_tool(Notes, "post", serializer=None, server=server, auth=auth, name="write", **accepted)

    with SyncClient(server, user=user, scopes=["notes:write"]) as client:
        assert client.call_tool("write")["structuredContent"] == {"auth": "NoneType"}
    with SyncClient(server, user=user, scopes=["notes:read"]) as client:
        assert client.list_tools() == []
    assert Notes.written == ["ada"]


def test_view_that_asks_for_the_class_of_the_authenticator_is_not_offered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oauth2_provider.contrib.rest_framework import IsAuthenticatedOrTokenHasScope

    own = type("OwnScope", (IsAuthenticatedOrTokenHasScope,), {})
    monkeypatch.setattr(NotesByClass, "permission_classes", (permissions.IsAdminUser | own,))
    rest_tool(NotesByClass, "post", serializer=None, server=server)

    (message,) = found(server, "django_mcp_openapi.W001")

    assert "OwnScope, which guards" in message.msg
    assert not server.components.of_kind("tool")


def found(server: Server, id: str) -> list[CheckMessage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.registered, "servers", {server.name: server})
        return [each for each in run_checks(tags=[checks.TAG]) if each.id == id]


def test_check_names_views_that_need_a_token(server: Server, token_server: Server) -> None:
    def auth(frame: Frame) -> None:
        return None

    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    server.authenticators = [TokensOfPackage()]
    for target in (server, token_server):
        rest_tool(Notes, "post", serializer=None, server=target, **accepted)
    rest_tool(WritersNotes, "post", serializer=None, server=server, auth=auth, **accepted)

    (message,) = found(server, "django_mcp_openapi.W002")
    assert message.msg == (
        "request.auth may be read by TokenPermissions: by what decides about "
        "tests.rest.test_credentials.Notes.post. Callers of TokenAuthentication have no "
        "token of the API: for them, these are no tools."
    )
    assert found(token_server, "django_mcp_openapi.W002") == []


def test_check_has_one_message_for_all_that_one_declaration_opens(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [type(f"Own{number}", (TokenPermissions,), {}) for number in range(5)]
    views: list[Any] = [
        type(f"Notes{number}", (Notes,), {"permission_classes": (kind,)})
        for number, kind in enumerate(kinds)
    ]
    patterns = [path(f"{view.__name__}/", view.as_view()) for view in views]
    monkeypatch.setattr(urls, "urlpatterns", patterns)
    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    server.authenticators = [TokensOfPackage()]
    rest_tools(patterns, read_only=False, server=server, **accepted)

    (message,) = found(server, "django_mcp_openapi.W002")

    assert "request.auth may be read by Own0, Own1, Own2 and 2 others: " in message.msg


def test_check_has_one_message_for_all_views_of_a_permission_class(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[Any] = [type(f"Notes{number}", (Notes,), {}) for number in range(100)]
    patterns = [path(f"{view.__name__}/", view.as_view()) for view in views]
    monkeypatch.setattr(urls, "urlpatterns", patterns)
    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    server.authenticators = [TokensOfPackage()]
    rest_tools(patterns, read_only=False, server=server, **accepted)

    (message,) = found(server, "django_mcp_openapi.W002")

    assert "Notes0.post, " in message.msg
    assert " and 97 others. Callers" in message.msg


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
    accepted: dict[str, Any] = {"authenticated_by": Notes.authentication_classes}
    rest_tool(Notes, "post", serializer=None, server=server, name="write", **accepted)

    with SyncClient(server, user=user, scopes=["read"]) as client:
        assert client.list_tools() == []
    with SyncClient(server, user=user, scopes=["read", "write"]) as client:
        assert client.call_tool("write")["structuredContent"] == {"auth": "CallerAuth"}


def test_anonymous_caller_has_no_token() -> None:
    reading = credentials.Credentials(guards=of_site("TokenPermissions"))

    assert reading.caller(Frame()) == credentials.anonymous()


def test_credential_without_a_user_reaches_the_view() -> None:
    """As a token of a team or of a device, whose class returns an anonymous user with it."""
    needing = credentials.Credentials(guards=of_site("TokenPermissions"))
    nobody = AnonymousUser()
    principal = RESTFrameworkPrincipal(
        scheme="rest_framework",
        subject="team-7",
        user=nobody,
        request_auth="team",
        authentication_class=SessionAuthentication,
    )

    caller = needing.caller(Frame(user=nobody, auth=principal))
    assert caller == credentials.caller_with(nobody, "team")
