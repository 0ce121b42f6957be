# shop/tests.py
import asyncio
from unittest.mock import AsyncMock

from shop.consumers import McpConsumer

from django_mcp.transports.connection.connection import MessageSink


async def test_connection_can_be_ended():
    sink: MessageSink = McpConsumer()
    closed = asyncio.Event()
    sink.outgoing, sink.sender = asyncio.Queue(), asyncio.ensure_future(closed.wait())
    sink.close = AsyncMock(side_effect=closed.set)
    assert not sink.is_stuck
    sink.write(b"{}")
    assert sink.is_stuck
    sink.end()
    await closed.wait()
    assert sink.sender.cancelled()
