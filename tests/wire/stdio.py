"""A client of a connection over stdio, in the process of the test: no pipe, and no process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, cast

from django_mcp import Server, registry
from django_mcp.testing.asgi import TIMEOUT
from django_mcp.transports.connection.stdio import StdioConnection
from tests.wire.messages import STATELESS, WireClient, encoded, notification


class StdioClient(WireClient):
    """Sends lines, and receives those that the connection writes."""

    def __init__(self, server: Server, version: str = STATELESS, **facts: Any) -> None:
        super().__init__(version=version, **facts)
        self.connection = StdioConnection(registry.configure(server), cast(BinaryIO, self))
        self._in: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._out: asyncio.Queue[Any] = asyncio.Queue()

    # The file that the connection writes to.

    def write(self, line: bytes) -> int:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self._out.put_nowait(json.loads(line))
        return len(line)

    def flush(self) -> None:
        """Do nothing."""

    # The client.

    def send(self, message: Any) -> Any:
        """Send a message, or the bytes of a line; returns the id of a request."""
        self._in.put_nowait(encoded(message) + b"\n")
        return message.get("id") if isinstance(message, dict) else None

    def notify(self, method: str, **params: Any) -> None:
        self.send(notification(method, **params))

    async def message(self) -> Any:
        """The next message that the connection has written."""
        async with asyncio.timeout(TIMEOUT):
            return await self._out.get()

    @property
    def has_message(self) -> bool:
        return not self._out.empty()

    async def initialize(self) -> Any:
        """Open the session; returns the answer."""
        self.send(self.initialize_request())
        answer = await self.message()
        self.notify("notifications/initialized")
        return answer

    def close(self) -> None:
        """End the input of the connection."""
        self._in.put_nowait(None)

    def serve(self) -> asyncio.Future[None]:
        """Let the connection serve this client until its input ends."""
        return asyncio.ensure_future(self.connection.serve(self._lines()))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve this client within the block, whose end is that of the input."""
        serving = self.serve()
        yield
        self.close()
        async with asyncio.timeout(TIMEOUT):
            await serving

    async def _lines(self) -> AsyncIterator[bytes]:
        while (line := await self._in.get()) is not None:
            yield line
