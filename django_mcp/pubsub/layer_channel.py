"""The channel of one event loop in the channel layer, which is in the one group of the site.

| state | meaning | who moves it |
|---|---|---|
| closed | nothing of this loop is in the layer | ``open`` makes a channel: joining |
| joining | the channel is not known to be in the group | ``_join``: joined, or again later |
| joined | messages of other workers arrive | a failure of ``receive``, or ``REFRESH``: joining |
| leaving | nobody receives; it is kept for a moment | ``open``: joined; ``_leave``: closed |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from channels.layers import BaseChannelLayer

from django_mcp.core.log import log_repeated
from django_mcp.pubsub import channel_layer
from django_mcp.pubsub.channel_layer import SITE, Message
from django_mcp.runtime import background, pools

REFRESH = 15.0
"""Seconds until a channel joins its group again: groups of a layer expire, and a layer that
was restarted or flushed has lost them. Until then, ``catch_up`` finds missed entries."""
PAUSE = 1.0
"""Seconds before a channel receives again after its layer failed."""
END = "django_mcp.end"
"""The type of the message that ends a channel."""
LINGER = 10.0
"""Seconds to keep an unused channel: the next call may need it."""


class LayerChannel:
    def __init__(self, receive: Callable[[Message], None], *, is_used: Callable[[], bool]) -> None:
        """``receive`` is called with each message of the layer, in the event loop."""
        self.is_failing = False
        """Whether the layer failed when it was last used for this channel."""
        self._receive = receive
        self._is_used = is_used
        self.name: str | None = None
        """The channel; None while it is closed."""
        self._layer: BaseChannelLayer | None = None
        """The layer that made the channel, which only this event loop uses."""
        self._task: asyncio.Task[None] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Open the channel for its first use, and wait a moment until it is in the group."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self.name is None and channel_layer.shared() is not None:
            # A cancelled subscriber is perhaps not the only one.
            await asyncio.shield(background.create_task(self._open()))

    def leave_soon(self) -> None:
        """Close the channel in a while, unless it is used again."""
        if self.name is not None and self._leaving is None:
            loop = asyncio.get_running_loop()
            self._leaving = loop.call_later(LINGER, self._leave_now)

    async def close(self) -> None:
        """Leave the layer, because the process ends."""
        async with self._lock:
            await self._leave()

    async def _open(self) -> None:
        async with self._lock:
            if self.name is not None:
                return
            layer = self._layer = channel_layer.for_receiving()
            if layer is None:
                return
            name = await layer.new_channel()
            self.name = name
            self._task = asyncio.get_running_loop().create_task(
                self._receive_all(layer, name), context=pools.context_of_nobody()
            )
            await self._join(name)
            if not self._is_used():  # Its subscriber was cancelled while it was opened.
                self.leave_soon()

    async def _join(self, name: str) -> None:
        layer = self._layer
        assert layer is not None
        if await channel_layer.attempt(lambda _: layer.group_add(SITE, name)):
            self.is_failing = False
            self._join_later(REFRESH)
        else:
            self._join_later(PAUSE)

    def _join_later(self, delay: float) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        loop = asyncio.get_running_loop()
        self._refresh = loop.call_later(delay, self._join_now)

    def _join_now(self) -> None:
        background.spawn(self._join_again())

    async def _join_again(self) -> None:
        async with self._lock:
            if self.name is not None and channel_layer.shared() is not None:
                await self._join(self.name)

    async def _receive_all(self, layer: BaseChannelLayer, name: str) -> None:
        while True:
            try:
                message = await layer.receive(name)
            except Exception as error:
                # A layer may also raise when it is cancelled by ``_leave``.
                if self.name != name:
                    return
                # From version 8 on, redis-py closes a connection after five seconds without data,
                # which is as long as channels_redis waits at a time.
                if not self.is_failing and type(error).__name__ == "TimeoutError":
                    await asyncio.sleep(0)
                    continue
                text = "The channel layer fails; trying again"
                log_repeated(logging.WARNING, text, exc_info=True)
                self.is_failing = True
                await asyncio.sleep(PAUSE)
                self._join_later(0)
                continue
            if message.get("type") == END:
                return
            self.is_failing = False
            if self.name == name:
                self._receive(message)

    def _leave_now(self) -> None:
        background.spawn(self._leave_unused())

    async def _leave_unused(self) -> None:
        async with self._lock:
            self._leaving = None
            if not self._is_used():
                await self._leave()

    async def _leave(self) -> None:
        name = self.name
        if name is None:
            return
        self.name = None
        for timer in (self._refresh, self._leaving):
            if timer is not None:
                timer.cancel()
        self._leaving = None
        layer = self._layer
        assert layer is not None
        await channel_layer.attempt(lambda _: layer.group_discard(SITE, name))
        if self._task is not None:
            # A message ends it. Were it cancelled, channels_redis would keep the key of a message
            # that it was about to receive, for ever.
            if await channel_layer.attempt(lambda _: layer.send(name, {"type": END})):
                await asyncio.wait([self._task], timeout=PAUSE)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=PAUSE)
        if wait_received := getattr(layer, "wait_received", None):
            # It removes received messages in tasks of its own, which would end with the loop.
            await channel_layer.attempt(lambda _: wait_received())
