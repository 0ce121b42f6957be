"""Authentication by the authentication classes of Django REST framework.

It needs the extra ``rest`` of this package.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.module_loading import import_string

from django_mcp.auth import csrf
from django_mcp.auth.base import (
    INVALID_TOKEN,
    BaseAuthentication,
    Challenge,
    Principal,
    Scope,
    header,
    in_time,
)

try:
    from rest_framework.exceptions import APIException
    from rest_framework.request import Request
except ImportError:
    raise ImproperlyConfigured(
        "RESTFrameworkAuthentication needs Django REST framework: "
        "pip install 'django-mcp-channels[rest]'"
    ) from None

MAX_MESSAGE = 100
"""Characters of the reason that a class gives for a rejection."""
CROSS_ORIGIN = Challenge(
    status=403,
    message="A page of another origin may not use stored credentials: see CSRF_TRUSTED_ORIGINS",
)


class RESTFrameworkAuthentication(BaseAuthentication):
    """Accepts callers whom one of these authentication classes accepts.

    They are called in order, in a thread, with the headers of the request, without its body and its
    query, and without cookies that a page of another origin sends. As in Django REST framework, the
    ``authenticate_header`` of the first one is the challenge. A subclass can name them in
    ``authentication_classes``, as classes or dotted paths.

    Their credentials name no server: they are accepted wherever this authenticator is.
    """

    authentication_classes: Sequence[type | str] = ()

    def __init__(self, *classes: type | str) -> None:
        named = classes or self.authentication_classes
        if not named:
            raise ImproperlyConfigured(
                "RESTFrameworkAuthentication needs authentication classes, such as "
                '"rest_framework.authentication.TokenAuthentication".'
            )
        found = (import_string(each) if isinstance(each, str) else each for each in named)
        self._authenticators = tuple(each() for each in found)
        described = self._authenticators[0].authenticate_header(Request(HttpRequest())) or None
        # Challenges of bearer tokens say where to get one: a realm does not.
        is_bearer = described is not None and described.partition(" ")[0].lower() == "bearer"
        self.scheme = "Bearer" if is_bearer else described

    def get_scopes(self, user: Any, auth: Any, /) -> Collection[str]:
        """Return the scopes of what a class has returned as ``request.auth``: by default, none."""
        return ()

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of the user whom a class returns, by their primary key."""
        headers = scope["headers"]
        if csrf.is_cross_origin(scope):
            if _is_stored_by_browsers(header(scope, b"authorization") or ""):
                return CROSS_ORIGIN
            headers = [(name, value) for name, value in headers if name != b"cookie"]
        # A token in the query would be in logs, and is never read (RFC 6750, section 2.3).
        read = {**scope, "headers": headers, "query_string": b""}
        return await in_time(sync_to_async(self._authenticate)(read))

    def _authenticate(self, scope: Scope) -> Principal | Challenge | None:
        request = Request(ASGIRequest(scope, io.BytesIO()))
        for authenticator in self._authenticators:
            try:
                found = authenticator.authenticate(request)
            except APIException as error:
                return self._rejection(error.status_code, str(error.detail))
            except PermissionDenied as error:
                return self._rejection(403, str(error))
            if found is not None:
                return self._principal(*found)
        return None

    def _rejection(self, status: int, reason: str) -> Challenge:
        if status == 401 and self.scheme == "Bearer":
            return INVALID_TOKEN
        return Challenge(status=status, message=reason[:MAX_MESSAGE] or "Access denied")

    def _principal(self, user: Any, auth: Any) -> Principal | Challenge:
        is_known = getattr(user, "is_authenticated", False) and user.pk is not None
        if not is_known or not getattr(user, "is_active", True):
            return Challenge(status=403, message="These credentials belong to no active user")
        scopes = frozenset(self.get_scopes(user, auth))
        return Principal(scheme="rest_framework", subject=str(user.pk), user=user, scopes=scopes)


def _is_stored_by_browsers(authorization: str) -> bool:
    """Whether a browser sends these credentials by itself, as it sends cookies."""
    return authorization.partition(" ")[0].lower() in ("basic", "digest", "negotiate", "ntlm")
