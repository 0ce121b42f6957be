"""HTTP requests as clients of each revision send them, for tests that modify them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from django_mcp import Server, routing
from django_mcp.core.protocol import jsonrpc
from django_mcp.testing.asgi import Application, Exchange, Message, Reply, http_scope, perform
from django_mcp.testing.connections.http import request_headers

STATELESS = "2026-07-28"
SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

Headers = Mapping[str, str | None]


class Wire:
    """A client of one server that sends exactly what a test passes."""

    def __init__(
        self,
        server: Server,
        version: str = STATELESS,
        *,
        application: Application | None = None,
        always: Mapping[str, str] | None = None,
    ) -> None:
        self.server = server
        self.version = version
        self.path = "/" + server.path.strip("/")
        self.application = application or routing.endpoint(server)
        self.session: dict[str, str] = {}
        self._always = always or {}
        self._ids = count(1)

    # Messages.

    def message(self, method: str, params: Mapping[str, Any] | None = None) -> Message:
        """Return a request of this version."""
        return jsonrpc.request(next(self._ids), method, {**(params or {}), **self._described()})

    def call(self, tool: str, **arguments: Any) -> Message:
        """Return a tool call."""
        return self.message("tools/call", {"name": tool, "arguments": arguments})

    def initialize_request(self) -> Message:
        """Return an initialize request."""
        params = {
            "protocolVersion": self.version,
            "capabilities": {},
            "clientInfo": {"name": "wire", "version": "1"},
        }
        return jsonrpc.request(next(self._ids), "initialize", params)

    def _described(self) -> Message:
        if self.version != STATELESS:
            return {"_meta": {"progressToken": "wire"}}
        meta = {VERSION: STATELESS, CAPABILITIES: {}, LOG_LEVEL: "debug", "progressToken": "wire"}
        return {"_meta": meta}

    # Requests.

    def headers(self, message: Any, changes: Headers | None = None) -> dict[str, str]:
        """The headers of a message; a change to None removes one."""
        usual = {**JSON, **self.session, **self._always}
        if self.version == STATELESS:
            usual |= request_headers(self.server, self.version, message)
        changed = {**usual, **(changes or {})}
        return {name: value for name, value in changed.items() if value is not None}

    def scope(self, message: Any, changes: Headers | None = None, **options: Any) -> Message:
        """The ASGI scope of a POST with a message."""
        return http_scope(path=self.path, headers=self.headers(message, changes), **options)

    async def post(
        self,
        message: Any,
        changes: Headers | None = None,
        *,
        body: bytes | Iterable[bytes] | None = None,
    ) -> Reply:
        """Return the response to a POST with a message, or with a ``body`` instead of it."""
        scope = self.scope(message, changes)
        return await perform(self.application, scope, encoded(message) if body is None else body)

    def exchange(self, message: Any, changes: Headers | None = None) -> Exchange:
        """Return a POST with a message, whose response is streamed."""
        return Exchange(self.application, self.scope(message, changes), encoded(message))

    async def request(self, method: str, changes: Headers | None = None) -> Reply:
        """Return the response to a request without a body."""
        scope = http_scope(method, self.path, headers=self.headers(None, changes))
        return await perform(self.application, scope)

    # Sessions.

    async def open(self) -> Reply:
        """Open a session; all further requests carry its id."""
        reply = await self.post(self.initialize_request())
        self.session = {"mcp-session-id": reply.headers["mcp-session-id"]}
        await self.post(jsonrpc.notification("notifications/initialized"))
        return reply


def encoded(message: Any) -> bytes:
    """The bytes of a message; bytes are returned unchanged."""
    return message if isinstance(message, bytes) else jsonrpc.encode(message)
