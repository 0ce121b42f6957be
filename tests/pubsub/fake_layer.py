"""A channel layer for tests, which notes what it is asked, and receives what a test sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from django_mcp.pubsub import channel_layer, layer_channel
from django_mcp.pubsub.channel_layer import TYPE, CircuitBreaker
from tests.waiting import until


class FakeLayer:
    def __init__(self) -> None:
        self.groups: dict[str, set[str]] = {}
        self.channels: list[str] = []
        self.sent: list[tuple[str, Any]] = []
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.error: Exception | None = None
        """What every operation raises but receiving."""
        self.hangs = False
        self.attempts = 0
        self.receiving = 0

    async def new_channel(self) -> str:
        self.channels.append(f"channel-{len(self.channels)}")
        return self.channels[-1]

    async def group_add(self, group: str, channel: str) -> None:
        await self._use()
        self.groups.setdefault(group, set()).add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self.groups.get(group, set()).discard(channel)

    async def group_send(self, group: str, message: Any) -> None:
        await self._use()
        self.sent.append((group, message))

    async def send(self, channel: str, message: Any) -> None:
        await self._use()
        if message["type"] == layer_channel.END:
            self.incoming.put_nowait(message)
        else:
            self.sent.append((channel, message))

    async def receive(self, channel: str) -> Any:
        self.receiving += 1
        try:
            message = await self.incoming.get()
        finally:
            self.receiving -= 1
        if isinstance(message, Exception):
            raise message
        return message

    @property
    def hints(self) -> list[tuple[str, Any]]:
        """What was sent to all workers."""
        return [(name, hint) for _, message in self.sent for name, hint in message["hints"]]

    async def _use(self) -> None:
        self.attempts += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


@pytest.fixture
async def layer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeLayer]:
    """A layer that connects this process to others; nothing is tried for long."""
    layer = FakeLayer()
    monkeypatch.setattr(channel_layer, "shared", lambda: layer)
    monkeypatch.setattr(channel_layer, "breaker", CircuitBreaker())
    monkeypatch.setattr(channel_layer, "FAIL_FAST", 0.05)
    monkeypatch.setattr(layer_channel, "PAUSE", 0.01)
    monkeypatch.setattr(layer_channel, "LINGER", 0.01)
    yield layer
    layer.hangs, layer.error = False, None
    await until(lambda: layer.receiving == 0)


def remote_message(group: str, **message: Any) -> dict[str, Any]:
    """A message of another process, with one hint."""
    return {"type": TYPE, "from": "process.other", "hints": [[group, message]]}
