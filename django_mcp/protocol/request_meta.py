"""The metadata which a stateless request carries about itself, checked rung by rung.

The order of the rungs is observable (a client probes with broken requests), so they stand
here one under the other: the metadata is there, the headers repeat it, its version is served,
the method exists. Parameters are the method's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django_mcp.protocol.errors import (
    InvalidParams,
    Json,
    MethodNotFound,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.headers import NAME_SOURCES, RequestHeaders
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.revisions import BY_VERSION, Revision, Statefulness

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"


class RequestMeta(NamedTuple):
    """What a request says of itself: its revision, its client, and what the client can do."""

    revision: Revision
    capabilities: Json
    client_info: Json | None
    log_level: str | None


def has_request_meta(params: Json, header_version: str | None) -> bool:
    """Whether a message belongs to the stateless era: its metadata decides first, then its header.

    A header that names a version which opens by handshake, or none that we know, is no sign.
    """
    return describes_itself(params) or is_stateless(header_version)


def describes_itself(params: Json) -> bool:
    """Whether the metadata of a message shows that it belongs to the stateless era."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and (VERSION in meta or CAPABILITIES in meta)


def is_stateless(version: str | None) -> bool:
    """Whether a header names a revision without sessions."""
    named = BY_VERSION.get(version) if version is not None else None
    return named is not None and named.statefulness is Statefulness.STATELESS


def read(
    request: Request, headers: RequestHeaders | None, served: Mapping[str, Revision]
) -> RequestMeta:
    """The envelope of ``request``; raises the error of the first rung that does not hold.

    ``headers`` are those of the HTTP request, or None where the transport has none; ``served`` maps
    the versions which may be asked for to their revisions.
    """
    method, params, meta = request.method, request.params, _meta(request.params)
    version = _member(meta, VERSION, str)
    capabilities = _member(meta, CAPABILITIES, dict)
    if headers is not None:
        source = NAME_SOURCES.get(method)
        name = None if source is None else params.get(source)
        headers.check(method, name if type(name) is str else None, version)
    revision = served.get(version)
    if revision is None:
        raise UnsupportedProtocolVersion(
            data={"supported": [*served], "requested": version},
        )
    if method not in revision.requests:
        raise MethodNotFound(f"Method not found: {method}")
    client_info = _member(meta, CLIENT_INFO, dict) if CLIENT_INFO in meta else None
    log_level = _member(meta, LOG_LEVEL, str) if LOG_LEVEL in meta else None
    return RequestMeta(revision, capabilities, client_info, log_level)


def _meta(params: Json) -> dict[str, Any]:
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise InvalidParams("params._meta must be an object that describes the request")
    return meta


def _member(meta: dict[str, Any], name: str, kind: type) -> Any:
    value = meta.get(name)
    if type(value) is not kind:
        raise InvalidParams(f"params._meta must have {name!r}, {WORDS[kind]}")
    return value


WORDS: Mapping[type, str] = {str: "a string", dict: "an object"}
