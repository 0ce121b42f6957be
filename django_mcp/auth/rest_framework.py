"""Authentication by the authentication classes of Django REST framework.

It needs the extra ``rest`` of this package.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model
from django.http import HttpRequest
from django.urls import ResolverMatch
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
STORED_BY_BROWSERS = ("basic", "digest", "negotiate", "ntlm")
"""Schemes of credentials that browsers send by themselves, as they send cookies."""
CROSS_ORIGIN = Challenge(
    status=403,
    message="A page of another origin may not use stored credentials: see CSRF_TRUSTED_ORIGINS",
)


SCHEME = "rest_framework"
ANONYMOUS = "django.contrib.auth.models.AnonymousUser"
"""It is imported where it is needed: this module is named in settings, before there are models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RESTFrameworkPrincipal(Principal):
    """A caller whom an authentication class of the site has accepted, in one request.

    Where a principal is stored or kept (caches, tasks, approvals), it is made anew as a plain
    ``Principal``, so that ``request_auth`` does not outlive its request: a token may be revoked
    or restricted by then.
    """

    request_auth: Any = field(default=None, repr=False, compare=False)
    """The second value of the class, ``request.auth``: its token, or None."""
    authentication_class: type | None = field(default=None, compare=False)
    """The class that has accepted the caller."""


class RESTFrameworkAuthentication(BaseAuthentication):
    """Accepts callers whom one of these authentication classes accepts.

    The classes, or those in ``authentication_classes`` of a subclass, run in order in a thread.
    They get the headers, without body and query, and without cookies beside a token or from a page
    of another origin. Bearer tokens that they refuse are tried with the next authenticators. Their
    credentials name no server: they are accepted wherever this authenticator is.
    """

    authentication_classes: Sequence[type | str] = ()

    def __init__(self, *classes: type | str) -> None:
        classes = classes or tuple(self.authentication_classes)
        if not classes:
            raise ImproperlyConfigured(
                "RESTFrameworkAuthentication needs authentication classes, such as "
                '"rest_framework.authentication.TokenAuthentication".'
            )
        self._authenticators = tuple(
            (import_string(item) if isinstance(item, str) else item)() for item in classes
        )
        request = Request(HttpRequest())
        described = [item.authenticate_header(request) or None for item in self._authenticators]
        # Challenges of bearer tokens say where to get one: a realm does not.
        takes_tokens = any(map(_is_bearer, described))
        self.scheme = "Bearer" if takes_tokens else described[0]

    def get_scopes(self, user: Any, auth: Any, /) -> Collection[str]:
        """Return the scopes of the ``request.auth`` that a class returned: by default, none."""
        return ()

    def get_subject(self, user: Any, auth: Any, /) -> str:
        """Return an identifier of credentials without a user, such as the token of a device.

        By default, it is the model and the primary key of ``auth``. Empty refuses the request.
        """
        is_stored = isinstance(auth, Model) and auth.pk is not None
        return f"{auth._meta.label_lower} {auth.pk}" if is_stored else ""

    async def authenticate(self, scope: Scope, /) -> Principal | Challenge | None:
        """Return the principal of the user whom a class returns, by their primary key.

        Credentials without a user belong to a principal as well: see ``get_subject``.
        """
        headers = scope["headers"]
        is_cross_origin = csrf.is_cross_origin(scope)
        scheme = (header(scope, b"authorization") or "").partition(" ")[0].lower()
        if is_cross_origin and scheme in STORED_BY_BROWSERS:
            return CROSS_ORIGIN
        if is_cross_origin or bearer_token(scope) is not None:
            headers = [(name, value) for name, value in headers if name != b"cookie"]
        # A token in the query would be in logs, and is never read (RFC 6750, section 2.3).
        read = {**scope, "headers": headers, "query_string": b""}
        return await in_time(sync_to_async(self._authenticate)(read))

    def _authenticate(self, scope: Scope) -> Principal | Challenge | None:
        of_server = ASGIRequest(scope, io.BytesIO())
        # Classes of a site may read the captured values of a view's URL: here, there are none.
        of_server.resolver_match = ResolverMatch(self.authenticate, (), {})
        request = Request(of_server)
        for authenticator in self._authenticators:
            try:
                user_and_auth = authenticator.authenticate(request)
            except APIException as error:
                return _refusal(scope, error.status_code, _in_words(error.detail))
            except PermissionDenied as error:
                return _refusal(scope, 403, str(error))
            if user_and_auth is not None:
                return self._principal(type(authenticator), *user_and_auth)
        return None

    @property
    def classes(self) -> frozenset[type]:
        """The classes that accept callers here."""
        return frozenset(map(type, self._authenticators))

    def _principal(self, kind: type, user: Any, auth: Any) -> Principal | Challenge:
        is_known = getattr(user, "is_authenticated", False) and user.pk is not None
        is_nobody = user is None or getattr(user, "is_anonymous", False)
        subject = str(user.pk) if is_known else ""
        if is_nobody:
            subject = self.get_subject(user, auth)
        if not subject or (is_known and not getattr(user, "is_active", True)):
            return Challenge(status=403, message="These credentials belong to no active user")
        given = self.get_scopes(user, auth)
        # A token of OAuth has its scopes as one string.
        scopes = frozenset(given.split() if isinstance(given, str) else given)
        return RESTFrameworkPrincipal(
            scheme=SCHEME,
            subject=subject,
            user=import_string(ANONYMOUS)() if user is None else user,
            scopes=scopes,
            request_auth=auth,
            authentication_class=kind,
        )


def _is_bearer(challenge: str | None) -> bool:
    return challenge is not None and challenge.partition(" ")[0].lower() == "bearer"


def _refusal(scope: Scope, status: int, reason: str) -> Challenge:
    if status == 401 and bearer_token(scope) is not None:
        return replace(INVALID_TOKEN, is_final=False)
    if len(reason) > MAX_MESSAGE:
        start = reason[: MAX_MESSAGE - 1]
        reason = f"{start.rpartition(' ')[0] or start}…"  # It is cut between words.
    return Challenge(status=status, message=reason or "Access denied")


def _in_words(detail: Any) -> str:
    """Return the reason of an exception, which may have a code and messages beside it."""
    if isinstance(detail, Mapping):
        detail = detail["detail"] if "detail" in detail else [*detail.values()]
    if isinstance(detail, list | tuple):
        return " ".join(_in_words(part) for part in detail)
    return str(detail)
