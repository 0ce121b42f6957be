"""Message bus: messages between event loops and workers, over one channel per event loop.

However many streams subscribe, a bus has one channel of the channel layer and one receiving task,
from the first subscriber to the last. Messages within a process do not use the layer, so that a
site of one process needs none. The bus knows names and messages, but not what they mean.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from hashlib import sha256
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from channels.layers import BaseChannelLayer, InMemoryChannelLayer, get_channel_layer

from django_mcp import conf
from django_mcp.runtime import threads

T = TypeVar("T")

logger = logging.getLogger("django_mcp")

Message = Mapping[str, Any]
Receiver = Callable[[Message], None]
"""Called in the event loop of the bus. It must be quick."""

TYPE = "django_mcp.message"
LOCAL = "process."
REFRESH = 60.0
"""Seconds after which a bus joins its groups again: groups of a layer expire, and a layer that
was restarted has lost them."""
REMEDY = "see that the channel layer in CHANNEL_LAYERS connects all workers, and works"
PAUSE = 1.0
"""Seconds before a bus receives again after its layer failed."""


def group(kind: str, *names: str) -> str:
    """The name of a group, of fixed length and alphabet."""
    return f"mcp.{kind}.{sha256(chr(0).join(names).encode()).hexdigest()[:40]}"


class MessageBus:
    """The receivers of one event loop, by group and by mailbox."""

    def __init__(self) -> None:
        self._receivers: dict[str, dict[Receiver, None]] = {}
        self._mailboxes: dict[str, Receiver] = {}
        self._joined: set[str] = set()
        self._channel: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self.is_failing = False
        """Whether the layer failed when this bus last received from it."""

    async def subscribe(self, name: str, receiver: Receiver) -> None:
        """Call ``receiver`` with each message of the group, from when this returns.

        Every subscriber must unsubscribe, also after a cancellation.
        """
        self._receivers.setdefault(name, {})[receiver] = None
        if (layer := shared_layer()) is not None:
            await self._join(layer, name)

    def unsubscribe(self, name: str, receiver: Receiver) -> None:
        """End a subscription; a second call is harmless."""
        receivers = self._receivers.get(name, {})
        receivers.pop(receiver, None)
        if not receivers:
            self._receivers.pop(name, None)
            self._clean_up()

    def has_subscribers(self, name: str) -> bool:
        return name in self._receivers

    def receive(self, name: str, message: Message) -> None:
        for receiver in tuple(self._receivers.get(name, ())):
            _deliver(receiver, message)

    async def open_mailbox(self, receiver: Receiver) -> str:
        """An address at which ``send`` reaches ``receiver`` from every process.

        It proves nothing about its sender: sign it before it leaves the site.
        """
        name = secrets.token_urlsafe(12)
        self._mailboxes[name] = receiver
        if (layer := shared_layer()) is None:
            return f"{process()}/{name}"
        try:
            async with self._lock:
                return f"{await self._open_channel(layer)}/{name}"
        except BaseException:
            self._mailboxes.pop(name, None)
            raise

    def close_mailbox(self, address: str) -> None:
        """Close the mailbox of this address; a second call is harmless."""
        if self._mailboxes.pop(address.rpartition("/")[2], None) is not None:
            self._clean_up()

    @property
    def is_connected(self) -> bool:
        """Whether messages of other processes reach this bus, as far as is known."""
        return shared_layer() is not None and not self.is_failing

    def owns(self, channel: str) -> bool:
        return channel == self._channel

    def has_mailbox(self, mailbox: str) -> bool:
        return mailbox in self._mailboxes

    def deliver(self, mailbox: str, message: Message) -> bool:
        if (receiver := self._mailboxes.get(mailbox)) is not None:
            _deliver(receiver, message)
        return receiver is not None

    async def _join(self, layer: BaseChannelLayer, name: str) -> None:
        async with self._lock:
            if name in self._joined or name not in self._receivers:
                return
            try:
                await layer.group_add(name, await self._open_channel(layer))
            except Exception:
                logger.warning("Cannot join the channel layer; trying again", exc_info=True)
                self._schedule_refresh(PAUSE)
                return
            self._joined.add(name)

    async def _open_channel(self, layer: BaseChannelLayer) -> str:
        if self._channel is None:
            channel = await layer.new_channel()
            self._channel = channel
            self._task = asyncio.get_running_loop().create_task(
                self._receive_all(layer, channel), context=threads.context_of_nobody()
            )
            self._schedule_refresh(REFRESH)
        return self._channel

    async def _receive_all(self, layer: BaseChannelLayer, channel: str) -> None:
        self.is_failing = False
        while self._channel == channel:
            try:
                message = await layer.receive(channel)
            except Exception as error:
                # A layer may also raise when it is cancelled by ``_leave_unused``.
                if self._channel != channel:
                    return
                # From version 8 on, redis-py closes a connection on which nothing arrived for five
                # seconds, which is as long as channels_redis waits at a time.
                if not self.is_failing and type(error).__name__ == "TimeoutError":
                    await asyncio.sleep(0)
                    continue
                if not self.is_failing:
                    logger.warning("The channel layer fails; trying again", exc_info=True)
                self.is_failing = True
                await asyncio.sleep(PAUSE)
                self._schedule_refresh(0)
                continue
            self.is_failing = False
            if "mailbox" in message:
                self.deliver(message["mailbox"], message["message"])
            elif message.get("from") != process():
                self.receive(message["group"], message["message"])

    def _schedule_refresh(self, delay: float) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        loop = asyncio.get_running_loop()
        self._refresh = loop.call_later(delay, lambda: spawn(self._join_again()))

    async def _join_again(self) -> None:
        if (layer := shared_layer()) is None or not (self._receivers or self._mailboxes):
            return
        self._schedule_refresh(REFRESH)
        self._joined.clear()
        for name in tuple(self._receivers):
            await self._join(layer, name)

    def _clean_up(self) -> None:
        is_unused = not (self._receivers or self._mailboxes)
        if self._channel is not None and (is_unused or self._joined - self._receivers.keys()):
            spawn(self._leave_unused())

    async def _leave_unused(self) -> None:
        """Leave groups without subscribers; without any receiver, close the channel."""
        layer = shared_layer()
        async with self._lock:
            for name in self._joined - self._receivers.keys():
                self._joined.discard(name)
                if layer is not None and self._channel is not None:
                    await _try(layer.group_discard(name, self._channel))
            if self._receivers or self._mailboxes:
                return
            self._channel = None
            if self._refresh is not None:
                self._refresh.cancel()
            if self._task is not None:
                self._task.cancel()


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

    Delivery errors are logged, not raised, because the caller's work is already complete. A
    message is a hint, or is kept in a store as well.
    """
    _publish_here(name, message)
    await _publish_to_layer(name, message)


