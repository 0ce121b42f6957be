"""A channel layer that receives on one event loop at a time, in a process which has several."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict
from typing import Any

import pytest
from channels.layers import BaseChannelLayer

from django_mcp.pubsub.layer_channel import LayerChannel
from tests.waiting import until, wait_until

TIMEOUT = 20.0
groups: dict[str, set[str]] = defaultdict(set)
errors: list[str] = []


class OneLoopLayer(BaseChannelLayer):
    """Refuses a second loop as the layer of channels_redis does."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.receiving: set[asyncio.AbstractEventLoop] = set()
        self.sent: asyncio.Queue[Any] = asyncio.Queue()

    async def new_channel(self, prefix: str = "specific") -> str:
        return f"{prefix}.{id(self)}"

    async def group_add(self, group: str, channel: str) -> None:
        groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        groups[group].discard(channel)

    async def group_send(self, group: str, message: Any) -> None:
        """Send nothing."""

    async def send(self, channel: str, message: Any) -> None:
        self.sent.put_nowait(message)

    async def receive(self, channel: str) -> Any:
        loop = asyncio.get_running_loop()
        if self.receiving - {loop}:
            errors.append("Two event loops are trying to receive() on one channel layer at once!")
            raise RuntimeError(errors[-1])
        self.receiving.add(loop)
        return await self.sent.get()


@pytest.fixture(autouse=True)
def _layer(settings: Any) -> None:
    backend = f"{__name__}.OneLoopLayer"
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": backend}}
    groups.clear()
    errors.clear()


async def receive_until(end: threading.Event) -> None:
    channel = LayerChannel(lambda _: None, is_used=lambda: True)
    await channel.open()
    await until(end.is_set)
    await channel.close()


def joined() -> int:
    return sum(map(len, groups.values()))


def test_each_event_loop_receives_with_a_layer_of_its_own() -> None:
    end = threading.Event()
    threads = [
        threading.Thread(target=asyncio.run, args=(receive_until(end),), daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: joined() == 3)
        assert errors == []
    finally:
        end.set()
        for thread in threads:
            thread.join(TIMEOUT)
    assert joined() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_receives_though_its_parent_did() -> None:
    end = threading.Event()

    async def fork_while_receiving() -> int:
        channel = LayerChannel(lambda _: None, is_used=lambda: True)
        await channel.open()
        child = os.fork()
        if not child:  # pragma: no cover - coverage does not follow it
            # The child has no running loop, as after a fork by a server.
            asyncio._set_running_loop(None)
            end.set()
            try:
                asyncio.run(receive_until(end))
            finally:
                os._exit(len(errors))
        await channel.close()
        return os.waitpid(child, 0)[1]

    assert asyncio.run(fork_while_receiving()) == 0
