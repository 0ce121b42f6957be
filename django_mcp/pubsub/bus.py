"""One ear for a whole process: what other processes say, and who wants to hear it here.

A hub belongs to an event loop. However many streams listen on it, it holds one channel of the
channel layer and one task that receives, from the first subscriber to the last. Within a
process messages never take the way over the layer, so that a site of one process needs none.
It knows names and messages, and nothing of what they mean.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import BaseChannelLayer, InMemoryChannelLayer, get_channel_layer

from django_mcp import conf

logger = logging.getLogger("django_mcp")

Message = Mapping[str, Any]
Receiver = Callable[[Message], None]
"""Called in the hub's event loop. It must be quick, and must not raise."""

TYPE = "django_mcp.hub"
REFRESH = 60.0
"""Seconds between two times that a hub joins its groups again: a layer may have forgotten them,
because it was restarted or because groups expire."""
PAUSE = 1.0
"""Seconds before a hub receives again after its layer failed."""


def group(kind: str, *names: str) -> str:
    """The name of a group, of fixed length and alphabet, whatever the names in it are."""
    text = "\0".join(names)
    return f"mcp.{kind}.{sha256(text.encode()).hexdigest()[:40]}"


class MessageBus:
    """The receivers of one event loop, by group and by mailbox."""

    def __init__(self) -> None:
        self._receivers: dict[str, dict[Receiver, None]] = {}
        self._mailboxes: dict[str, Receiver] = {}
        self._entered: set[str] = set()
        self._channel: str | None = None
        self._ear: asyncio.Task[None] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()

    # Groups.

    async def join(self, name: str, receiver: Receiver) -> None:
        """Let ``receiver`` hear what is published to the group, from when this returns.

        Whoever joins must leave, also when joining was cancelled.
        """
        self._receivers.setdefault(name, {})[receiver] = None
        layer = shared_layer()
        if layer is not None:
            await self._enter(layer, name)

    def leave(self, name: str, receiver: Receiver) -> None:
        """Let ``receiver`` hear no more of the group; leaving twice is harmless."""
        receivers = self._receivers.get(name, {})
        receivers.pop(receiver, None)
        if not receivers:
            self._receivers.pop(name, None)
            self._tidy_up()

    def hears(self, name: str) -> bool:
        """Whether anybody here listens to the group."""
        return name in self._receivers

    def take(self, name: str, message: Message) -> None:
        """Hand a message to everybody here who listens to the group."""
        for receiver in tuple(self._receivers.get(name, ())):
            _deliver(receiver, message)

    # Mailboxes.

    async def open_mailbox(self, receiver: Receiver) -> str:
        """An address at which ``send`` reaches ``receiver``, from every process.

        It is not a secret that proves anything: seal it before it leaves the site.
        """
        name = secrets.token_urlsafe(12)
        self._mailboxes[name] = receiver
        layer = shared_layer()
        if layer is None:
            return f"{process()}/{name}"
        try:
            async with self._lock:
                return f"{await self._listen(layer)}/{name}"
        except BaseException:
            self._mailboxes.pop(name, None)
            raise

    def close_mailbox(self, address: str) -> None:
        """Let nothing arrive at the address any more; closing twice is harmless."""
        if self._mailboxes.pop(_mailbox(address), None) is not None:
            self._tidy_up()

    def has(self, mailbox: str) -> bool:
        """Whether the mailbox is one of this hub."""
        return mailbox in self._mailboxes

    def deliver(self, mailbox: str, message: Message) -> bool:
        """Hand a message to the mailbox's receiver; False when there is none here."""
        receiver = self._mailboxes.get(mailbox)
        if receiver is None:
            return False
        _deliver(receiver, message)
        return True

    # The layer.

    async def _enter(self, layer: BaseChannelLayer, name: str) -> None:
        async with self._lock:
            if name in self._entered or name not in self._receivers:
                return
            try:
                await layer.group_add(name, await self._listen(layer))
            except Exception:
                logger.warning("The channel layer cannot be joined; trying again", exc_info=True)
                self._schedule_refresh(PAUSE)
                return
            self._entered.add(name)

    async def _listen(self, layer: BaseChannelLayer) -> str:
        """The channel of this hub, on which it receives from now on."""
        if self._channel is None:
            channel = await layer.new_channel()
            self._channel = channel
            self._ear = asyncio.ensure_future(self._receive(layer, channel))
            self._schedule_refresh(REFRESH)
        return self._channel

    async def _receive(self, layer: BaseChannelLayer, channel: str) -> None:
        is_failing = False
        while self._channel == channel:
            try:
                message = await layer.receive(channel)
            except Exception as error:
                # A layer may also answer so when it is cancelled, because we have stopped.
                if self._channel != channel:
                    return
                if not is_failing and _is_receive_timeout(error):
                    await asyncio.sleep(0)
                    continue
                if not is_failing:
                    logger.warning("The channel layer fails; trying again", exc_info=True)
                is_failing = True
                await asyncio.sleep(PAUSE)
                self._schedule_refresh(0)
                continue
            is_failing = False
            self._received(message)

    def _received(self, message: Message) -> None:
        if message.get("from") == process():
            return
        if "mailbox" in message:
            self.deliver(message["mailbox"], message["message"])
        else:
            self.take(message["group"], message["message"])

    def _schedule_refresh(self, delay: float) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
        loop = asyncio.get_running_loop()
        self._refresh = loop.call_later(delay, lambda: spawn(self._enter_again()))

    async def _enter_again(self) -> None:
        layer = shared_layer()
        if layer is None or not (self._receivers or self._mailboxes):
            return
        self._schedule_refresh(REFRESH)
        self._entered.clear()
        for name in tuple(self._receivers):
            await self._enter(layer, name)

    def _tidy_up(self) -> None:
        if self._channel is None:
            return
        if self._entered - self._receivers.keys() or not (self._receivers or self._mailboxes):
            spawn(self._discard())

    async def _discard(self) -> None:
        """Leave the groups that nobody here listens to; after the last one, stop receiving."""
        layer = shared_layer()
        async with self._lock:
            for name in self._entered - self._receivers.keys():
                self._entered.discard(name)
                if layer is not None and self._channel is not None:
                    await _try(layer.group_discard(name, self._channel))
            if not (self._receivers or self._mailboxes):
                self._stop()

    def _stop(self) -> None:
        ear, self._ear, self._channel = self._ear, None, None
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None
        if ear is not None:
            ear.cancel()

    @property
    def channel(self) -> str | None:
        """The channel on which this hub receives, if it does."""
        return self._channel


