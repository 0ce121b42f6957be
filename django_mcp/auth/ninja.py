"""Authentication by the ``auth=`` callbacks of Django Ninja."""

from __future__ import annotations

import hashlib
import inspect
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model
from django.utils.module_loading import import_string

from django_mcp.auth import csrf
from django_mcp.auth.cache import in_time
from django_mcp.core.auth.base import (
    INVALID_TOKEN,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    bearer_token,
    header,
)

SCHEME = "ninja"
ANONYMOUS = "django.contrib.auth.models.AnonymousUser"
"""It is imported where it is needed: this module is named in settings, before there are models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NinjaPrincipal(Principal):
    """A caller whom a callback of the API has accepted, in one request.

    Where a principal is stored or kept (caches, tasks, approvals), it is made anew as a plain
    ``Principal``, so that the credentials do not outlive their request.
    """

    callback: Any = field(default=None, repr=False, compare=False)
    """The callback that has accepted the caller."""
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    """The header that it has accepted, which views of the same API read again."""


class NinjaAuthentication(BaseAuthentication):
    """Accepts callers whom one of these callbacks of an API of Django Ninja accepts.

    The callbacks are given as for ``auth=``, as classes or as dotted paths, or in ``callbacks`` of
    a subclass. They run in order with the headers of the request, without body, query and cookies.
    ``headers`` names what a callback reads that is no class of Django Ninja, by default
    ``Authorization``.
    """

    callbacks: Sequence[Any] = ()
    headers: Sequence[str] = ("authorization",)

    def __init__(self, *callbacks: Any) -> None:
        named = callbacks or tuple(self.callbacks)
        if not named:
            raise ImproperlyConfigured(
                "NinjaAuthentication needs the callbacks of an API, such as those of auth=…"
            )
        self.callbacks = tuple(map(_callback, named))
        bearers = [getattr(each, "openapi_scheme", "") == "bearer" for each in self.callbacks]
        self.scheme = "Bearer" if any(bearers) else None

    def get_user(self, request: Any, result: Any, /) -> Any:
        """Return the user that a callback has returned or has set on the request, or None."""
        users = (result, getattr(request, "user", None))
        known = (user for user in users if getattr(user, "is_authenticated", False))
        return next((user for user in known if getattr(user, "pk", None) is not None), None)

    def get_scopes(self, request: Any, result: Any, /) -> Collection[str]:
        """Return the scopes of a callback's result: by default, none."""
        return ()

    def get_subject(self, request: Any, result: Any, /) -> str:
        """Return an identifier of credentials without a user; an empty one refuses the request.

        By default, the model and the primary key of the result, or a hash of the string.
        """
        if isinstance(result, Model) and result.pk is not None:
            return f"{result._meta.label_lower} {result.pk}"
        return hashlib.sha256(result.encode()).hexdigest() if isinstance(result, str) else ""

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of the first callback that accepts the headers of the request."""
        sent = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
        if csrf.is_cross_origin(scope) and bearer_token(scope) is None:
            return None
        has_wrong_key = False
        for callback in self.callbacks:
            credentials = _credentials(callback, self.headers, scope)
            if not credentials:
                continue
            request = ASGIRequest({**scope, "headers": sent, "query_string": b""}, io.BytesIO())
            request.user = import_string(ANONYMOUS)()
            result = await in_time(_result(callback, request))
            if result:
                return self._principal(callback, request, result, credentials)
            # The header of a key is of this callback alone, unlike Authorization.
            has_wrong_key = has_wrong_key or getattr(callback, "openapi_in", "") == "header"
        if bearer_token(scope) is not None:
            return INVALID_TOKEN_OF_SOMEBODY
        return WRONG_KEY if has_wrong_key else None

    def _principal(
        self, callback: Any, request: Any, result: Any, credentials: tuple[tuple[str, str], ...]
    ) -> Principal | Challenge:
        user = self.get_user(request, result)
        subject = self.get_subject(request, result) if user is None else str(user.pk)
        if not subject or not getattr(user, "is_active", True):
            return Challenge(status=403, message="These credentials belong to no active user")
        given = self.get_scopes(request, result)
        return NinjaPrincipal(
            scheme=SCHEME,
            subject=subject,
            user=import_string(ANONYMOUS)() if user is None else user,
            scopes=frozenset(given.split() if isinstance(given, str) else given),
            callback=callback,
            credentials=credentials,
        )


INVALID_TOKEN_OF_SOMEBODY = Challenge(
    error=INVALID_TOKEN.error, message=INVALID_TOKEN.message, is_final=False
)
"""It is not final: a token that no callback accepts may belong to another authenticator."""
WRONG_KEY = Challenge(message="The key is not valid here", is_final=False)
"""It is not final: the caller may also have the session of a user. They are not anonymous."""


def _callback(named: Any) -> Any:
    callback = import_string(named) if isinstance(named, str) else named
    return callback() if isinstance(callback, type) else callback


def kind_of(callback: Any) -> Any:
    """Return what two callbacks have in common that decide alike: a class, or the function."""
    return callback if inspect.isroutine(callback) else type(callback)


async def _result(callback: Any, request: Any) -> Any:
    """Return the result of a callback, on a thread unless it is a coroutine function.

    Its own errors are refusals, as they are answers of the API.
    """
    is_async = inspect.iscoroutinefunction(callback) or getattr(callback, "is_async", False)
    try:
        result = callback(request) if is_async else await sync_to_async(callback)(request)
        return await result if inspect.isawaitable(result) else result
    except Exception as error:
        if hasattr(error, "status_code"):
            return None
        raise


def _credentials(callback: Any, others: Sequence[str], scope: Scope) -> tuple[tuple[str, str], ...]:
    """Return the headers of the request that a callback reads."""
    if getattr(callback, "openapi_in", "") in ("query", "cookie"):
        return ()  # A token in the query would be in logs, and cookies belong to a browser.
    own = header_of(callback)
    names = [own] if own else others
    values = [(name.lower(), header(scope, name.lower().encode())) for name in names]
    return tuple((name, value) for name, value in values if value is not None)


def header_of(callback: Any) -> str:
    """Return the header that a callback of a class of Django Ninja reads; "" for others."""
    is_key = getattr(callback, "openapi_in", "") == "header"
    name = getattr(callback, "param_name" if is_key else "header", "")
    return str(name).lower()


def accepts_like(callback: Any, other: Any) -> bool:
    """Whether a callback reads the credentials that another one has accepted, and decides."""
    reads_same = header_of(callback) != "" and header_of(callback) == header_of(other)
    return reads_same or kind_of(callback) == kind_of(other)
