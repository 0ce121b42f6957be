"""Message bus: messages between event loops and workers, over one channel per event loop.

However many streams subscribe, a bus has one channel of the channel layer, in the one group of the
site, and one receiving task. Messages within a process do not use the layer, so that a site of one
process needs none. The bus knows names and messages, but not their meaning. It has no states except
the states of its channel, in ``layer_channel``.
"""

# The rules:
#
# 1. A receiver is called on its own event loop, and its errors are logged. It must not wait.
# 2. A message of this process is delivered directly. It comes back from the layer as well, and is
#    ignored there: ``from`` names this process.
# 3. Messages are hints. An event loop with receivers serves clients, and never waits for the layer.
#    One without receivers may end at any time, so it waits until its messages are sent.
# 4. The exception is ``send_to``, for messages that are in no store: it waits, tries again, and
#    returns whether the layer has accepted the message.
# 5. Each subscription ends with ``unsubscribe``, also after a cancellation.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from typing import Any, ParamSpec

from django_mcp import conf
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import running_loop
from django_mcp.core.log import log_repeated
from django_mcp.pubsub import channel_layer
from django_mcp.pubsub.channel_layer import HintSender, envelope, process
from django_mcp.pubsub.layer_channel import LayerChannel
from django_mcp.runtime import background, request_scope

P = ParamSpec("P")
Message = channel_layer.Message
Receiver = Callable[[Message], None]
"""Called in the event loop of the bus. It must be quick."""

REMEDY = "see that the channel layer in CHANNEL_LAYERS connects all workers, and works"
TIMEOUT = 5.0
"""Seconds that a request waits for the channel layer, where it has to. A message that is stored as
well, such as a notification, waits for nothing."""
ATTEMPTS = (0.05, 0.3)
"""Seconds before each further attempt to send a message that the layer has to accept: after a
restart of the layer, the connections to it fail once."""


def group(kind: str, *names: str) -> str:
    """The name of a group of subscribers, of fixed length and alphabet."""
    return f"mcp.{kind}.{sha256(chr(0).join(names).encode()).hexdigest()[:40]}"


class MessageBus:
    """The receivers of one event loop, by group."""

    def __init__(self) -> None:
        self._receivers: dict[str, dict[Receiver, None]] = {}
        self._channel = LayerChannel(self._receive, is_used=self._has_receivers)
        self.sender = HintSender()
        self.is_temporary = False
        """Whether its event loop may end at any time, and gets no work from other threads."""

    async def subscribe(self, name: str, receiver: Receiver) -> None:
        """Call ``receiver`` with each message of the group, from when this returns.

        Every subscriber must unsubscribe, also after a cancellation.
        """
        self._receivers.setdefault(name, {})[receiver] = None
        await self._channel.open()

    def unsubscribe(self, name: str, receiver: Receiver) -> None:
        """End a subscription; a second call is harmless."""
        receivers = self._receivers.get(name, {})
        receivers.pop(receiver, None)
        if not receivers:
            self._receivers.pop(name, None)
        if not self._receivers:
            self._channel.leave_soon()

    @property
    def channel(self) -> str:
        """The name of its channel in the layer, for ``send_to``; empty without one."""
        return self._channel.name or ""

    def has_subscribers(self, name: str) -> bool:
        return name in self._receivers

    def _has_receivers(self) -> bool:
        return bool(self._receivers)

    @property
    def is_used(self) -> bool:
        return self._has_receivers()

    @property
    def is_connected(self) -> bool:
        """Whether messages of other processes reach this bus, as far as is known."""
        is_failing = self._channel.is_failing or channel_layer.breaker.is_open
        return channel_layer.shared() is not None and not is_failing

    def receive(self, name: str, message: Message) -> None:
        for receiver in tuple(self._receivers.get(name, ())):
            deliver(receiver, message)

    async def close(self) -> None:
        """Leave the layer, because the process ends."""
        await self.sender.flush()
        await self._channel.close()

    def _receive(self, message: Message) -> None:
        if message.get("from") != process():
            for name, hint in message["hints"]:
                self.receive(name, hint)


def here() -> MessageBus:
    """The bus of the running event loop."""
    return loops.here(MessageBus)


def any_loop() -> asyncio.AbstractEventLoop | None:
    """An event loop of this process that can publish for its other threads.

    This is the running one, or one that lasts: preferably one with receivers.
    """
    if (running := running_loop()) is not None:
        return running
    lasting = [
        (loop, bus)
        for loop, bus in loops.everywhere(MessageBus)
        if loop.is_running() and not bus.is_temporary
    ]
    used = (loop for loop, bus in lasting if bus.is_used)
    return next(used, lasting[0][0] if lasting else None)


def run_in_temporary_loop(
    function: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    """Run a coroutine function in an event loop of its own, as the work of one request.

    The loop ends when its accepted work is done, and its messages are sent.
    """

    async def run() -> None:
        here().is_temporary = True
        try:
            await function(*args, **kwargs)
        finally:
            await end()

    asyncio.run(request_scope.run(run))


async def end() -> None:
    """Complete the accepted work of the running event loop, before it ends."""
    here().is_temporary = True
    if accepted := background.accepted_tasks():
        await asyncio.wait(accepted, timeout=conf.get().shutdown_timeout)
    await background.finish()
    await here().close()


async def publish(name: str, message: Message) -> None:
    """Send ``message`` to the subscribers of the group in all processes.

    A message is a hint, or is kept in a store as well: an event loop which serves clients does not
    wait for the layer. A loop without receivers may end at once, and waits until it is sent.
    """
    publish_soon(name, message)
    await flush()


async def flush() -> None:
    """Wait until published messages are sent, in an event loop without receivers."""
    bus = loops.here_if_any(MessageBus)
    if bus is not None and not bus.is_used:
        await bus.sender.flush()


def publish_soon(name: str, message: Message) -> None:
    """``publish`` without waiting; receivers of this event loop are called at once."""
    publish_here(name, message)
    if channel_layer.shared() is not None:
        here().sender.send(name, message)


def publish_here(name: str, message: Message) -> bool:
    """Send ``message`` to the subscribers in this process; whether there are any."""
    buses = loops.everywhere(MessageBus)
    subscribed = [(loop, bus) for loop, bus in buses if bus.has_subscribers(name)]
    for loop, bus in subscribed:
        if loop is running_loop():
            bus.receive(name, message)
        else:
            with suppress(RuntimeError):  # The loop is closed, and its receivers with it.
                loop.call_soon_threadsafe(bus.receive, name, message)
    return bool(subscribed)


async def send_to(channel: str, name: str, message: Message) -> bool:
    """Pass a message to the bus with this channel; whether the layer has accepted it.

    For messages that are in no store, and have one receiver. The layer may lose a message that
    it has accepted, but it refuses one for a full channel. A channel needs no group, which a
    restart of the layer empties.
    """
    sent = envelope([[name, dict(message)]])
    for delay in (0.0, *ATTEMPTS):
        if delay and channel_layer.breaker.is_hanging:
            break
        await asyncio.sleep(delay)
        if await channel_layer.attempt(lambda layer: layer.send(channel, sent), TIMEOUT):
            return True
    return False


def deliver(receiver: Receiver, message: Message) -> None:
    """Call a receiver; its errors are logged."""
    try:
        receiver(message)
    except Exception:
        log_repeated(logging.ERROR, "A receiver failed", exc_info=True)
