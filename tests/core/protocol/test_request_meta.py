"""One reader of posted messages: what it returns, and which of several errors it raises."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    ParseError,
    UnsupportedProtocolVersion,
)
from django_mcp.core.protocol.headers import RequestHeaders
from django_mcp.core.protocol.jsonrpc import Notification, Request, Response
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST
from tests.rows import rows

SERVED = {NEWEST.version: NEWEST}
META = {request_meta.VERSION: NEWEST.version, request_meta.CAPABILITIES: {}}
HEADERS = {
    b"mcp-protocol-version": NEWEST.version.encode(),
    b"mcp-method": b"tools/call",
    b"mcp-name": b"add",
}


def call(**changes: Any) -> dict[str, Any]:
    params = {"name": "add", "_meta": META}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **changes}


def described(**members: Any) -> dict[str, Any]:
    return call(params={"name": "add", "_meta": {**META, **members}})


def read(message: Any, headers: dict[bytes, bytes] = HEADERS) -> Any:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return request_meta.read_message(data, RequestHeaders.of(tuple(headers.items())), SERVED)


def test_stateless_request_is_read_with_its_metadata() -> None:
    info = {"name": "client", "version": "1"}
    message = described(**{request_meta.CLIENT_INFO: info, request_meta.LOG_LEVEL: "debug"})
    assert read(message) == (
        Request(7, "tools/call", message["params"]),
        {
            "revision": NEWEST,
            "protocol_version": NEWEST.version,
            "client_capabilities": {},
            "client_info": info,
            "log_level": "debug",
        },
    )


NAMED = {"name": "add"}


@rows(
    ("posted", "message"),
    [
        ([call()], [call()]),
        ({"jsonrpc": "2.0", "id": 7, "result": {}}, Response(7, {}, None)),
        (call(params=NAMED), Request(7, "tools/call", NAMED)),
        ({"jsonrpc": "2.0", "method": "a/b"}, Notification("a/b", {})),
    ],
)
def test_message_without_metadata_belongs_to_a_session(posted: Any, message: Any) -> None:
    assert read(posted, {}) == (message, None)


def test_version_header_makes_a_message_without_metadata_stateless() -> None:
    notification = {"jsonrpc": "2.0", "method": "a/b"}
    message, meta = read(notification)
    assert message == Notification("a/b", {})
    assert meta is not None
    with pytest.raises(InvalidParams, match="params._meta"):
        read(call(params=NAMED))
    in_session = {**HEADERS, b"mcp-session-id": b"a"}
    assert read(notification, in_session) == (message, None)


OLD = next(version for version in BY_VERSION if version != NEWEST.version)
WRONG = {**HEADERS, b"mcp-method": b"tools/list"}
OLD_HEADERS = {**HEADERS, b"mcp-protocol-version": OLD.encode()}
NO_OBJECTS = {request_meta.CLIENT_INFO: 1, request_meta.LOG_LEVEL: 1}


@rows(
    ("posted", "headers", "error", "text"),
    [
        (b"{", WRONG, ParseError, "JSON"),
        (call(jsonrpc="1.0", method=1), WRONG, InvalidRequest, "jsonrpc"),
        (call(method=1, params=1), WRONG, InvalidRequest, "method"),
        (call(params=1), WRONG, InvalidRequest, "params"),
        (described(**{request_meta.VERSION: 1}), WRONG, InvalidParams, "protocolVersion"),
        (described(**{request_meta.CAPABILITIES: 1}), WRONG, InvalidParams, "Capabilities"),
        (described(**NO_OBJECTS), WRONG, HeaderMismatch, "Mcp-Method"),
        (described(**{request_meta.VERSION: OLD}), HEADERS, HeaderMismatch, "Version"),
        (
            described(**{request_meta.VERSION: OLD}),
            OLD_HEADERS,
            UnsupportedProtocolVersion,
            "version",
        ),
        (
            {**described(**NO_OBJECTS), "method": "no/method"},
            {**HEADERS, b"mcp-method": b"no/method"},
            MethodNotFound,
            "no/method",
        ),
        (described(**NO_OBJECTS), HEADERS, InvalidParams, "clientInfo"),
        (described(**{request_meta.LOG_LEVEL: 1}), HEADERS, InvalidParams, "logLevel"),
    ],
)
def test_first_of_several_errors_is_raised_with_the_id_of_the_request(
    posted: Any, headers: dict[bytes, bytes], error: type[McpError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        read(posted, headers)
    assert caught.value.request_id == (None if error is ParseError else 7)
