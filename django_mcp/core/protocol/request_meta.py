"""Read a message that a client has posted, and the metadata of a stateless request.

The order of the checks is observable, because clients probe with invalid requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidParams, Json, McpError
from django_mcp.core.protocol.headers import NAME_SOURCES, SESSION_ID, RequestHeaders
from django_mcp.core.protocol.initialize import check_capabilities
from django_mcp.core.protocol.jsonrpc import Message, Notification, Request, Response
from django_mcp.core.protocol.limits import cut
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST, Revision, Statefulness

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"


class RequestMeta(TypedDict):
    """The metadata of a request, by the names that the private data of a Frame has for it."""

    revision: Revision
    protocol_version: str
    client_capabilities: Json
    client_info: NotRequired[Json | None]
    log_level: NotRequired[str | None]


OF_NO_CLIENT: RequestMeta = {
    "revision": NEWEST,
    "protocol_version": NEWEST.version,
    "client_capabilities": {},
}
"""The metadata of a message that names no client."""


def has_request_meta(params: Json) -> bool:
    meta = params.get("_meta")
    return type(meta) is dict and (VERSION in meta or CAPABILITIES in meta)


def is_stateless(version: str | None) -> bool:
    """Whether a version, such as the value of a header, is a revision without sessions."""
    named = BY_VERSION.get(version or "")
    return named is not None and named.statefulness is Statefulness.STATELESS


def are_stateless(headers: RequestHeaders) -> bool:
    """Whether the version header names a revision without sessions.

    A gateway may send it in an open session too. Then the revision of the session holds.
    """
    return is_stateless(headers.version()) and SESSION_ID not in headers


def read_message(
    data: bytes,
    headers: RequestHeaders,
    served: Mapping[str, Revision],
    versions: Sequence[str] = (),
) -> tuple[Message | list[Any], RequestMeta | None]:
    """Read a posted message or batch, and its metadata if it belongs to no session.

    Raises the error of the first check that fails, with the id of the request. ``read`` explains
    the other arguments. The metadata of a notification are not read.
    """
    value = jsonrpc.decode_messages(data)
    if type(value) is list:
        return value, None
    message = jsonrpc.read(value)
    if type(message) is Response:
        return message, None
    try:
        if not has_request_meta(message.params) and not are_stateless(headers):
            return message, None
        if type(message) is Notification:
            return message, OF_NO_CLIENT
        return message, read(message, headers, served, versions)
    except McpError as error:
        error.request_id = message.id if type(message) is Request else None
        raise


def read(
    request: Request,
    headers: RequestHeaders | None,
    served: Mapping[str, Revision],
    versions: Sequence[str] = (),
) -> RequestMeta:
    """Return the metadata of ``request``; raise the error of the first check that fails.

    ``headers`` are from the HTTP request, or None for other transports; ``served`` maps the
    supported versions to their revisions. A server without any lists all its ``versions``: the
    client may open a session of one of them.
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
    # If the revision is switched off, this is reported before headers are compared: only that error
    # makes a client fall back to an older revision.
    if headers is not None and (revision is not None or not is_stateless(version)):
        source = NAME_SOURCES.get(method)
        name = None if source is None else params.get(source)
        headers.check(method, name if type(name) is str else None, version)
    if revision is None:
        raise McpError.unsupported_protocol_version(version, tuple(served or versions))
    if method not in revision.requests:
        raise McpError.method_not_found(f"Method not found: {cut(method)}")
    described: RequestMeta = {
        "revision": revision,
        "protocol_version": version,
        "client_capabilities": capabilities,
    }
    if CLIENT_INFO in meta:
        described["client_info"] = meta[CLIENT_INFO]
        if type(meta[CLIENT_INFO]) is not dict:
            raise _invalid_member(CLIENT_INFO, "an object")
    if LOG_LEVEL in meta:
        described["log_level"] = meta[LOG_LEVEL]
        if type(meta[LOG_LEVEL]) is not str:
            raise _invalid_member(LOG_LEVEL, "a string")
    if capabilities:
        check_capabilities(capabilities, f"params._meta[{CAPABILITIES!r}]")
    return described


def _invalid_member(name: str, wanted: str) -> InvalidParams:
    return InvalidParams(f"params._meta must have {name!r}, {wanted}")
