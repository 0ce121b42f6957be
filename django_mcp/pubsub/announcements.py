"""Announcements to the clients of a server: changed lists, resources, custom notifications.

``AnnouncementLog`` receives them for the streams of an event loop. ``Coalescer`` merges the equal
ones of a stream that follow each other closely.

An announcement is an entry in a log of the server, in the event store. A message on the bus is a
hint to read it, and ``catch_up`` looks at the log now and then, in case the hint was lost. The hint
contains the entry as well: whoever has everything before it need not read the store. Each event
loop reads a log once, however many streams receive its entries.

Where nobody reads the log from the store, and where the store did not answer, the announcement is
in the message itself. A worker that misses the message does not learn of the change.

Without a channel layer, ``catch_up`` does not look at the log, since this process publishes every
hint that it receives. The log begins with the first of them; what another process appends after it
is read with the next one. A read that fails is repeated after a second.

A log, as one event loop receives it, is

| state | position | who moves it |
|---|---|---|
| new | None | ``open``, to the end of the log; a store that fails leaves it unknown |
| unknown | None | the next read, to the end of the log: everything counts as changed |
| followed | a number, or 0 | each read, to the last event; at a gap everything counts as changed |
"""

# The rules:
#
# 1. Everything up to the position was delivered to the receivers of this event loop, or counts as
#    changed.
# 2. A hint is taken without the store only if it continues the position, and no read is in
#    progress. Hints of one process may be out of order too: its appends run on several threads.
# 3. The position moves back where the log has begun anew. Everything counts as changed then.
# 4. One task reads a log, under a lock that ``open`` holds as well.
# 5. A read that fails changes nothing, and is repeated: by ``catch_up``, or by a timer.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence

from django_mcp import stores
from django_mcp.core.concurrency import loops
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.subscriptions import UPDATED
from django_mcp.core.server.server import Server
from django_mcp.pubsub import bus, catch_up
from django_mcp.pubsub.publisher import (
    LOG,
    NUMBERS_PER_SECOND,
    UPDATES,
    is_logged,
    log_of,
    of_log,
)
from django_mcp.pubsub.session_messages import advertised
from django_mcp.runtime import background
from django_mcp.stores.base import Event, had_outage

AFTER_OUTAGE = 1.0
"""Seconds after a failure of the store before a log tries to read its end again."""
RECENT = 100
"""Events of a log which an event loop keeps, so that its streams need not read them as well."""
LISTS = ""
"""In the place of a URI: the receivers of announcements to every client."""
MERGE_INTERVAL = 0.1
"""Seconds: a stream sends equal notifications once within them."""
MAX_MERGED = 1000
"""Notifications of one stream that are remembered with their last time, before old ones are
dropped."""


