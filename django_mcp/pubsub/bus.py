"""Message bus: messages between event loops and workers, over one channel per event loop.

However many streams subscribe, a bus has one channel of the channel layer, in the one group of the
site, and one receiving task. Messages within a process do not use the layer, so that a site of one
process needs none. The bus knows names and messages, but not what they mean.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from channels.layers import BaseChannelLayer

from django_mcp.concurrency.loops import running_loop
from django_mcp.log import log_repeated
from django_mcp.pubsub import channel_layer
from django_mcp.pubsub.channel_layer import LOCAL, SITE, TYPE, HintSender, process
from django_mcp.runtime import background, pools

T = TypeVar("T")

Message = channel_layer.Message
Receiver = Callable[[Message], None]
"""Called in the event loop of the bus. It must be quick."""

REFRESH = 15.0
"""Seconds after which a bus joins its group again: groups of a layer expire, and a layer that
was restarted or flushed has lost them. Until then, ``catch_up`` finds what is missed."""
REMEDY = "see that the channel layer in CHANNEL_LAYERS connects all workers, and works"
PAUSE = 1.0
"""Seconds before a bus receives again after its layer failed."""
TIMEOUT = 5.0
"""Seconds for which a request waits for the channel layer, where it has to. What is stored as well,
such as a notification, waits for nothing."""
ATTEMPTS = (0.05, 0.3)
"""Seconds before each further attempt to send to a mailbox: after a restart of the layer, the
connections to it fail once."""
ACKNOWLEDGED_WITHIN = (1.0, 3.5)
"""Seconds in which another process acknowledges a message to a mailbox, before it is sent once
more, and after that."""
MAX_IDS = 10_000
"""The last messages to mailboxes that a bus knows, so that one which is sent again is dropped."""
LINGER = 10.0
"""Seconds for which a bus without receivers keeps its channel: the next call may need it."""


def group(kind: str, *names: str) -> str:
    """The name of a group of subscribers, of fixed length and alphabet."""
    return f"mcp.{kind}.{sha256(chr(0).join(names).encode()).hexdigest()[:40]}"


class MessageBus:
    """The receivers of one event loop, by group and by mailbox."""

    def __init__(self) -> None:
        self._receivers: dict[str, dict[Receiver, None]] = {}
        self._mailboxes: dict[str, Receiver] = {}
        self._channel: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._mail: dict[str, bool] = {}
        """Whether the last messages to mailboxes were delivered, by id."""
        self._is_failing = False
        self.sender = HintSender()

    async def subscribe(self, name: str, receiver: Receiver) -> None:
        """Call ``receiver`` with each message of the group, from when this returns.

        Every subscriber must unsubscribe, also after a cancellation.
        """
        self._receivers.setdefault(name, {})[receiver] = None
        await self._connect()

    def unsubscribe(self, name: str, receiver: Receiver) -> None:
        """End a subscription; a second call is harmless."""
        receivers = self._receivers.get(name, {})
        receivers.pop(receiver, None)
        if not receivers:
            self._receivers.pop(name, None)
            self._clean_up()

    def has_subscribers(self, name: str) -> bool:
        return name in self._receivers

    @property
    def is_used(self) -> bool:
        return bool(self._receivers or self._mailboxes)

    def receive(self, name: str, message: Message) -> None:
        for receiver in tuple(self._receivers.get(name, ())):
            deliver(receiver, message)

    async def open_mailbox(self, receiver: Receiver) -> str:
        """An address at which ``send`` reaches ``receiver`` from every process.

        It proves nothing about its sender: sign it before it leaves the site.
        """
        name = secrets.token_urlsafe(12)
        self._mailboxes[name] = receiver
        try:
            await self._connect()
        except BaseException:
            self._mailboxes.pop(name, None)
            raise
        return f"{self._channel or process()}/{name}"

    def close_mailbox(self, address: str) -> None:
        """Close the mailbox of this address; a second call is harmless."""
        if self._mailboxes.pop(address.rpartition("/")[2], None) is not None:
            self._clean_up()

    @property
    def is_connected(self) -> bool:
        """Whether messages of other processes reach this bus, as far as is known."""
        return channel_layer.shared() is not None and not self.is_failing

    @property
    def is_failing(self) -> bool:
        """Whether the layer failed when it was last used."""
        return self._is_failing or channel_layer.breaker.is_open

    def owns(self, channel: str) -> bool:
        return channel == self._channel

    def has_mailbox(self, mailbox: str) -> bool:
        return mailbox in self._mailboxes

    def deliver(self, mailbox: str, message: Message) -> bool:
        if (receiver := self._mailboxes.get(mailbox)) is not None:
            deliver(receiver, message)
        return receiver is not None

    async def close(self) -> None:
        """Leave the layer, because the process ends."""
        await self.sender.flush()
        await self._leave(is_unused=False)

    async def _connect(self) -> None:
        """Open the channel with the first receiver, and wait a moment until it is in the group."""
        if self._channel is not None and self._leaving is None:
            return
        if channel_layer.shared() is None:
            return
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        # A cancelled subscriber is perhaps not the only one.
        await asyncio.shield(background.create_task(self._open()))

    async def _open(self) -> None:
        async with self._lock:
            layer = channel_layer.shared()
            if self._channel is None and layer is not None:
                await self._open_channel(layer)
                await self._join()

    async def _open_channel(self, layer: BaseChannelLayer) -> None:
        channel = await layer.new_channel()
        self._channel = channel
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(
            self._receive_all(layer, channel), context=pools.context_of_nobody()
        )

    async def _join(self) -> None:
        channel = self._channel or ""
        if await channel_layer.attempt(lambda layer: layer.group_add(SITE, channel)):
            self._schedule_refresh(REFRESH)
            self._is_failing = False
        else:
            self._schedule_refresh(PAUSE)

    async def _receive_all(self, layer: BaseChannelLayer, channel: str) -> None:
        while self._channel == channel:
            try:
                message = await layer.receive(channel)
            except Exception as error:
                # A layer may also raise when it is cancelled by ``_leave``.
                if self._channel != channel:
                    return
                # From version 8 on, redis-py closes a connection on which nothing arrived for five
                # seconds, which is as long as channels_redis waits at a time.
                if not self._is_failing and type(error).__name__ == "TimeoutError":
                    await asyncio.sleep(0)
                    continue
                text = "The channel layer fails; trying again"
                log_repeated(logging.WARNING, text, exc_info=True)
                self._is_failing = True
                await asyncio.sleep(PAUSE)
                self._schedule_refresh(0)
                continue
            self._is_failing = False
            self._receive(message)

    def _receive(self, message: Message) -> None:
        if "mailbox" in message:
            self._receive_mail(message)
        elif message.get("from") != process():
            for name, hint in message["hints"]:
                self.receive(name, hint)

    def _receive_mail(self, message: Message) -> None:
        """Deliver a message once, and acknowledge it each time that it is sent."""
        identity = message["id"]
        if identity not in self._mail:
            self._mail[identity] = self.deliver(message["mailbox"], message["message"])
            if len(self._mail) > MAX_IDS:
                del self._mail[next(iter(self._mail))]
        if "reply" in message:
            channel, _, mailbox = message["reply"].rpartition("/")
            sent = _to_mailbox(mailbox, {"delivered": self._mail[identity]})
            limit = channel_layer.HINT_TIMEOUT
            background.spawn(channel_layer.attempt(lambda layer: layer.send(channel, sent), limit))

    def _schedule_refresh(self, delay: float) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        loop = asyncio.get_running_loop()
        self._refresh = loop.call_later(delay, lambda: background.spawn(self._join_again()))

    async def _join_again(self) -> None:
        async with self._lock:
            if self._channel is not None and channel_layer.shared() is not None:
                await self._join()

    def _clean_up(self) -> None:
        if self._channel is not None and self._leaving is None and not self.is_used:
            loop = asyncio.get_running_loop()
            self._leaving = loop.call_later(LINGER, lambda: background.spawn(self._leave()))

    async def _leave(self, *, is_unused: bool = True) -> None:
        """Leave the group and close the channel, unless there is a receiver again."""
        async with self._lock:
            self._leaving = None
            if self._channel is None or (is_unused and self.is_used):
                return
            channel, self._channel = self._channel, None
            if self._refresh is not None:
                self._refresh.cancel()
            if self._task is not None:
                self._task.cancel()
            await channel_layer.attempt(lambda layer: layer.group_discard(SITE, channel))


def here() -> MessageBus:
    """The bus of the running event loop."""
    loop = asyncio.get_running_loop()
    if (bus := _buses.get(loop)) is None:
        with _guard:
            bus = _buses.setdefault(loop, MessageBus())
    return bus


def any_loop() -> asyncio.AbstractEventLoop | None:
    """An event loop of this process which has a bus, preferably the running one."""
    others = (loop for loop, _ in _all() if loop.is_running())
    return running_loop() or next(others, None)


async def publish(name: str, message: Message) -> None:
    """Send ``message`` to the subscribers of the group in all processes.

    A message is a hint, or is kept in a store as well: an event loop which serves clients does not
    wait for the layer. A loop without receivers may end at once, and waits until it is sent.
    """
    publish_soon(name, message)
    await flush()


async def flush() -> None:
    """Wait until what was published is sent, in an event loop without receivers."""
    bus = _buses.get(asyncio.get_running_loop())
    if bus is not None and not bus.is_used:
        await bus.sender.flush()


def publish_soon(name: str, message: Message) -> None:
    """``publish`` without waiting; receivers of this event loop are called at once."""
    _publish_here(name, message)
    if channel_layer.shared() is not None:
        here().sender.send(name, message)


class Delivery(Enum):
    """The result of sending a message to a mailbox."""

    SENT = "sent"
    """Delivered."""
    CLOSED = "closed"
    """There is no such mailbox any more."""
    UNREACHABLE = "unreachable"
    """The mailbox is in another process, which has not acknowledged the message. It may have
    received it all the same."""


async def send(address: str, message: Message) -> Delivery:
    """Deliver a message to a mailbox, on whichever process it is.

    The layer may lose what it has accepted. So another process acknowledges the message, and
    without that it is sent once more.
    """
    if (delivery := deliver_here(address, message)) is not None:
        return delivery
    channel, _, mailbox = address.rpartition("/")
    if channel.startswith(LOCAL):
        return Delivery.UNREACHABLE
    bus, acknowledged = here(), asyncio.get_running_loop().create_future()
    reply = await bus.open_mailbox(
        lambda answer: None if acknowledged.done() else acknowledged.set_result(answer["delivered"])
    )
    sent = {**_to_mailbox(mailbox, message), "reply": reply}
    try:
        for limit in ACKNOWLEDGED_WITHIN:
            if not await _send_to(channel, sent):
                break
            await asyncio.wait([acknowledged], timeout=limit)
            if acknowledged.done():
                return Delivery.SENT if acknowledged.result() else Delivery.CLOSED
    finally:
        bus.close_mailbox(reply)
    return Delivery.UNREACHABLE


def _to_mailbox(mailbox: str, message: Message) -> dict[str, Any]:
    identity = secrets.token_hex(8)
    return {"type": TYPE, "mailbox": mailbox, "id": identity, "message": dict(message)}


async def _send_to(channel: str, message: dict[str, Any]) -> bool:
    """Pass a message to the layer; return whether it has accepted it."""
    for delay in (*ATTEMPTS, None):
        if await channel_layer.attempt(lambda layer: layer.send(channel, message), TIMEOUT):
            return True
        if delay is None or channel_layer.breaker.is_hanging:
            break
        await asyncio.sleep(delay)
    return False


def deliver_here(address: str, message: Message) -> Delivery | None:
    """Deliver a message to a mailbox of this process; None if it is that of another one."""
    channel, _, mailbox = address.rpartition("/")
    buses = _all()
    for loop, bus in buses:
        if bus.has_mailbox(mailbox):
            _call(loop, bus.deliver, mailbox, message)
            return Delivery.SENT
    is_own = channel == process() or any(bus.owns(channel) for _, bus in buses)
    return Delivery.CLOSED if is_own else None


def _publish_here(name: str, message: Message) -> None:
    for loop, bus in _all():
        if bus.has_subscribers(name):
            _call(loop, bus.receive, name, message)


def _all() -> list[tuple[asyncio.AbstractEventLoop, MessageBus]]:
    with _guard:
        return list(_buses.items())


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> None:
    """Call ``function`` at once if ``loop`` is the running loop, otherwise soon."""
    if loop is running_loop():
        function(*args)
    else:
        with suppress(RuntimeError):  # The loop is closed, and its receivers with it.
            loop.call_soon_threadsafe(function, *args)


def deliver(receiver: Receiver, message: Message) -> None:
    """Call a receiver; its errors are logged."""
    try:
        receiver(message)
    except Exception:
        log_repeated(logging.ERROR, "A receiver failed", exc_info=True)


def _reset() -> None:
    """Forget in a forked child the loops of its parent, and the lock which a thread may hold."""
    global _guard
    _guard = threading.Lock()
    _buses.clear()


_guard = threading.Lock()
_buses: WeakKeyDictionary[asyncio.AbstractEventLoop, MessageBus] = WeakKeyDictionary()

os.register_at_fork(after_in_child=_reset)
