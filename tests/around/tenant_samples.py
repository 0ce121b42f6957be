"""Middleware and functions of sites with tenants, of the shapes that packages for them have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.http import Http404, HttpRequest

from django_mcp.auth.cache import Loaded, PrincipalCache
from django_mcp.core.auth.base import BaseAuthentication, Principal, bearer_token

Next = Callable[[HttpRequest], Any]

USERS: dict[str, list[str]] = {"one": ["ann", "bob"], "two": ["zoe", "yan"]}
"""The users of each schema by their primary key, from 1: those of two schemas have equal keys."""

scope: ContextVar[Any] = ContextVar("scope", default=None)


def by_host(get_response: Next) -> Next:
    """Choose the schema of the connection by the host, as django-tenants does."""

    def middleware(request: Any) -> Any:
        name = request.get_host().partition(".")[0]
        if name not in USERS:
            raise Http404("no tenant")
        request.tenant = name
        connection.schema_name = name  # type: ignore[attr-defined]
        try:
            return get_response(request)
        finally:
            del connection.schema_name  # type: ignore[attr-defined]

    return middleware


def has_anonymous_user(get_response: Next) -> Next:
    """Make everybody without a session the site's anonymous user, as Weblate does."""

    def middleware(request: Any) -> Any:
        request.user = StoredAnonymous(pk=99, username="anonymous")
        return get_response(request)

    return middleware


class StoredAnonymous(User):
    """A user in the database for nobody."""

    is_authenticated = False  # type: ignore[assignment]
    is_anonymous = True  # type: ignore[assignment]

    class Meta:
        proxy = True
        app_label = "auth"


def of_middleware(request: Any) -> str | None:
    """The tenant that the middleware has chosen."""
    name: str | None = getattr(request, "tenant", None)
    return name


def of_path(request: HttpRequest) -> str | None:
    """The tenant in a path such as ``/t/one/mcp``."""
    parts = request.path.split("/")
    return parts[2] if parts[1:2] == ["t"] else None


def of_header(request: HttpRequest) -> str | None:
    """The tenant of a header."""
    return request.headers.get("X-Tenant")


def no_string(request: HttpRequest) -> Any:
    """A mistake: a model instance instead of its key."""
    return 5


class SchemaTokens(BaseAuthentication):
    """Finds the user of a token in the schema of the connection: ``user-1`` is the first one."""

    scheme = "Bearer"
    loads: list[str] = []

    def __init__(self) -> None:
        self._cache = PrincipalCache()

    async def authenticate(self, scope: Any, /) -> Any:
        token = bearer_token(scope)
        if token is None:
            return None

        async def load() -> Any:
            from asgiref.sync import sync_to_async

            return await sync_to_async(self._load)(token)

        return await self._cache.find(load, token)

    def _load(self, token: str) -> Loaded:
        schema = connection.schema_name  # type: ignore[attr-defined] # Without one: AttributeError.
        self.loads.append(schema)
        number = int(token.removeprefix("user-"))
        user = User(pk=number, username=USERS[schema][number - 1])
        return Loaded(Principal(scheme="schema", user=user), None)


@contextmanager
def scoped(frame: Any) -> Iterator[None]:
    """Open the scope of a tenant around a handler, as ``scope(…)`` of django-scopes does."""
    token = scope.set(frame.principal.tenant)
    try:
        yield
    finally:
        scope.reset(token)


class StoredUsers(BaseAuthentication):
    """Finds users of the database by a token that is their primary key."""

    scheme = "Bearer"

    async def authenticate(self, scope: Any, /) -> Any:
        token = bearer_token(scope)
        if token is None:
            return None
        return Principal(scheme="stored", user=await User.objects.aget(pk=token))
