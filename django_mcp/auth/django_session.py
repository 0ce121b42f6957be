"""Authentication by the session cookie of a logged-in Django user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie
from django.utils.module_loading import import_string

from django_mcp.auth import csrf
from django_mcp.auth.cache import in_time
from django_mcp.core.auth.base import (
    BaseAuthentication,
    Challenge,
    Principal,
    bearer_token,
    header,
)

CROSS_SITE = Challenge(
    status=403,
    message=(
        "A page of another origin may not use the session of a user: see CSRF_TRUSTED_ORIGINS"
    ),
)
CHECKED_KEY = "django_mcp.session_checked"
"""The key of the ASGI scope that tells that its session was checked before."""


def browser_session(scope: Mapping[str, Any]) -> Any:
    """Return the Django session of the request's cookie; its data is loaded lazily.

    It is empty for a request which a page of another origin has made.
    """
    if csrf.is_cross_origin(scope):
        return _stored_session(None)
    if "session" in scope:
        return scope["session"]
    return _stored_session(_session_cookie(scope))


def _session_to_check(scope: Mapping[str, Any]) -> Any:
    """Return the session as it is stored at this check.

    An open stream is checked again and again. A session that a middleware has put into the scope
    keeps what it has loaded, and does not notice a logout.
    """
    session = browser_session(scope)
    if CHECKED_KEY in scope and (key := getattr(session, "session_key", None)):
        return _stored_session(key)
    scope[CHECKED_KEY] = True  # type: ignore[index]
    return session


def _stored_session(key: str | None) -> Any:
    return import_string(f"{settings.SESSION_ENGINE}.SessionStore")(key)


def _keep_key() -> None:
    """Replaces ``cycle_key`` of a session without a middleware that sends its cookie."""


def _session_cookie(scope: Mapping[str, Any]) -> str | None:
    cookies = b"; ".join(value for key, value in scope["headers"] if key == b"cookie")
    return parse_cookie(cookies.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)


class DjangoSessionAuthentication(BaseAuthentication):
    """Accepts callers whose session cookie belongs to an active, logged-in Django user.

    Requests from pages of other sites are refused, unless the origin is in
    ``CSRF_TRUSTED_ORIGINS``; ``ALLOWED_ORIGINS`` is for pages without cookies.
    """

    # A response 401 must have a challenge (RFC 9110, section 15.5.2), and no registered scheme
    # stands for a cookie. "Bearer" would make programs ask for a token that is not accepted.
    scheme = "Cookie"
    authenticates_site_users = True

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        """Return the principal of the session cookie's user, or None.

        A request with an access token acts for the token, whoever is logged in: a client with an
        expired token must not act as the user of a cookie.
        """
        has_cookie = _session_cookie(scope) is not None
        if not has_cookie and "session" not in scope:
            return None
        if bearer_token(scope) is not None:
            return None
        if csrf.is_cross_origin(scope):
            # With other credentials, the cookie does not matter: another authenticator decides.
            has_credentials = header(scope, b"authorization") is not None
            return CROSS_SITE if has_cookie and not has_credentials else None
        request = HttpRequest()
        session = _session_to_check(scope)
        if session is not scope.get("session"):
            # After a change of SECRET_KEY, ``get_user`` would delete the session and store it with
            # a new key, for a cookie that no response has. A page of the site does so later.
            session.cycle_key = _keep_key
        request.session = session
        # One hop to a thread: ``aget_user`` makes one for each of its two queries.
        user = await in_time(sync_to_async(get_user)(request))
        # Not all backends look at it: one of a site may return any user.
        if not user.is_authenticated or not getattr(user, "is_active", True):
            return None
        return Principal(scheme="django_session", subject=str(user.pk), user=user)