class AnnouncementLog:
    """One log of a server, as one event loop receives it."""

    def __init__(self, server: Server, stream: str) -> None:
        self._server = server
        self._stream = stream
        self._address = log_of(server)
        self._receivers: dict[str, dict[bus.Receiver, None]] = {}
        """By URI."""
        self._position: int | None = None
        """Everything was delivered up to this number, if it is known."""
        self._recent: list[Event] = []
        """The last events, without a gap."""
        self._lock = asyncio.Lock()
        self._is_open = False
        self._has_news = False
        self._reader: asyncio.Task[None] | None = None

    def add(self, uri: str, receiver: bus.Receiver) -> None:
        self._receivers.setdefault(uri, {})[receiver] = None

    def remove(self, uri: str, receiver: bus.Receiver) -> None:
        receivers = self._receivers.get(uri, {})
        receivers.pop(receiver, None)
        if not receivers:
            self._receivers.pop(uri, None)

    @property
    def is_used(self) -> bool:
        return bool(self._receivers)

    async def open(self) -> None:
        """Begin at the present end of the log.

        Where the store has just failed, everything counts as changed once it can be read: a client
        does not wait for each log and each resource in turn.
        """
        async with self._lock:
            if self._is_open:
                return
            await bus.here().subscribe(of_log(self._server, self._stream), self._receive)
            if is_logged():
                if not had_outage(AFTER_OUTAGE):
                    await self._read_end()
                catch_up.here().follow(self._address, self._stream, self._changed)
            self._is_open = True
            if not self.is_used:
                self.close()  # Its last receiver has left meanwhile.

    def recent_after(self, position: int) -> list[Event] | None:
        """The events after ``position``, as far as they were read; None if some are not kept."""
        if not self._recent or position + 1 < self._recent[0].number:
            return None
        return [event for event in self._recent if event.number > position]

    def close(self) -> None:
        bus.here().unsubscribe(of_log(self._server, self._stream), self._receive)
        catch_up.here().unfollow(self._address, self._stream, self._changed)

    async def _read_end(self) -> None:
        try:
            self._position = await self._last()
        except Exception:
            log_repeated(logging.ERROR, NOT_READ, exc_info=True)

    def _receive(self, message: bus.Message) -> None:
        if "method" in message:
            self._deliver(message.get("uri", LISTS), message)
        elif self._is_next(message):
            first = message["last"] - len(message["entries"]) + 1
            self._take([Event(*entry) for entry in enumerate(message["entries"], first)])
        else:
            self._read_soon()

    def _is_next(self, hint: bus.Message) -> bool:
        """Whether everything before the entries of a hint was delivered.

        For a log that was empty it is not known: a number does not say whether it is the first one.
        Then the log is read.
        """
        if self._position is None and not is_logged():
            return True  # The first hint of this process, which has not looked at the store.
        before = hint["last"] - len(hint["entries"])
        return self._reader is None and self._position == before

    def _changed(self, last: int | None) -> None:
        """Compare the position with the last number that ``catch_up`` has seen in the store."""
        present = last or 0
        if self._position is None:
            self._begin_at(present)
        elif self._position != present:
            self._read_soon()

    def _begin_at(self, position: int) -> None:
        """Begin at ``position``. Losses before it are unknown, so everything counts as changed."""
        self._position = position
        self._recent = []
        self._notify_all()

    def _read_soon(self) -> None:
        """Read now, or once more after the reading in progress."""
        self._has_news = True
        if self._reader is None:
            self._reader = background.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            async with self._lock:
                while self._has_news:
                    self._has_news = False
                    await self._read()
        except Exception:
            log_repeated(logging.ERROR, NOT_READ, exc_info=True)
            if is_logged():
                catch_up.here().read_again(self._address, self._stream)
            else:
                asyncio.get_running_loop().call_later(AFTER_OUTAGE, self._read_if_used)
        finally:
            self._reader = None

    def _read_if_used(self) -> None:
        if self.is_used:
            self._read_soon()

    async def _read(self) -> None:
        """Deliver the entries after the position."""
        position = self._position
        if position is None:
            self._begin_at(await self._last())
            return
        events = await self._after(position)
        if not events:
            last = await self._last()
            if last > position:
                # They were appended in between, or have expired.
                events = await self._after(position)
            if not events:
                if last != position:
                    self._begin_at(last)
                return
        if has_gap(position, events):
            self._begin_at(position)
        self._take(events)

    async def _after(self, position: int) -> list[Event]:
        return await stores.events().after(self._address, self._stream, position) or []

    async def _last(self) -> int:
        return await stores.events().last(self._address, self._stream) or 0

    def _take(self, events: Sequence[Event]) -> None:
        self._position = events[-1].number
        self._recent = [*self._recent, *events][-RECENT:]
        for event in events:
            self._deliver_event(event)

    def _deliver_event(self, event: Event) -> None:
        if self._stream == LOG:
            method = str(jsonrpc.decode(event.data).get("method", ""))
            message = {"method": method, "text": event.data, "number": event.number}
            self._deliver(LISTS, message)
        else:
            self._deliver(event.data, {"method": UPDATED, "uri": event.data})

    def _notify_all(self) -> None:
        """Announce a change of everything that may have changed."""
        if self._stream == LOG:
            for method in advertised(self._server):
                text = jsonrpc.encode(jsonrpc.notification(method)).decode()
                message = {"method": method, "text": text, "number": None, "is_log_unknown": True}
                self._deliver(LISTS, message)
        else:
            for uri in tuple(self._receivers):
                self._deliver(uri, {"method": UPDATED, "uri": uri})

    def _deliver(self, uri: str, message: bus.Message) -> None:
        receivers: Iterable[bus.Receiver] = tuple(self._receivers.get(uri, ()))
        for receiver in receivers:
            bus.deliver(receiver, message)


