"""How a client can register: by its metadata document, or dynamically (RFC 7591)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django_mcp.management.findings.authorization_server import (
    authentication_methods,
    of_endpoint,
)
from django_mcp.management.findings.base import Finding, Json, Level, failure, ok, shown


def takes_documents(metadata: Json) -> bool:
    return metadata.get("client_id_metadata_document_supported") is True


NONE_REMEDY = (
    'Add "none": in the toolkit, OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED = ["none", …]. '
    "Clients that users install have no secret."
)


def of_metadata(metadata: Json, ways: Sequence[str]) -> Iterator[Finding]:
    """Yield how a client registers which knows these ``ways``: "document" and "dynamic"."""
    has_none = "none" in authentication_methods(metadata)
    endpoint = metadata.get("registration_endpoint")
    may_send = "document" in ways and takes_documents(metadata)
    if may_send and has_none:
        yield ok("It registers by its metadata document")
        return
    if not has_none:
        level = Level.FAILURE if may_send and not endpoint else Level.WARNING
        text = "token_endpoint_auth_methods_supported does not list none."
        yield Finding(level, text, NONE_REMEDY)
    if endpoint is not None:
        yield from of_endpoint("registration_endpoint", endpoint)
        yield ok(f"It registers at {shown(endpoint)}")
    elif not may_send:
        stated = " and no ".join(STATED[way] for way in ways)
        yield failure(
            f"It cannot register: the metadata has no {stated}.",
            f"Turn on {' or '.join(SWITCHES[way] for way in ways)} in the toolkit.",
        )


STATED: Mapping[str, str] = {
    "document": "client_id_metadata_document_supported",
    "dynamic": "registration_endpoint",
}
SWITCHES: Mapping[str, str] = {"document": "CIMD_ENABLED", "dynamic": "DCR_ENABLED"}
