"""The servers of the site for commands: their names, and their URLs for clients."""

from __future__ import annotations

from django.core.management.base import CommandError

from django_mcp import conf, registry
from django_mcp.core.server.server import Server
from django_mcp.management.findings.base import split

LOCAL = "http://localhost:8000"
"""The address of ``runserver``, where BASE_URL does not name another."""


def get_server(name: str) -> Server:
    """Return the server of this name, configured; raises CommandError for an unknown one."""
    try:
        return registry.configure(registry.get(name))
    except LookupError as error:
        raise CommandError(str(error)) from error


def checked_url(url: str) -> str:
    """Return a URL that a user has named; raises CommandError unless it is a http or https URL."""
    parts = split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"{url!r} is no http or https URL")
    return url


def url_of(server: Server) -> str:
    """Return the URL of the endpoint."""
    return f"{conf.get().base_url or LOCAL}/{registry.path(server).strip('/')}"
