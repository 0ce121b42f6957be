"""The identity of a server as an OAuth protected resource: its URL, and its metadata (RFC 9728)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from django.conf import settings as django_settings

from django_mcp import conf
from django_mcp.core.auth.base import Scope, header
from django_mcp.core.protocol import origins

logger = logging.getLogger("django_mcp")

WELL_KNOWN = "/.well-known/oauth-protected-resource"

PATH_KEY = "django_mcp.path"
"""The key of the requested path of an endpoint that captures values, in the ASGI scope."""

SCOPE_KEY = "django_mcp.resource"
"""The key of the Resource that a request addresses, in the ASGI scope."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One server: the path of its endpoint, the scopes of every call, its title and its name."""

    path: str
    scopes: tuple[str, ...] = ()
    title: str | None = None
    name: str = ""

    def url(self, scope: Scope) -> str:
        """Return the URL of the endpoint, as clients have it: no slash is added at its end."""
        path: str = scope.get(PATH_KEY, self.path)
        return base_url(scope) + path

    def metadata_url(self, scope: Scope) -> str:
        """Return the URL of its metadata, with the well-known path before the endpoint's."""
        parts = urlsplit(self.url(scope))
        # A slash after the host is removed (RFC 9728, section 3.1).
        return urlunsplit(parts._replace(path=(WELL_KNOWN + parts.path).rstrip("/")))

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

    One of them must be its URL, or one that the site lists in AUDIENCES. Where ALLOWED_HOSTS is
    ``["*"]``, its URL counts only with BASE_URL: the client chooses the Host, and with it could
    choose the audience.
    """
    site = conf.get()
    accepted = {*map(canonical, site.audiences)}
    if site.base_url is not None or "*" not in django_settings.ALLOWED_HOSTS:
        accepted.add(canonical(addressed(scope).url(scope)))
    elif not accepted:
        _warn_of_any_host()
    return any(canonical(audience) in accepted for audience in audiences)


@cache
def _warn_of_any_host() -> None:
    logger.warning(
        'No access token has an accepted audience while ALLOWED_HOSTS is ["*"]: list the hosts, '
        'or set DJANGO_MCP["BASE_URL"]'
    )


def canonical(url: str) -> str:
    """Return ``url`` with scheme and host in lower case; any other text as it is."""
    try:
        parts = urlsplit(url)
    except ValueError:  # For example, an unmatched bracket.
        return url
    if not parts.netloc:
        return url
    lowered = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower())
    return urlunsplit(lowered)


def base_url(scope: Scope) -> str:
    """Return BASE_URL, else the scheme, the host and the prefix of the request.

    The headers of a proxy count where SECURE_PROXY_SSL_HEADER and USE_X_FORWARDED_HOST say so.
    """
    configured = conf.get().base_url
    if configured is not None:
        return configured.rstrip("/")
    return request_origin(scope) + site_prefix(scope)


def request_origin(scope: Scope) -> str:
    """Return scheme and host of the request, as its client has them."""
    proxy = conf.proxy()
    scheme = "https" if scope.get("scheme") == "https" else "http"
    if proxy.secure_header:
        name, secure = proxy.secure_header
        value = header(scope, name)
        if value is not None:
            scheme = "https" if value.partition(",")[0].strip() == secure else "http"
    host = header(scope, b"host") or "localhost"
    if proxy.uses_forwarded_host:
        forwarded = header(scope, b"x-forwarded-host")
        # Unlike the Host, it was not checked before.
        if forwarded and origins.host_allowed(forwarded, conf.allowed_hosts()):
            host = forwarded
    return f"{scheme}://{host}"


def site_prefix(scope: Scope) -> str:
    """Return the path before all paths of the site, as Django determines it, without a slash."""
    prefix: str = conf.proxy().script_name or scope.get("root_path", "")
    return prefix.rstrip("/")


def path_in_site(scope: Scope) -> str:
    """Return the path of a request without the prefix of the site.

    An ASGI server may have it in ``path`` or not, whatever the proxy in front of it removes.
    """
    path: str = scope["path"]
    prefix = site_prefix(scope)
    return path[len(prefix) :] if _is_below(path, prefix) else path


def with_prefix(scope: Scope) -> Scope:
    """Return ``scope`` as ASGI describes it: ``path`` contains ``root_path``, the site's prefix.

    Django and Channels take that for granted: without the prefix in ``path``, Django redirects to
    paths outside the site, such as the one after a login.
    """
    prefix = site_prefix(scope)
    path: str = scope["path"]
    if not prefix or (conf.proxy().script_name or "").endswith("/"):
        # Django removes FORCE_SCRIPT_NAME as it is: with its last slash, nothing would resolve.
        return scope
    if _is_below(path, prefix):
        return {**scope, "root_path": prefix}
    raw_path = quote(prefix).encode("ascii") + (scope.get("raw_path") or b"")
    return {**scope, "path": prefix + path, "raw_path": raw_path, "root_path": prefix}


def _is_below(path: str, prefix: str) -> bool:
    return bool(prefix) and f"{path}/".startswith(f"{prefix}/")
