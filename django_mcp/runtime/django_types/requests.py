"""``frame.django_request``: the HttpRequest of a message, for code that expects one."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.module_loading import import_string

from django_mcp import conf

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame

ANONYMOUS = "django.contrib.auth.models.AnonymousUser"
"""Its module can be imported only once apps are loaded."""
SCOPE_KEY = "django_mcp.request"
"""The key of the request of Django's middleware in the ASGI scope."""


def of_frame(frame: Frame) -> HttpRequest:
    """The request of a Frame, with its user and its Django session.

    Its body is empty: it was read, and is in ``frame.request``. A message that did not arrive over
    HTTP has a request with the user, without headers.
    """
    scope = getattr(frame.transport, "scope", None)
    if scope is None:
        return of_caller(_without_http(frame), frame.user, frame.session)
    request: HttpRequest | None = scope.get(SCOPE_KEY)
    return request or of_caller(of_scope(_decodable(scope)), frame.user, frame.session)


def _decodable(scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope with a query that can be decoded: as Latin-1 where it is no UTF-8, as in a
    QueryDict. Django answers 400 itself, but here a handler runs already."""
    query = scope.get("query_string", b"")
    try:
        query.decode()
    except UnicodeDecodeError:
        return {**scope, "query_string": query.decode("latin-1")}
    return scope


def of_scope(scope: Mapping[str, Any]) -> ASGIRequest:
    """The request of an ASGI scope; raises UnicodeDecodeError for an invalid query string."""
    return ASGIRequest(scope, BytesIO())


def of_caller(request: HttpRequest, user: Any, session: Any) -> HttpRequest:
    """``request``, with the authenticated caller of the message."""
    user = import_string(ANONYMOUS)() if user is None else user

    async def auser() -> Any:
        return user

    request.user = user
    request.auser = auser
    # AuthenticationMiddleware takes these instead of the user of the session.
    request._cached_user = request._acached_user = user  # type: ignore[attr-defined]
    if session is not None:
        request.session = session
    return request


def _without_http(frame: Frame) -> HttpRequest:
    """A request that builds URLs of the site."""
    server = frame.private.get("server")
    base = urlsplit(conf.get().base_url or "http://localhost")
    scope = {
        "method": "POST",
        "scheme": base.scheme,
        "path": "/" if server is None else "/" + server.path.strip("/"),
        "headers": [(b"host", base.netloc.encode())],
    }
    return of_scope(scope)
