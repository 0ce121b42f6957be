"""The metadata of the protected resource (RFC 9728)."""

from __future__ import annotations

from collections.abc import Iterator

from django_mcp.auth.resource import WELL_KNOWN
from django_mcp.management.findings.base import (
    Answer,
    Finding,
    Json,
    connection_remedy,
    difference_remedy,
    failure,
    is_url,
    list_of,
    ok,
    prefix_remedy,
    shown,
    split,
    warning,
)


def of_metadata(url: str, place: str, metadata: Json) -> Iterator[Finding]:
    """Yield findings about the metadata at ``place`` (RFC 9728, section 3.3)."""
    resource = metadata.get("resource")
    if resource == url:
        yield ok(f"{place}: the resource is {shown(url)}")
    else:
        yield failure(
            f"{place}: the resource is {shown(resource)}, and not {shown(url)}: they must be equal "
            "character by character.",
            difference_remedy(url, resource, "give clients that URL"),
        )
    issuers = metadata.get("authorization_servers")
    if not issuers or not isinstance(issuers, list) or not all(map(is_url, issuers)):
        yield failure(
            f"{place}: authorization_servers names no issuer.",
            "Use an authenticator whose authorization_servers returns one.",
        )
    if "offline_access" in list_of(metadata, "scopes_supported"):
        yield warning(
            f"{place}: scopes_supported contains offline_access.",
            "Remove it: refresh tokens are no matter of the resource.",
        )


def of_host(host: str, metadata: Json) -> Iterator[Finding]:
    """Yield whether the resource follows the Host of a request, which was sent with ``host``."""
    resource = metadata.get("resource")
    if isinstance(resource, str) and split(resource).hostname == host:
        yield warning(
            "The resource follows whatever Host a request names, so that a client could choose the "
            "audience of its tokens. This package then refuses every token.",
            'Set DJANGO_MCP["BASE_URL"] to the URL of the site, or list its host names in '
            "ALLOWED_HOSTS.",
        )


def of_scopes(metadata: Json, authorization_server: Json) -> Iterator[Finding]:
    """Yield the scopes of the resource that the authorization server does not list."""
    listed = list_of(authorization_server, "scopes_supported")
    stated = list_of(metadata, "scopes_supported")
    unknown = [scope for scope in stated if scope not in listed]
    if listed and unknown:
        yield warning(
            f"The authorization server does not list {shown(' '.join(map(str, unknown)))}, which "
            "the resource states: clients that ask for it may be answered invalid_scope.",
            'Correct DJANGO_MCP["SCOPES"], or add the scope to the authorization server.',
        )


def of_prefix(url: str, stated: str) -> Iterator[Finding]:
    """Yield whether a 401 names the metadata of a path without the prefix of the site."""
    path = split(url).path
    inner = split(stated).path.partition(WELL_KNOWN)[2]
    if inner and inner != path and path.endswith(inner):
        yield failure(
            f"The 401 names the metadata of {shown(inner)}, and not of {shown(path)}.",
            prefix_remedy(path.removesuffix(inner)),
        )


ROUTING_REMEDY = (
    "Pass the paths below /.well-known/ to the MCP server, in the proxy and in asgi.py: mount() "
    "serves them, and so does urlpatterns() of django_mcp.routing."
)


def of_missing(place: str, answer: Answer) -> Iterator[Finding]:
    """Yield findings about an answer without metadata."""
    if not answer.status:
        yield failure(f"{place}: {shown(answer.error)}", connection_remedy(answer.error))
    elif answer.is_page or 300 <= answer.status < 400:
        yield failure(
            f"{place} is answered {answer}: clients expect JSON, and some fail.", ROUTING_REMEDY
        )
    elif answer.status not in (401, 403, 404, 405):
        yield failure(f"{place} is answered {answer}.", ROUTING_REMEDY)
