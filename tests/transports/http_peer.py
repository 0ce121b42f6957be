"""An HTTP client without a library: for what the test client hides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from django_mcp import Server, routing
from django_mcp.core.protocol import request_meta
from django_mcp.core.protocol.sse import Event
from django_mcp.testing.asgi import Application, Exchange, Reply, http_scope, perform

ACCEPT = "application/json, text/event-stream"
MODERN = "2026-07-28"
PRIMED = "2025-11-25"


@dataclass
class Peer:
    """A client of one endpoint, with its session, if it has one, and its headers."""

    server: Server
    version: str = PRIMED
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    application: Application | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        self._ids = count(1)
        if self.application is None:
            self.application = routing.endpoint(self.server)

    # Messages.

    def request(self, method: str, params: Any = None, *, id: Any = None) -> dict[str, Any]:
        identity = next(self._ids) if id is None else id
        return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}

    def call(self, tool: str, *, id: Any = None, **arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", {"name": tool, "arguments": arguments}, id=id)

    def listen(self, *, id: Any, **wanted: Any) -> dict[str, Any]:
        return self.request("subscriptions/listen", {"notifications": wanted}, id=id)

    # Requests.

    async def initialize(self, *, ready: bool = True) -> None:
        params = {
            "protocolVersion": self.version,
            "capabilities": dict(self.capabilities),
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        reply = await self.post(self.request("initialize", params))
        self.session = reply.headers["mcp-session-id"]
        if ready:
            await self.notify("notifications/initialized")

    async def post(self, message: Any) -> Reply:
        return await perform(self._application, self._scope("POST", message), _body(message))

    async def notify(self, method: str, **params: Any) -> Reply:
        return await self.post({"jsonrpc": "2.0", "method": method, "params": params})

    async def delete(self) -> Reply:
        return await perform(self._application, self._scope("DELETE", None))

    def open_post(self, message: Any) -> Exchange:
        return Exchange(self._application, self._scope("POST", message), _body(message))

    def open_get(self, *, last: str | None = None, **headers: str) -> Exchange:
        resumed = {} if last is None else {"last-event-id": last}
        scope = self._scope("GET", None, {"accept": "text/event-stream", **resumed, **headers})
        return Exchange(self._application, scope)

    @asynccontextmanager
    async def stream(self, *, last: str | None = None) -> AsyncIterator[Exchange]:
        """Open a standalone stream; yields it after the response has started."""
        async with self.open_get(last=last) as stream:
            assert await stream.status() == 200
            yield stream

    @property
    def _application(self) -> Application:
        assert self.application is not None
        return self.application

    def _scope(
        self, method: str, message: Any, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        usual = {"content-type": "application/json", "accept": ACCEPT}
        if self.version == MODERN:
            usual |= self._modern(message)
        elif self.session is not None:
            usual["mcp-session-id"] = self.session
        path = "/" + self.server.path.strip("/")
        return http_scope(method, path, headers={**usual, **(headers or {}), **self.headers})

    def _modern(self, message: Any) -> dict[str, str]:
        if not isinstance(message, dict):
            return {"mcp-protocol-version": self.version}
        message["params"]["_meta"] = {
            request_meta.VERSION: self.version,
            request_meta.CAPABILITIES: dict(self.capabilities),
        }
        named = message["params"].get("name")
        name = {} if named is None else {"mcp-name": named}
        return {"mcp-protocol-version": self.version, "mcp-method": message["method"], **name}


async def message_of(stream: Exchange) -> dict[str, Any]:
    """Return the next message on a stream."""
    message: dict[str, Any] = json.loads((await event_of(stream)).data)
    return message


async def event_of(stream: Exchange) -> Event:
    """Return the next event with data on a stream."""
    while True:
        event = await stream.event()
        assert event is not None, "The stream has ended"
        if event.data:
            return event


async def methods_of(stream: Exchange, number: int) -> list[str]:
    """Return the methods of the next messages."""
    return [(await message_of(stream))["method"] for _ in range(number)]


def _body(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()
