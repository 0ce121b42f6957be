"""A start hook, and a first client that leaves while it runs."""

from __future__ import annotations

import asyncio

from django_mcp import Server
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import text_of


@spec("answers-03")
async def test_first_client_that_leaves_during_start_cancels_no_other_request() -> None:
    server = Server("shop")
    began, go_on = asyncio.Event(), asyncio.Event()

    @server.hook
    async def start() -> None:
        began.set()
        await go_on.wait()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    peer = AsgiClient(server)
    first = peer.open_post(peer.call("add", a=1, b=1))
    async with first, peer.open_post(peer.call("add", a=1, b=2)) as second:
        await began.wait()
        await asyncio.sleep(0.15)  # By now the connection of the first is looked after.
        first.disconnect()
        first.task.cancel()  # As servers do it.
        await asyncio.wait([first.task])
        go_on.set()
        response = await second.reply()

    assert text_of(response.result) == "3"
