"""The metadata which a stateless request carries about itself, checked rung by rung.

The order of the rungs is observable (a client probes with broken requests), so they stand
here one under the other: the metadata is there, the headers repeat it, its version is served,
the method exists. Parameters are the method's own business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp.protocol.errors import (
    InvalidParams,
    Json,
    MethodNotFound,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.headers import NAME_SOURCES, Mirrored
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.revisions import BY_VERSION, Opening, Revision

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a request says of itself: its revision, its client, and what the client can do."""

    revision: Revision
    capabilities: Json
    client_info: Json | None
    log_level: str | None


def is_enveloped(params: Json, header_version: str | None) -> bool:
    """Whether a message belongs to the stateless era: its metadata decides first, then its header.

    A header that names a version which opens by handshake, or none that we know, is no sign.
    """
    meta = params.get("_meta")
    if isinstance(meta, dict) and (VERSION in meta or CAPABILITIES in meta):
        return True
    named = BY_VERSION.get(header_version) if header_version is not None else None
    return named is not None and named.opening is Opening.ENVELOPE


def read(request: Request, headers: Mirrored | None, served: Mapping[str, Revision]) -> Envelope:
    """The envelope of ``request``; raises the error of the first rung that does not hold.

    ``headers`` are those of the HTTP request, or None where the transport has none; ``served`` maps
    the versions which may be asked for to their revisions.
    """
    meta = _meta(request.params)
    version = _member(meta, VERSION, str)
    capabilities = _member(meta, CAPABILITIES, dict)
    if headers is not None:
        _check_headers(request, version, headers)
    revision = served.get(version)
    if revision is None:
        raise UnsupportedProtocolVersion(
            data={"supported": [*served], "requested": version},
        )
    if request.method not in revision.requests:
        raise MethodNotFound(f"Method not found: {request.method}")
    return Envelope(revision, capabilities, _optional(meta, CLIENT_INFO, dict), _level(meta))


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


def _optional(meta: dict[str, Any], name: str, kind: type) -> Any:
    return _member(meta, name, kind) if name in meta else None


def _level(meta: dict[str, Any]) -> str | None:
    level: str | None = _optional(meta, LOG_LEVEL, str)
    return level


def _check_headers(request: Request, version: str, headers: Mirrored) -> None:
    source = NAME_SOURCES.get(request.method)
    name = request.params.get(source) if source is not None else None
    headers.check(request.method, name if isinstance(name, str) else None, version)


WORDS: Mapping[type, str] = {str: "a string", dict: "an object"}
