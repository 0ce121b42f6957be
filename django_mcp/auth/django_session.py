"""Authentication by the session cookie of a logged-in Django user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import aget_user
from django.http import HttpRequest, parse_cookie
from django.utils.module_loading import import_string

from django_mcp.auth.base import Principal


def browser_session(scope: Mapping[str, Any]) -> Any:
    """Return the Django session of the request's cookie; its data is loaded lazily."""
    if "session" in scope:
        return scope["session"]
    engine = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
    return engine(_session_cookie(scope))


def _session_cookie(scope: Mapping[str, Any]) -> str | None:
    header = b"; ".join(value for key, value in scope["headers"] if key == b"cookie")
    return parse_cookie(header.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)


class DjangoSessionAuthentication:
    """Accepts callers whose session cookie belongs to an active, logged-in Django user.

    Browsers attach cookies to requests from other sites too. Against those, every request with
    a foreign Origin is rejected before authentication.
    """

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | None:
        """Return the principal of the session cookie's user, or None."""
        if "session" not in scope and _session_cookie(scope) is None:
            return None
        request = HttpRequest()
        request.session = browser_session(scope)
        user = await aget_user(request)
        if not user.is_authenticated:
            return None
        return Principal(scheme="django_session", subject=str(user.pk), user=user)