def publish_soon(name: str, message: Message) -> None:
    """``publish`` without waiting; receivers of this event loop are called at once."""
    _publish_here(name, message)
    if shared_layer() is not None:
        spawn(_publish_to_layer(name, message))


class Delivery(Enum):
    """The result of sending a message to a mailbox."""

    SENT = "sent"
    """Delivered here, or passed to the layer, which may lose it."""
    CLOSED = "closed"
    """The mailbox was in this process."""
    UNREACHABLE = "unreachable"
    """The mailbox is in another process, to which no layer leads now."""


async def send(address: str, message: Message) -> Delivery:
    channel, _, mailbox = address.rpartition("/")
    buses = _all()
    for loop, bus in buses:
        if bus.has_mailbox(mailbox):
            _call(loop, bus.deliver, mailbox, message)
            return Delivery.SENT
    if channel == process() or any(bus.owns(channel) for _, bus in buses):
        return Delivery.CLOSED
    if (layer := shared_layer()) is None or channel.startswith(LOCAL):
        return Delivery.UNREACHABLE
    wrapped = {"type": TYPE, "mailbox": mailbox, "message": dict(message)}
    return Delivery.SENT if await _try(layer.send(channel, wrapped)) else Delivery.UNREACHABLE


def shared_layer() -> BaseChannelLayer | None:
    """The channel layer of the site, or None if it does not reach other processes."""
    layer = get_channel_layer(conf.get().channel_layer)
    return None if isinstance(layer, InMemoryChannelLayer) else layer


def process() -> str:
    """A name for this process, which a forked child does not share."""
    return LOCAL + sha256(f"{_START}.{os.getpid()}".encode()).hexdigest()[:16]


def spawn(coroutine: Coroutine[Any, Any, Any]) -> None:
    """``create_task`` for what nobody waits for."""
    _ = create_task(coroutine)


def create_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run ``coroutine`` in a background task of the running loop; its errors are logged.

    It has nothing of the call in which it is started: neither the context variables, since it
    often works for another client, nor the database connections.
    """
    loop, context = asyncio.get_running_loop(), threads.context_of_nobody()
    task = loop.create_task(threads.in_scope(_await, coroutine), context=context)
    _tasks.add(task)
    task.add_done_callback(_on_done)
    # It was not awaited if the task was cancelled at once.
    task.add_done_callback(lambda _: coroutine.close())
    return task


async def _await(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _on_done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("A background task failed", exc_info=task.exception())


def _publish_here(name: str, message: Message) -> None:
    for loop, bus in _all():
        if bus.has_subscribers(name):
            _call(loop, bus.receive, name, message)


async def _publish_to_layer(name: str, message: Message) -> None:
    if (layer := shared_layer()) is not None:
        wrapped = {"type": TYPE, "from": process(), "group": name, "message": dict(message)}
        await _try(layer.group_send(name, wrapped))


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


def _deliver(receiver: Receiver, message: Message) -> None:
    try:
        receiver(message)
    except Exception:
        logger.exception("A receiver failed")


async def _try(action: Coroutine[Any, Any, Any]) -> bool:
    try:
        await action
    except Exception:
        logger.warning("The channel layer fails", exc_info=True)
        return False
    return True


def _reset() -> None:
    """Forget in a forked child the loops of its parent, and the lock which a thread may hold."""
    global _guard
    _guard = threading.Lock()
    _buses.clear()


_START = secrets.token_hex(8)
_guard = threading.Lock()
_buses: WeakKeyDictionary[asyncio.AbstractEventLoop, MessageBus] = WeakKeyDictionary()
_tasks: set[asyncio.Task[Any]] = set()

os.register_at_fork(after_in_child=_reset)