def here() -> MessageBus:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        with _guard:
            hub = _hubs.setdefault(loop, MessageBus())
    return hub


def any_loop() -> asyncio.AbstractEventLoop | None:
    """An event loop of this process in which somebody listens, the running one first."""
    running = running_loop()
    if running is not None:
        return running
    return next((loop for loop, _ in _all() if loop.is_running()), None)


async def publish(name: str, message: Message) -> None:
    """Let every receiver of the group hear ``message``, in all processes.

    Nothing is raised when the channel layer fails: what is said here is a hint, or can be
    found in a store.
    """
    _publish_here(name, message)
    await _publish_there(name, message)


def publish_soon(name: str, message: Message) -> None:
    """``publish`` for code that must not wait: in this process it is heard at once."""
    _publish_here(name, message)
    if shared_layer() is not None:
        spawn(_publish_there(name, message))


async def send(address: str, message: Message) -> bool:
    """Let the receiver of a mailbox have ``message``; False when it cannot be reached.

    True is no promise where the mailbox is in another process.
    """
    channel, mailbox = address.rpartition("/")[0], _mailbox(address)
    if _deliver_here(mailbox, message):
        return True
    layer = shared_layer()
    if layer is None or channel.startswith(LOCAL):
        return False
    wrapped = {"type": TYPE, "mailbox": mailbox, "message": dict(message)}
    return await _try(layer.send(channel, wrapped))


def shared_layer() -> BaseChannelLayer | None:
    """The site's channel layer, when it reaches other processes."""
    layer = get_channel_layer(conf.get().channel_layer)
    return None if isinstance(layer, InMemoryChannelLayer) else layer


LOCAL = "process."


def process() -> str:
    """A name for this process, which a forked child does not share."""
    return LOCAL + sha256(f"{_START}.{os.getpid()}".encode()).hexdigest()[:16]


def spawn(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run ``coroutine`` in a task of the running loop that nobody has to keep."""
    task = asyncio.ensure_future(coroutine)
    _tasks.add(task)
    task.add_done_callback(_on_done)


def _on_done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("What was to be done aside failed", exc_info=task.exception())


def _publish_here(name: str, message: Message) -> None:
    running = running_loop()
    for loop, hub in _all():
        if loop is running:
            hub.take(name, message)
        elif hub.hears(name):
            _call(loop, hub.take, name, message)


async def _publish_there(name: str, message: Message) -> None:
    layer = shared_layer()
    if layer is not None:
        wrapped = {"type": TYPE, "from": process(), "group": name, "message": dict(message)}
        await _try(layer.group_send(name, wrapped))


def _deliver_here(mailbox: str, message: Message) -> bool:
    running = running_loop()
    for loop, hub in _all():
        if loop is running and hub.deliver(mailbox, message):
            return True
        if loop is not running and hub.has(mailbox):
            _call(loop, hub.deliver, mailbox, message)
            return True
    return False


def _all() -> list[tuple[asyncio.AbstractEventLoop, MessageBus]]:
    with _guard:
        return list(_hubs.items())


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return  # The loop is closed, and with it everything that listened there.


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


def _is_receive_timeout(error: Exception) -> bool:
    """Whether a layer only means that nothing came for a while.

    From version 8 on, redis-py gives a connection up on which nothing came for five seconds,
    and that is as long as channels_redis waits at a time.
    """
    return type(error).__name__ == "TimeoutError"


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _mailbox(address: str) -> str:
    return address.rpartition("/")[2]


def _reset() -> None:
    """In a forked child: the loops, and the thread that may have held the lock, stayed behind."""
    global _guard
    _guard = threading.Lock()
    _hubs.clear()


_START = secrets.token_hex(8)
_guard = threading.Lock()
_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, MessageBus] = WeakKeyDictionary()
_tasks: set[asyncio.Task[Any]] = set()

os.register_at_fork(after_in_child=_reset)
