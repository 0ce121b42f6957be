"""A shop with a slow and a quick tool, and its client."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp import Frame, Server
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}


async def peer_of(server: Server, version: str = NEWEST_SESSION, **facts: Any) -> AsgiClient:
    peer = AsgiClient(server, version, **facts)
    await peer.initialize()
    return peer


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0, b: int = 0) -> int:
        return a + b

    @server.tool
    async def count(frame: Frame) -> str:
        for number in range(1000):
            await frame.client.alog("error", f"{number}")
            await asyncio.sleep(0.01)
        return "done"

    return server
