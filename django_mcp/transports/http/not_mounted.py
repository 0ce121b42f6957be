"""Names the remedy when a request for an MCP server reaches Django instead.

The application that ``mount`` returns answers these requests, so that Django sees them only where
something passes it by: a file without ``mount``, or a test client of Django.
"""

from __future__ import annotations

import logging

from django.core import mail
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from django_mcp import registry
from django_mcp.transports.http.paths import Paths

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


class NotMountedFilter(logging.Filter):
    """Adds the remedy to the record of a 404 at the path of an MCP server."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        if getattr(record, "status_code", None) == 404 and isinstance(request, HttpRequest):
            name = _server_at(request.path_info)
            if name is not None:
                which = f"is the path of the MCP server {name!r}, but"
                record.msg = f"{record.msg} {which} {_remedy(request)}"
        return True


def install() -> None:
    """Let Django's own log record of such a request name the remedy."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(present, NotMountedFilter) for present in logger.filters):
        logger.addFilter(NotMountedFilter())


def _server_at(path: str) -> str | None:
    names = {"/" + registry.path(server).strip("/"): server.name for server in registry.servers()}
    endpoint = Paths(names).find(path)
    return None if endpoint is None else endpoint.value


def _remedy(request: HttpRequest) -> str:
    if hasattr(mail, "outbox"):  # Only within Django's test environment.
        return TEST_CLIENT
    return NOT_MOUNTED if isinstance(request, ASGIRequest) else WSGI
