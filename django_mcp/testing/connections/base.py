"""The connection of a test client to its server: what all kinds of it have."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django_mcp.core.auth.base import Principal
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.server.server import Server
from django_mcp.testing.asgi import Message
from django_mcp.transports.session_engine import CLIENT_CANCELLED

if TYPE_CHECKING:
    from django_mcp.testing.client import Client


@dataclass(frozen=True, slots=True)
class Facts:
    """The server and the client of a connection."""

    server: Server
    principal: Principal | None
    """None: the transport authenticates the client, as in production."""
    headers: Mapping[str, str]
    query: str
    session: Any
    timeout: float
    """Seconds that the client waits for a response."""

    @property
    def path(self) -> str:
        return "/" + self.server.path.strip("/")


class Connection(ABC):
    """The connection of one client to its server."""

    name: ClassVar[str]

    def __init__(self, facts: Facts, listener: Client) -> None:
        self.facts = facts
        self.listener = listener
        self.session_id: str | None = None
        self.status: int | None = None
        """The HTTP status of the newest response, where there is one."""

    async def open(self) -> None:  # noqa: B027 - most have nothing to do.
        """Connect."""

    async def close(self) -> None:  # noqa: B027
        """Disconnect, and end the session."""

    async def request(self, message: Message) -> Message:
        """The response to a request; a cancellation of this is sent to the server."""
        response = await self.send(jsonrpc.encode(message))
        if response is None:
            raise ConnectionError(f"The server accepted a request without a response: {message}")
        return response

    async def notify(self, message: Message) -> None:
        """Send a notification or a response."""
        response = await self.send(jsonrpc.encode(message))
        if response is not None:
            raise ConnectionError(f"The server did not accept what is not answered: {response}")

    async def _respond(self, request: Message) -> None:
        await self.notify(await self.listener.answer_request(request))

    async def listen(self, ready: Callable[[], None]) -> None:
        """Receive notifications of the session until cancelled; calls ``ready`` once subscribed."""
        ready()
        await forever()

    @abstractmethod
    async def send(self, data: bytes) -> Message | None:
        """Send bytes without changes, and return the response, if there is one."""


def cancelled(message: Message) -> Message:
    params = {"requestId": message["id"], "reason": CLIENT_CANCELLED}
    return jsonrpc.notification("notifications/cancelled", params)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()
