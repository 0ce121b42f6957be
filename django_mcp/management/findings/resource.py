"""The metadata of the protected resource (RFC 9728)."""

from __future__ import annotations

from collections.abc import Iterator

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
    shown,
    warning,
)


def of_metadata(url: str, place: str, metadata: Json) -> Iterator[Finding]:
    """Yield what is wrong with the metadata found at ``place`` (RFC 9728, section 3.3)."""
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


ROUTING_REMEDY = (
    "Pass the paths below /.well-known/ to the MCP server, in the proxy and in asgi.py: mount() "
    "serves them, and so does urlpatterns() of django_mcp.routing."
)


def of_missing(place: str, answer: Answer) -> Iterator[Finding]:
    """Yield what is wrong with an answer that is no metadata."""
    if not answer.status:
        yield failure(f"{place}: {shown(answer.error)}", connection_remedy(answer.error))
    elif answer.is_page or 300 <= answer.status < 400:
        yield failure(
            f"{place} is answered {answer}: clients expect JSON, and some fail.", ROUTING_REMEDY
        )
    elif answer.status not in (401, 403, 404, 405):
        yield failure(f"{place} is answered {answer}.", ROUTING_REMEDY)