NOT_READ = "The log of a server cannot be read; trying again"


def has_gap(position: int, events: Sequence[Event]) -> bool:
    """Whether entries between a position in a log and those read after it are not kept any more.

    The position 0 is that of an empty log, whose first number is not known, but the time. Without
    the first entry, the log is full, or began before the time to which entries are kept.
    """
    if not events:
        return True
    first = events[0].number
    if position:
        return first != position + 1
    store = stores.events()
    oldest = (store.now() - store.lifetime) * NUMBERS_PER_SECOND
    return len(events) >= store.limit or first < int(oldest)


class Announcements:
    """The receivers of announcements in one event loop."""

    def __init__(self) -> None:
        self._logs: dict[tuple[Server, str], AnnouncementLog] = {}

    async def subscribe(self, server: Server, uri: str | None, receiver: bus.Receiver) -> None:
        """Receive the changes of a resource or, without a URI, the messages for every client.

        Every subscriber must unsubscribe, also after a cancellation.
        """
        key = _key(server, uri)
        log = self._logs.get(key)
        if log is None:
            log = AnnouncementLog(*key)
            self._logs[key] = log
        log.add(uri or LISTS, receiver)
        await log.open()

    def unsubscribe(self, server: Server, uri: str | None, receiver: bus.Receiver) -> None:
        """End a subscription; a second call is harmless."""
        key = _key(server, uri)
        log = self._logs.get(key)
        if log is None:
            return
        log.remove(uri or LISTS, receiver)
        if not log.is_used:
            del self._logs[key]
            log.close()

    def recent_after(self, server: Server, position: int) -> list[Event] | None:
        """The entries of a server's log after ``position``; None if the store has to be read."""
        log = self._logs.get(_key(server, None))
        return None if log is None else log.recent_after(position)


def _key(server: Server, uri: str | None) -> tuple[Server, str]:
    return server, LOG if uri is None else UPDATES


def here() -> Announcements:
    """The receivers of the running event loop."""
    return loops.here(Announcements)


class Coalescer:
    """Sends a notification at once, and its repetitions as one at the end of the interval.

    The last one is never dropped: after it, a client reads the present state.
    """

    def __init__(self, send: Callable[[Hashable], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._sent_at: dict[Hashable, float] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def add(self, key: Hashable) -> None:
        if key in self._timers:
            return
        now = self._loop.time()
        due = self._sent_at.get(key, 0.0) + MERGE_INTERVAL
        # Most are not repeated, and a timer for each takes a tenth of the time of a fan-out.
        if due <= now:
            self._send_at(now, key)
        else:
            self._timers[key] = self._loop.call_at(due, self._end, key)

    def close(self) -> None:
        """Send nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _send_at(self, now: float, key: Hashable) -> None:
        if len(self._sent_at) >= MAX_MERGED:
            recent = now - MERGE_INTERVAL
            self._sent_at = {key: at for key, at in self._sent_at.items() if at > recent}
        self._sent_at[key] = now
        self._send(key)

    def _end(self, key: Hashable) -> None:
        del self._timers[key]
        self._send_at(self._loop.time(), key)
