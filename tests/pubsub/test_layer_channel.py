"""The channel of an event loop in the channel layer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.pubsub.layer_channel import LayerChannel
from tests.pubsub.fake_layer import FakeLayer, layer, remote_message

__all__ = ["layer"]


async def test_left_channel_receives_to_its_end_and_is_not_cancelled(
    layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[str] = []
    receive = layer.receive

    async def noting(channel: str) -> Any:
        try:
            return await receive(channel)
        except asyncio.CancelledError:
            cancelled.append(channel)
            raise

    monkeypatch.setattr(layer, "receive", noting)
    received: list[Any] = []
    channel = LayerChannel(received.append, is_used=lambda: True)
    await channel.open()

    await channel.close()

    assert cancelled == []
    assert layer.receiving == 0
    layer.incoming.put_nowait(remote_message("group"))
    await asyncio.sleep(0)
    assert received == []


async def test_channel_of_a_layer_that_hangs_is_left(layer: FakeLayer) -> None:
    channel = LayerChannel(lambda _: None, is_used=lambda: True)
    await channel.open()
    layer.hangs = True

    await channel.close()

    assert layer.receiving == 0
