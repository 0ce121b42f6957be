"""A connection over HTTP: requests to the ASGI application of an endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django_mcp import registry, routing
from django_mcp.core.auth.base import Principal
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.protocol import headers, jsonrpc
from django_mcp.core.protocol.errors import McpError
from django_mcp.core.protocol.revisions import Feature
from django_mcp.core.server.server import Server
from django_mcp.testing.asgi import TIMEOUT, Exchange, Message, http_scope
from django_mcp.testing.connections.base import Connection, Facts, cancelled
from django_mcp.transports.http.endpoint import Endpoint

if TYPE_CHECKING:
    from django_mcp.testing.client import Client


@dataclass(frozen=True, eq=False)
class FixedAuthentication:
    """Authenticates every request as the principal of the test."""

    principal: Principal

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        return self.principal


class HttpConnection(Connection):
    """Requests to the ASGI application of the server's endpoint."""

    name = "http"

    def __init__(self, facts: Facts, listener: Client) -> None:
        super().__init__(facts, listener)
        if facts.principal is None:
            self._application = routing.endpoint(facts.server)
        else:
            self._application = Endpoint(
                facts.server,
                registry.authentication_by(facts.server, (FixedAuthentication(facts.principal),)),
            )

    async def listen(self, ready: Callable[[], None]) -> None:
        async with self._exchange("GET", EVENT_STREAM) as exchange:
            self.status = await exchange.status()
            if self.status != 200:
                raise ConnectionError(f"HTTP {self.status}: {await exchange.body()!r}")
            ready()
            async for event in exchange.events():
                if event.data:
                    await self._receive(json.loads(event.data))

    async def close(self) -> None:
        if self.session_id is not None:
            async with self._exchange("DELETE", {}) as exchange:
                self.status = await exchange.status()

    async def send(self, data: bytes) -> Message | None:
        try:
            message = jsonrpc.decode(data)
        except McpError:
            message = None
        accepted = "application/json, text/event-stream"
        usual = {"content-type": "application/json", "accept": accepted}
        revision = self.listener.revision
        if revision.has(Feature.REQUEST_HEADERS):
            usual |= request_headers(self.facts.server, revision.version, message)
        async with self._exchange("POST", usual, data) as exchange:
            try:
                return await self._response(exchange)
            except asyncio.CancelledError:
                if revision.has(Feature.DISCONNECT_CANCELS):
                    exchange.disconnect()
                    await exchange.wait_closed()
                elif isinstance(message, dict) and "id" in message:
                    await self.notify(cancelled(message))
                raise

    def _exchange(self, method: str, extra: Mapping[str, str], body: bytes = b"") -> Exchange:
        session = {} if self.session_id is None else {"mcp-session-id": self.session_id}
        if session and self.listener.revision.has(Feature.VERSION_HEADER):
            session["mcp-protocol-version"] = self.listener.revision.version
        sent = {**session, **extra, **self.facts.headers}
        scope = http_scope(method, self.facts.path, headers=sent, query=self.facts.query)
        # A shorter one is that of the client, which leaves time to close the connection.
        timeout = max(TIMEOUT, self.facts.timeout)
        return Exchange(self._application, scope, body, timeout=timeout)

    async def _response(self, exchange: Exchange) -> Message | None:
        self.status = await exchange.status()
        received = await exchange.headers()
        self.session_id = received.get("mcp-session-id", self.session_id)
        if received.get("content-type") == "text/event-stream":
            return await self._streamed_response(exchange)
        body = await exchange.body()
        if self.status == 202 and not body:
            return None
        try:
            return cast(Message, json.loads(body))
        except ValueError as error:
            raise ConnectionError(f"HTTP {self.status}: {body[:200]!r}") from error

    async def _streamed_response(self, exchange: Exchange) -> Message:
        """The response on a stream, which is resumed where the server closes the connection."""
        event_id = ""
        async for event in exchange.events():
            event_id = event.id
            # An event without data only has the id for a resumption of the stream.
            message = await self._receive(json.loads(event.data)) if event.data else None
            if message is not None:
                return message
        if not event_id:
            raise ConnectionError("The stream ended without the response")
        async with self._exchange("GET", {**EVENT_STREAM, "last-event-id": event_id}) as resumed:
            return await self._streamed_response(resumed)

    async def _receive(self, message: Message) -> Message | None:
        """The message if it is a response; requests of the server are answered."""
        if "method" not in message:
            return message
        if "id" in message:
            await self._respond(message)
        else:
            self.listener.receive_notification(message)
        return None


EVENT_STREAM = {"accept": "text/event-stream"}


def request_headers(server: Server, version: str, message: Any) -> dict[str, str]:
    """The headers of a client of a stateless revision, which repeat parts of its message."""
    repeated = {"mcp-protocol-version": version}
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return repeated
    repeated["mcp-method"] = message["method"]
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get(headers.NAME_SOURCES.get(message["method"], ""))
    if isinstance(name, str):
        repeated["mcp-name"] = headers.encode_value(name)
        repeated |= _argument_headers(server, name, params.get("arguments"))
    return repeated


def _argument_headers(server: Server, tool: str, arguments: Any) -> dict[str, str]:
    """The headers which repeat arguments, for tools which declare them."""
    component = server.components.find(ToolComponent.kind, tool)
    repeated: dict[str, str] = {}
    for param in component.param_headers if isinstance(component, ToolComponent) else ():
        value = arguments
        for name in param.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            repeated[param.header.decode()] = headers.encode_value(text)
    return repeated
