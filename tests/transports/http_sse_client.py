"""A client of HTTP+SSE, the transport of revision 2024-11-05, without a library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from django_mcp.testing.asgi import Application, Reply, http_scope, perform
from tests.wire.asgi import Exchange

JSON = {"content-type": "application/json"}


@dataclass
class HttpSseClient:
    """A client of revision 2024-11-05 with an open stream."""

    application: Application
    stream: Exchange
    endpoint_uri: str
    headers: dict[str, str]

    async def post(self, message: Any, **headers: str) -> Reply:
        parts = urlsplit(self.endpoint_uri)
        scope = http_scope(
            path=parts.path, query=parts.query, headers={**JSON, **self.headers, **headers}
        )
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await perform(self.application, scope, body)

    async def request(self, method: str, params: Any = None, *, id: Any = 1) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        reply = await self.post(message)
        assert (reply.status, reply.body) == (202, b"")
        return await self.message()

    async def notify(self, method: str, **params: Any) -> None:
        reply = await self.post({"jsonrpc": "2.0", "method": method, "params": params})
        assert reply.status == 202

    async def message(self) -> dict[str, Any]:
        event = await self.stream.event()
        assert event is not None
        assert (event.event, event.id) == ("message", "")
        message: dict[str, Any] = json.loads(event.data)
        return message

    async def initialize(self, **capabilities: Any) -> dict[str, Any]:
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": capabilities,
            "clientInfo": {"name": "old", "version": "1"},
        }
        response = await self.request("initialize", params)
        await self.notify("notifications/initialized")
        return response


@asynccontextmanager
async def connected(
    application: Application, *, path: str = "/desk/sse", **headers: str
) -> AsyncIterator[HttpSseClient]:
    scope = http_scope("GET", path, headers={"accept": "text/event-stream", **headers})
    async with Exchange(application, scope) as stream:
        event = await stream.event()
        assert event is not None
        assert event.event == "endpoint"
        endpoint_uri = urljoin("http://testserver/desk/sse", event.data)
        yield HttpSseClient(application, stream, endpoint_uri, headers)


async def not_found(scope: Any, receive: Any, send: Any) -> None:
    """A site without pages."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})
