"""The metadata of a stateless request, and its validation.

The order of the checks is observable, because clients probe with invalid requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django_mcp.protocol.errors import InvalidParams, Json, McpError
from django_mcp.protocol.headers import NAME_SOURCES, RequestHeaders
from django_mcp.protocol.initialize import check_capabilities
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
    _, method, params = request
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise InvalidParams("params._meta must be an object that describes the request")
    version = meta.get(VERSION)
    capabilities = meta.get(CAPABILITIES)
    if type(version) is not str:
        raise _invalid_member(VERSION, "a string")
    if type(capabilities) is not dict:
        raise _invalid_member(CAPABILITIES, "an object")
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
    client_info = meta.get(CLIENT_INFO)
    log_level = meta.get(LOG_LEVEL)
    if type(client_info) is not dict and CLIENT_INFO in meta:
        raise _invalid_member(CLIENT_INFO, "an object")
    if type(log_level) is not str and LOG_LEVEL in meta:
        raise _invalid_member(LOG_LEVEL, "a string")
    if capabilities:
        check_capabilities(capabilities, f"params._meta[{CAPABILITIES!r}]")
    return RequestMeta(revision, capabilities, client_info, log_level)


def _invalid_member(name: str, wanted: str) -> InvalidParams:
    return InvalidParams(f"params._meta must have {name!r}, {wanted}")
