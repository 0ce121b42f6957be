"""The metadata of a stateless request, and its validation.

The order of the checks is observable, because clients probe with invalid requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django_mcp.protocol.errors import InvalidParams, Json, McpError
from django_mcp.protocol.headers import NAME_SOURCES, RequestHeaders
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.limits import cut
from django_mcp.protocol.revisions import BY_VERSION, Revision, Statefulness

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"


class RequestMeta(NamedTuple):
    """The metadata of a request: its revision, its client and the client's capabilities."""

    revision: Revision
    capabilities: Json
    client_info: Json | None
    log_level: str | None


def has_request_meta(params: Json) -> bool:
    meta = params.get("_meta")
    return isinstance(meta, dict) and (VERSION in meta or CAPABILITIES in meta)


def is_stateless(version: str | None) -> bool:
    """Whether a version, such as that of a header, is a revision without sessions."""
    named = BY_VERSION.get(version or "")
    return named is not None and named.statefulness is Statefulness.STATELESS


def read(
    request: Request,
    headers: RequestHeaders | None,
    served: Mapping[str, Revision],
    versions: Sequence[str] = (),
) -> RequestMeta:
    """Return the metadata of ``request``; raise the error of the first check that fails.

    ``headers`` are those of the HTTP request, or None for other transports; ``served`` maps the
    supported versions to their revisions. A server without any lists all its ``versions``, of which
    the client may open a session.
    """
    method, params, meta = request.method, request.params, request.params.get("_meta")
    if type(meta) is not dict:
        raise InvalidParams("params._meta must be an object that describes the request")
    version = _member(meta, VERSION, str)
    capabilities = _member(meta, CAPABILITIES, dict)
    revision = served.get(version)
    # Where a revision is switched off, a client with headers of another one has to learn that
    # first: it falls back then.
    if headers is not None and (revision is not None or not is_stateless(version)):
        source = NAME_SOURCES.get(method)
        name = None if source is None else params.get(source)
        headers.check(method, name if type(name) is str else None, version)
    if revision is None:
        raise McpError.unsupported_protocol_version(version, tuple(served or versions))
    if method not in revision.requests:
        raise McpError.method_not_found(f"Method not found: {cut(method)}")
    client_info = _member(meta, CLIENT_INFO, dict) if CLIENT_INFO in meta else None
    log_level = _member(meta, LOG_LEVEL, str) if LOG_LEVEL in meta else None
    return RequestMeta(revision, capabilities, client_info, log_level)


def _member(meta: dict[str, Any], name: str, kind: type) -> Any:
    value = meta.get(name)
    if type(value) is not kind:
        wanted = "a string" if kind is str else "an object"
        raise InvalidParams(f"params._meta must have {name!r}, {wanted}")
    return value
