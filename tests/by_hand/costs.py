"""What several tests of costs send and ask."""

from __future__ import annotations

from typing import Any

from django_mcp import Server
from tests.wire.asgi import AsgiClient
from tests.wire.messages import Message

BATCHES = "2025-03-26"
PRIME = 2**61 - 1
"""All multiples of it have one hash."""


MEGABYTE = 1_000_000


def taking(annotation: Any = None, schema: Message | None = None) -> Server:
    """A server whose tool takes one argument ``a``."""
    server = Server("shop")
    if schema is not None:

        @server.tool(input_schema=schema)
        async def take(arguments: Any) -> str:
            return "taken"
    else:

        async def take_one(a: Any) -> str:
            return "taken"

        take_one.__annotations__ = {"a": annotation, "return": str}
        server.tool(name="take")(take_one)
    return server


def schema(inner: Any, **definitions: Any) -> Message:
    return {"type": "object", "properties": {"a": inner}, "$defs": definitions}


COLLIDING = [number * PRIME for number in range(1, 9001)]


async def session(version: str = BATCHES, **facts: Any) -> AsgiClient:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0) -> int:
        return a

    peer = AsgiClient(server, version, **facts)
    await peer.initialize()
    return peer


NOTING = {
    "sessions": {"BACKEND": "tests.by_hand.stores.NotingSessionStore"},
    "events": {"BACKEND": "tests.by_hand.stores.NotingEventStore"},
}
