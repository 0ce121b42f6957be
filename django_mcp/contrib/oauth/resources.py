"""The resources that tokens are issued for: the servers of this project that accept them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.urls import get_script_prefix
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from django_mcp import conf, registry
from django_mcp.auth.oauth_toolkit import OAuthToolkitAuthentication
from django_mcp.auth.resource import canonical
from django_mcp.core.server.server import Server
from django_mcp.transports.http.paths import Paths

BASE_URL = "django_mcp.base_url"
"""The key of the site's URL among the headers of an oauthlib request; no client can send it."""

MAX_LENGTH = 255
"""Characters of a resource that consents can store."""


class InvalidTarget(CustomOAuth2Error):
    """The requested resource is unknown, or not the one that was allowed (RFC 8707)."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        super().__init__(error="invalid_target", description=description, **kwargs)


def base_of(request: Any) -> str:
    """Return ``base_url`` of a request as oauthlib has it."""
    return str(request.headers[BASE_URL])


def listed(resource: Any) -> list[str]:
    """Return the parameter ``resource`` as a list: oauthlib has it as a string, a list or None."""
    return resource.split() if isinstance(resource, str) else [*(resource or ())]


def base_url(request: HttpRequest) -> str:
    """Return BASE_URL, else the URL of the request, as ``auth.resource.base_url`` does."""
    configured = conf.get().base_url
    if configured is not None:
        return configured.rstrip("/")
    return f"{request.scheme}://{request.get_host()}{get_script_prefix().rstrip('/')}"


def server_at(base: str, resource: str) -> Server | None:
    """Return the server which has an endpoint there and accepts tokens of the toolkit, or None."""
    prefix = canonical(base)
    path = canonical(resource).removeprefix(prefix)
    if not canonical(resource).startswith(f"{prefix}/") or len(resource) > MAX_LENGTH:
        return None
    match = Paths({endpoint(server): server for server in accepting()}).find(path)
    # A slash at the end makes another resource.
    return match.value if match is not None and match.path == path else None


def endpoint(server: Server) -> str:
    return "/" + registry.path(server).strip("/")


def accepting() -> Iterator[Server]:
    """Yield the servers which accept tokens of the toolkit."""
    for server in registry.mountable():
        try:
            authenticators = registry.authenticators(server)
        except Exception:  # The class of an authenticator may raise anything.
            continue  # It is not served at all; a system check says why.
        if any(isinstance(item, OAuthToolkitAuthentication) for item in authenticators):
            yield server


def is_known(base: str, resource: str) -> bool:
    """Whether ``resource`` is an endpoint of a server, or listed in AUDIENCES."""
    is_audience = canonical(resource) in map(canonical, conf.get().audiences)
    return is_audience or server_at(base, resource) is not None


def only(base: str) -> str | None:
    """Return the resource of a client that names none: the only endpoint, else None."""
    paths = [*map(endpoint, accepting())]
    is_one = len(paths) == 1 and "<" not in paths[0]
    return canonical(base + paths[0]) if is_one else None


def title(base: str, resource: str) -> str:
    """Return the title of the server, or ""."""
    server = server_at(base, resource)
    if server is None:
        return ""
    registry.make_ready(server)
    return str(server.info.get("title") or server.info.get("name") or server.name)
