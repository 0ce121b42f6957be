"""The channel layer of the site: limits of its users, and the hints that leave a process.

A published message is a hint: whoever misses it reads a store. So nothing waits for a layer that
hangs or fails. A failure stops all use of it for a moment, and hints are dropped meanwhile:

| the breaker is | hints are | who moves it there |
|---|---|---|
| closed | sent | an attempt that succeeds, or finds a full channel |
| open | dropped, for ``FAIL_FAST`` seconds | an attempt that fails, or hangs |
| tried | dropped, but for one | the first hint after that time |
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

from channels.exceptions import ChannelFull, InvalidChannelLayerError
from channels.layers import (
    BaseChannelLayer,
    InMemoryChannelLayer,
    channel_layers,
    get_channel_layer,
)

from django_mcp import conf
from django_mcp.core.log import log_repeated
from django_mcp.runtime import pools

Message = Mapping[str, Any]
Action = Callable[[BaseChannelLayer], Awaitable[Any]]

TYPE = "django_mcp.message"
LOCAL = "process."
SITE = "mcp.site"
"""The only group, of all workers. A group for each session would be entries in the layer that have
to be made and deleted for each call, and that a dead worker leaves."""
HINT_TIMEOUT = 1.0
"""Seconds which the layer may take for a hint."""
FAIL_FAST = 2.0
"""Seconds without use of the layer after a failure; then one attempt is made at a time."""
MAX_WAITING = 4 * 1024 * 1024
"""Characters of hints that may wait for the layer; further ones are dropped."""
BATCH = 200
"""Hints in one message."""
BATCH_SIZE = 256 * 1024
"""Characters of hints in one message: a full message takes no further hint."""
BURST = 20
"""Messages that are sent without a pause. A channel of channels_redis takes 100 messages, unless
CONFIG says otherwise, and hints that wait are sent together."""
INTERVAL = 0.02
"""Seconds between two messages after a burst."""
FULL = (
    "The channel layer is full, and drops messages between workers. What they announced is read "
    "from the store. Raise the capacity of the layer"
)


def shared() -> BaseChannelLayer | None:
    """The channel layer of the site, or None if it does not reach other processes."""
    layer = get_channel_layer(conf.get().channel_layer)
    return None if isinstance(layer, InMemoryChannelLayer) else layer


def for_receiving() -> BaseChannelLayer | None:
    """A layer as ``shared``, for the event loop that receives with it.

    A layer of channels_redis receives on one loop only, and a process may have several: the loop of
    its server, those that follow decisions, and one that a forked child has inherited.
    """
    layer = shared()
    try:
        own = channel_layers.make_backend(conf.get().channel_layer)
    except InvalidChannelLayerError:
        return layer
    return own if type(own) is type(layer) else layer


def process() -> str:
    """A name for this process, which a forked child does not share."""
    return LOCAL + sha256(f"{_START}.{os.getpid()}".encode()).hexdigest()[:16]


def envelope(hints: list[list[Any]]) -> dict[str, Any]:
    """A message of the layer with hints, each of them a group and its message."""
    return {"type": TYPE, "from": process(), "hints": hints}


class CircuitBreaker:
    """Refuses hints after a failure, and then allows one attempt at a time."""

    def __init__(self) -> None:
        self._retry_at: float | None = None
        self._is_hanging = False

    @property
    def is_hanging(self) -> bool:
        """Whether the last attempt has not ended in time."""
        return self.is_open and self._is_hanging

    @property
    def is_open(self) -> bool:
        """Whether the last attempt has failed."""
        return self._retry_at is not None

    def allows_hint(self) -> bool:
        """Whether to make an attempt for a hint."""
        now = time.monotonic()
        if self._retry_at is None:
            return True
        if now < self._retry_at:
            return False
        self._retry_at = now + FAIL_FAST  # For others, until this attempt has a result.
        return True

    def succeeded(self) -> None:
        self._retry_at = None

    def failed(self, *, is_hanging: bool) -> None:
        self._retry_at = time.monotonic() + FAIL_FAST
        self._is_hanging = is_hanging


breaker = CircuitBreaker()
"""For the layer, in this process."""


async def attempt(action: Action, timeout: float | None = None) -> bool:
    """Use the layer; False if it fails, has just failed, or does not reach other processes.

    With a ``timeout``, somebody waits for the result: the layer is always tried, but not for long
    if it has just hung. Without one, the action sends a hint.
    """
    layer = shared()
    if layer is None or (timeout is None and not breaker.allows_hint()):
        return False
    is_short = timeout is None or (breaker.is_hanging and timeout > HINT_TIMEOUT)
    limit = asyncio.timeout(HINT_TIMEOUT if is_short else timeout)
    try:
        async with limit:
            await action(layer)
    except ChannelFull:
        breaker.succeeded()
        log_repeated(logging.WARNING, FULL)
        return False
    except Exception:
        breaker.failed(is_hanging=limit.expired())
        log_repeated(logging.WARNING, "The channel layer fails", exc_info=True)
        return False
    breaker.succeeded()
    return True


async def send(message: dict[str, Any], timeout: float | None = None) -> bool:
    """Send a message to all workers; whether the layer has accepted it, as ``attempt``."""
    return await attempt(lambda layer: layer.group_send(SITE, message), timeout)


class HintSender:
    """Sends the hints of one event loop to all workers, several of them in one message."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Message, int]] = deque()
        self._size = 0
        self._burst = float(BURST)
        self._sent_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def send(self, group: str, message: Message) -> None:
        """Send a hint soon."""
        length = len(repr(message))
        if self._size > MAX_WAITING:
            log_repeated(logging.WARNING, FULL)
            return
        self._waiting.append((group, message, length))
        self._size += length
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._send_all(), context=pools.context_of_nobody())

    async def flush(self) -> None:
        """Wait until all hints are sent or dropped, but not long for a layer that hangs."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=HINT_TIMEOUT)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._pause()
                await send(envelope(self._take()))
        finally:
            self._task = None

    def _take(self) -> list[list[Any]]:
        hints: list[list[Any]] = []
        size = 0
        while self._waiting and len(hints) < BATCH:
            group, message, length = self._waiting[0]
            if hints and size + length > BATCH_SIZE:
                break
            self._waiting.popleft()
            size += length
            hints.append([group, dict(message)])
        self._size -= size
        return hints

    async def _pause(self) -> None:
        """Wait until the next message may be sent; hints until then are in it."""
        now = time.monotonic()
        self._burst = min(BURST, self._burst + (now - self._sent_at) / INTERVAL)
        if self._burst < 1:
            await asyncio.sleep((1 - self._burst) * INTERVAL)
            self._burst = 1.0
            now = time.monotonic()
        self._burst -= 1
        self._sent_at = now


_START = secrets.token_hex(8)
