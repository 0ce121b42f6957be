"""A server with every kind of component, and a client in a session."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp import Frame, Server
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, Message


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def add(a: int = 0) -> int:
        """Adds."""
        return a

    @server.tool
    async def count(frame: Frame) -> str:
        """Counts."""
        frame.client.log("error", "counted")
        await asyncio.sleep(0.05)
        return "done"

    @server.tool
    async def wait(frame: Frame) -> str:
        """Waits."""
        await frame.client.alog("error", "waiting")
        await asyncio.Event().wait()
        return "never"

    return server


async def in_session(
    server: Server | None = None, version: str = NEWEST_SESSION, **facts: Any
) -> AsgiClient:
    peer = AsgiClient(server or shop(), version, **facts)
    await peer.initialize()
    return peer


def cancelled(id: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
