"""The paths of endpoints, and what to do when a request for one of them reaches Django instead.

A path may capture values as URL patterns of Django do: ``/orgs/<slug:org>/mcp`` is one endpoint for
each organisation, where a session of one of them does not exist at the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from django.core import mail
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.urls.resolvers import RoutePattern

from django_mcp import registry
from django_mcp.auth.resource import PATH_KEY

T = TypeVar("T")

MAX_LENGTH = 200
"""Characters of a path with captured values, which become a part of the caller's key."""
LOGGER = "django.request"
"""Where Django logs each response with the status 404."""

NOT_MOUNTED = (
    "the ASGI application does not mount it. In asgi.py, write: from django_mcp.routing import "
    "mount, and application = mount(get_asgi_application())."
)
WSGI = (
    "the WSGI application does not mount it. In wsgi.py, write: from django_mcp.routing import "
    "mount, and application = mount(get_wsgi_application())."
)
TEST_CLIENT = (
    "Django's test clients do not pass through mount(). Use Client or SyncClient of "
    'django_mcp.testing, with transport="http" for a test of the transport.'
)


class Match(NamedTuple, Generic[T]):
    value: T
    path: str
    """The path that was requested, without a slash at its end."""
    captured: Mapping[str, Any]

    def enter(self, scope: Any) -> None:
        """Note the captured values in the scope, as a URLRouter does."""
        if self.captured:
            scope["url_route"] = {"args": (), "kwargs": self.captured}
            scope[PATH_KEY] = self.path


def leave(scope: Any, suffix: str) -> None:
    """Note that the rest of the path is not a part of the endpoint's."""
    if PATH_KEY in scope:
        scope[PATH_KEY] = scope[PATH_KEY].removesuffix(suffix)


def as_text(path: str, captured: Mapping[str, Any]) -> dict[str, str]:
    """Return captured values as they are in a URL, to be stored."""
    converters = RoutePattern(path.strip("/"), is_endpoint=True).converters
    return {
        name: converters[name].to_url(value) if name in converters else str(value)
        for name, value in captured.items()
    }


def from_text(path: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of ``as_text`` again, converted; raises ValueError."""
    converters = RoutePattern(path.strip("/"), is_endpoint=True).converters
    return {
        name: converters[name].to_python(text) if name in converters else text
        for name, text in texts.items()
    }


class Paths(Generic[T]):
    """Values by the path of their endpoint, with or without a slash at its end."""

    def __init__(self, values: Mapping[str, T]) -> None:
        """Raises ImproperlyConfigured for an invalid pattern."""
        self.plain = {path: value for path, value in values.items() if "<" not in path}
        self._patterns = [
            (RoutePattern(path.strip("/"), is_endpoint=True), value)
            for path, value in values.items()
            if "<" in path
        ]
        for pattern, _ in self._patterns:
            pattern.regex  # noqa: B018 - it raises for an unknown converter

    def find(self, path: str) -> Match[T] | None:
        bare = path.rstrip("/") or "/"
        for name in (path, bare):
            if name in self.plain:
                return Match(self.plain[name], name, {})
        if len(bare) > MAX_LENGTH:
            return None
        for pattern, value in self._patterns:
            match = pattern.match(bare.strip("/"))
            if match is None:
                continue
            rest, _, captured = match
            if not rest:
                return Match(value, bare, captured)
        return None


# The application that ``mount`` returns answers the requests for MCP servers, so that Django sees
# them only where something passes it by: a file without ``mount``, or a test client of Django.


class NotMountedFilter(logging.Filter):
    """Adds the remedy to the record of a 404 at the path of an MCP server."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        if getattr(record, "status_code", None) != 404 or not isinstance(request, HttpRequest):
            return True
        servers = registry.servers()
        endpoints = Paths({"/" + registry.path(each).strip("/"): each.name for each in servers})
        endpoint = endpoints.find(request.path_info)
        if endpoint is None:
            return True
        remedy = NOT_MOUNTED if isinstance(request, ASGIRequest) else WSGI
        if hasattr(mail, "outbox"):  # Only within Django's test environment.
            remedy = TEST_CLIENT
        record.msg = f"{record.msg} is the path of the MCP server {endpoint.value!r}, but {remedy}"
        return True


def name_remedies() -> None:
    """Let Django's own log record of such a request name the remedy."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(present, NotMountedFilter) for present in logger.filters):
        logger.addFilter(NotMountedFilter())
