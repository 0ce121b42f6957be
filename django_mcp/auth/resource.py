"""The identity of a server as an OAuth protected resource: its URL, and its metadata (RFC 9728)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings as django_settings

from django_mcp import conf
from django_mcp.auth.base import Scope, header

WELL_KNOWN = "/.well-known/oauth-protected-resource"

SCOPE_KEY = "django_mcp.resource"
"""The key under which the ASGI scope has the Resource that a request addresses."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One server: the path of its endpoint, the scopes of every call, its title and its name."""

    path: str
    scopes: tuple[str, ...] = ()
    title: str | None = None
    name: str = ""

    def url(self, scope: Scope) -> str:
        """Return the URL of the endpoint, as clients have it: no slash is added at its end."""
        return base_url(scope) + self.path

    def metadata_url(self, scope: Scope) -> str:
        """Return the URL of its metadata, with the well-known path before that of the endpoint."""
        parts = urlsplit(self.url(scope))
        return urlunsplit(parts._replace(path=WELL_KNOWN + parts.path))

    def metadata(self, scope: Scope, issuers: Iterable[str]) -> dict[str, Any]:
        """Return the metadata document (RFC 9728, section 2)."""
        document = {
            "resource": self.url(scope),
            "authorization_servers": [*issuers],
            "scopes_supported": [*self.scopes],
            "bearer_methods_supported": ["header"],
            "resource_name": self.title,
        }
        return {name: value for name, value in document.items() if value}


def addressed(scope: Scope) -> Resource:
    """Return the Resource that the request addresses; raises KeyError outside an MCP request."""
    resource: Resource = scope[SCOPE_KEY]
    return resource


def is_for(scope: Scope, audiences: Sequence[str]) -> bool:
    """Whether a token for ``audiences`` is meant for the addressed endpoint (RFC 8707, section 2).

    One of them must be its URL, or one that the site lists in ``RESOURCE_AUDIENCES``.
    """
    accepted = {canonical(addressed(scope).url(scope)), *map(canonical, conf.get().audiences)}
    return any(canonical(audience) in accepted for audience in audiences)


def canonical(url: str) -> str:
    """Return ``url`` with scheme and host in lower case; any other text as it is."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()))


def base_url(scope: Scope) -> str:
    """Return BASE_URL, else what the request says: scheme, host and the prefix of the site.

    The headers of a proxy count where SECURE_PROXY_SSL_HEADER and USE_X_FORWARDED_HOST say so.
    """
    configured = conf.get().base_url
    if configured is not None:
        return configured.rstrip("/")
    root: str = scope.get("root_path", "")
    return f"{_scheme(scope)}://{_host(scope)}{root.rstrip('/')}"


def _scheme(scope: Scope) -> str:
    trusted = django_settings.SECURE_PROXY_SSL_HEADER
    if trusted:
        name, secure = trusted
        value = header(scope, name.removeprefix("HTTP_").replace("_", "-").lower().encode())
        if value is not None:
            return "https" if value.partition(",")[0].strip() == secure else "http"
    return "https" if scope.get("scheme") == "https" else "http"


def _host(scope: Scope) -> str:
    forwarded = header(scope, b"x-forwarded-host") if django_settings.USE_X_FORWARDED_HOST else None
    return forwarded or header(scope, b"host") or "localhost"
