"""A connection over stdio: lines to a server in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO, cast

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import McpError
from django_mcp.core.protocol.jsonrpc import Request, RequestId
from django_mcp.runtime import background
from django_mcp.testing.asgi import TIMEOUT, Message
from django_mcp.testing.connections.base import Connection, Facts, cancelled
from django_mcp.transports.connection import stdio

if TYPE_CHECKING:
    from django_mcp.testing.client import Client


class StdioConnection(Connection):
    """Lines to a connection over stdio, which is served in this process.

    The client must be opened and closed on the same event loop: use ``async with``.
    """

    name = "stdio"

    def __init__(self, facts: Facts, listener: Client) -> None:
        if facts.query or facts.headers or facts.session is not None:
            raise ValueError(
                "Query, headers and session are those of an HTTP request, which stdio does not have"
            )
        super().__init__(facts, listener)
        self.strays: list[Message] = []
        """Responses to unknown requests."""
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pending: dict[RequestId | None, asyncio.Future[Message]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        out = cast(BinaryIO, SimpleNamespace(write=self._receive, flush=lambda: None))
        connection = stdio.StdioConnection(self.facts.server, out, principal=self.facts.principal)
        self._serving = asyncio.ensure_future(connection.serve(self._iterate()))
        self._serving.add_done_callback(self._fail_pending)

    async def close(self) -> None:
        self._lines.put_nowait(None)
        if self._serving is not None:
            async with asyncio.timeout(TIMEOUT):
                await self._serving

    async def request(self, message: Message) -> Message:
        try:
            return await self._request(jsonrpc.encode(message), message["id"])
        except asyncio.CancelledError:
            await self.notify(cancelled(message))
            raise

    async def notify(self, message: Message) -> None:
        self._write(jsonrpc.encode(message))

    async def send(self, data: bytes) -> Message | None:
        try:
            message = jsonrpc.read(jsonrpc.decode(data))
        except McpError:
            # The error has no id, or the one that could be read.
            return await self._request(data, None)
        if isinstance(message, Request):
            return await self._request(data, message.id)
        self._write(data)
        return None

    async def _request(self, data: bytes, request_id: RequestId | None) -> Message:
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = response
        self._write(data)
        try:
            return await response
        finally:
            del self._pending[request_id]

    def _write(self, data: bytes) -> None:
        self._lines.put_nowait(data + b"\n")

    async def _iterate(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line

    def _receive(self, line: bytes) -> int:
        message: Message = json.loads(line)
        if "method" not in message:
            response = self._pending.get(message.get("id"), self._pending.get(None))
            if response is None or response.done():
                self.strays.append(message)
            else:
                response.set_result(message)
        elif "id" in message:
            background.spawn(self._respond(message))
        else:
            self.listener.receive_notification(message)
        return len(line)

    def _fail_pending(self, serving: asyncio.Task[None]) -> None:
        for response in self._pending.values():
            if not response.done():
                response.set_exception(ConnectionError("The conversation has ended"))
