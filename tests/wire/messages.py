"""The messages and headers that clients of each revision send, without a transport.

Clients of one transport derive from ``WireClient``. They send what a test passes, and hide nothing
that is received.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Message = dict[str, Any]
Changes = Mapping[str, str | None]
"""Headers that differ from the usual ones; None removes one."""

STATELESS = "2026-07-28"
SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
NEWEST_SESSION = SESSIONS[-1]
META = "io.modelcontextprotocol/"
VERSION = META + "protocolVersion"
CAPABILITIES = META + "clientCapabilities"
LOG_LEVEL = META + "logLevel"
ACCEPT = "application/json, text/event-stream"
JSON = {"content-type": "application/json", "accept": ACCEPT}
USUAL = {"POST": JSON, "GET": {"accept": "text/event-stream"}}
"""The headers of each HTTP method, apart from those of a revision."""
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
}
"""The parameter that the header Mcp-Name repeats, for each method that has it."""
REPORTING = {"progressToken": "wire", LOG_LEVEL: "debug"}
"""The metadata of a client that receives progress and all log messages."""


@dataclass(kw_only=True)
class WireClient:
    """A client of one revision, and the session that it has opened, if any."""

    version: str = STATELESS
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] | None = None
    """Headers of all requests, besides those of the revision."""
    session: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of all requests, besides those of the revision."""
    client_info: Mapping[str, Any] = field(default_factory=lambda: {"name": "wire", "version": "1"})

    def __post_init__(self) -> None:
        self._ids = count(1)

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = None
    ) -> Message:
        """A request with the metadata of the revision; those in ``params`` win."""
        identity = next(self._ids) if id is None else id
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}
        return self.described(message)

    def described(self, message: Message) -> Message:
        """A message with the metadata of the revision, if it has parameters; its own win."""
        if "params" not in message:
            return message
        params = {**message["params"]}
        meta = {**self._usual_meta(), **params.get("_meta", {})}
        if meta:
            params["_meta"] = meta
        return {**message, "params": params}

    def call(
        self,
        tool: str,
        /,
        *,
        id: Any = None,
        params: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Message:
        """A request for a tool; ``params`` are further parameters, such as ``_meta``."""
        named = {"name": tool, "arguments": arguments, **(params or {})}
        return self.request("tools/call", named, id=id)

    def listen(self, id: Any = "listen", **notifications: Any) -> Message:
        return self.request("subscriptions/listen", {"notifications": notifications}, id=id)

    def initialize_request(self) -> Message:
        params = {
            "protocolVersion": self.version,
            "capabilities": dict(self.capabilities),
            "clientInfo": dict(self.client_info),
        }
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": "initialize", "params": params}

    def headers_of(
        self, message: Any, changes: Changes | None = None, *, method: str = "POST"
    ) -> dict[str, str]:
        """The headers of an HTTP request with a message, or with none where there is no body."""
        usual = {**USUAL.get(method, {"accept": ACCEPT})}
        if self.version == STATELESS:
            usual |= stateless_headers(message)
        elif self.session is not None:
            usual["mcp-session-id"] = self.session
        changed: dict[str, str | None] = {**usual, **(self.headers or {}), **(changes or {})}
        return {name: value for name, value in changed.items() if value is not None}

    def _usual_meta(self) -> Message:
        if self.version != STATELESS:
            return dict(self.meta)
        return {VERSION: self.version, CAPABILITIES: dict(self.capabilities), **self.meta}


def stateless_headers(message: Any) -> dict[str, str]:
    """The headers that repeat parts of a stateless message."""
    repeated = {"mcp-protocol-version": STATELESS}
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return repeated
    repeated["mcp-method"] = message["method"]
    params = message.get("params")
    name = params.get(NAMED.get(message["method"], "")) if isinstance(params, dict) else None
    if isinstance(name, str):
        repeated["mcp-name"] = header_value(name)
    return repeated


def header_value(text: str) -> str:
    """A value as the specification encodes it where a header cannot contain it."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response(id: Any, result: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": dict(result)}


def encoded(message: Any) -> bytes:
    """The bytes of a message; bytes are returned unchanged, and None is no body."""
    if message is None:
        return b""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def text_of(result: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    return str(result["content"][0]["text"])


def messages_of(body: bytes) -> list[Message]:
    """The messages in a stream of events, which is parsed by hand."""
    messages = []
    for event in body.decode().replace("\r\n", "\n").split("\n\n"):
        data = [line[5:].strip() for line in event.split("\n") if line.startswith("data:")]
        if any(data):
            messages.append(json.loads("\n".join(data)))
    return messages
