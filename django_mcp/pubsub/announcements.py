"""What is announced to the clients of a server: changed lists and resources.

An announcement is a row in a log of the server, and a message on the bus. Every worker receives it
once: from the bus or, if that has lost it, from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from weakref import WeakKeyDictionary

from django_mcp import stores
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.subscriptions import UPDATED
from django_mcp.pubsub import bus, catch_up
from django_mcp.pubsub.publisher import (
    LOG,
    UPDATES,
    advertised,
    is_logged,
    log_of,
    name_of,
    of_resource,
    of_server,
)
from django_mcp.runtime import background
from django_mcp.server.server import Server
from django_mcp.stores.base import Event, had_outage

JUST_NOW = 1.0
"""Seconds after a failure of the store in which a log does not try to read its end."""
MAX_NUMBERS = 10_000
"""Numbers above the position that are remembered, while the store does not answer."""


class AnnouncementLog:
    """One log of a server, as one event loop has received it."""

    def __init__(self, server: Server, stream: str) -> None:
        self.users: Counter[str] = Counter()
        """How many receivers there are: of resources, for each URI."""
        self.name = name_of(server, stream)
        self._server = server
        self._stream = stream
        self._position: int | None = None
        """The number up to which everything was delivered, if it is known."""
        self._numbers: set[int] = set()
        """Numbers after the position which were delivered."""
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Begin at the present end of the log.

        Where the store has just failed, everything counts as changed once it can be read: a client
        does not wait for each log and each resource in turn.
        """
        async with self._lock:
            if self._position is not None or had_outage(JUST_NOW):
                return
            try:
                self._position = await stores.events().last(log_of(self._server), self._stream) or 0
            except Exception:
                text = "The log of a server cannot be read; trying again"
                log_repeated(logging.ERROR, text, exc_info=True)

    def is_new(self, number: int, /) -> bool:
        is_old = self._position is not None and number <= self._position
        if is_old or number in self._numbers:
            return False
        if len(self._numbers) < MAX_NUMBERS:
            self._numbers.add(number)
        return True

    def changed(self, last: int | None) -> None:
        background.spawn(self._catch_up(last or 0))

    async def _catch_up(self, last: int) -> None:
        async with self._lock:
            position = self._position
            if position is None or last < position:
                # Nobody knows what was missed: the log, or its beginning, was out of reach.
                self._notify_all()
            elif not self._has_all(position, last):
                try:
                    last = max(last, await self._read_after(position))
                except Exception:
                    text = "The log of a server cannot be read; trying again"
                    log_repeated(logging.ERROR, text, exc_info=True)
                    catch_up.here().read_again(log_of(self._server), self._stream)
                    return
            self._position = last
            self._numbers = {number for number in self._numbers if number > last}

    def _has_all(self, position: int, last: int) -> bool:
        if last - position > len(self._numbers):
            return False
        return all(number in self._numbers for number in range(position + 1, last + 1))

    async def _read_after(self, position: int) -> int:
        """Deliver what was not delivered yet; return the number of the last one."""
        store, address = stores.events(), log_of(self._server)
        events = await store.after(address, self._stream, position) or []
        if position:
            is_complete = bool(events) and events[0].number == position + 1
        else:
            is_complete = 0 < len(events) < store.limit  # The log is new.
        if not is_complete:
            self._notify_all()  # The log does not have all of it any more.
        for event in events:
            self._deliver(event)
        return events[-1].number if events else 0

    def _deliver(self, event: Event) -> None:
        numbered = {"log": self.name, "number": event.number}
        if self._stream == LOG:
            method = str(jsonrpc.decode(event.data).get("method", ""))
            message = {"method": method, "text": event.data, **numbered}
            bus.here().receive(of_server(self._server), message)
        else:
            message = {"method": UPDATED, "uri": event.data, **numbered}
            bus.here().receive(of_resource(self._server, event.data), message)

    def _notify_all(self) -> None:
        """Announce a change of everything that may have changed."""
        if self._stream == LOG:
            for method in advertised(self._server):
                text = jsonrpc.encode(jsonrpc.notification(method)).decode()
                message = {"method": method, "text": text, "number": None, "is_log_unknown": True}
                bus.here().receive(of_server(self._server), message)
        else:
            for uri in tuple(self.users):
                message = {"method": UPDATED, "uri": uri}
                bus.here().receive(of_resource(self._server, uri), message)


class Announcements:
    """The receivers of announcements in one event loop."""

    def __init__(self) -> None:
        self._logs: dict[str, AnnouncementLog] = {}

    async def subscribe(self, server: Server, uri: str | None, receiver: bus.Receiver) -> None:
        """Receive the changes of a resource or, without a URI, the messages for every client.

        Every subscriber must unsubscribe, also after a cancellation.
        """
        stream = LOG if uri is None else UPDATES
        log = self._logs.get(name_of(server, stream))
        if log is None:
            log = self._logs[name_of(server, stream)] = AnnouncementLog(server, stream)
        log.users[uri or ""] += 1
        if is_followed := is_logged():
            bus.here().logs[log.name] = log
        await bus.here().subscribe(_group(server, uri), receiver)
        if is_followed:
            await log.start()
            catch_up.here().follow(log_of(server), stream, log.changed)

    def unsubscribe(self, server: Server, uri: str | None, receiver: bus.Receiver) -> None:
        stream = LOG if uri is None else UPDATES
        bus.here().unsubscribe(_group(server, uri), receiver)
        if (log := self._logs.get(name_of(server, stream))) is not None:
            log.users[uri or ""] -= 1
            if log.users[uri or ""] <= 0:
                del log.users[uri or ""]
            if not log.users:
                del self._logs[log.name]
                bus.here().logs.pop(log.name, None)
                catch_up.here().unfollow(log_of(server), stream, log.changed)


def _group(server: Server, uri: str | None) -> str:
    return of_server(server) if uri is None else of_resource(server, uri)


def here() -> Announcements:
    """The receivers of the running event loop."""
    return _announcements.setdefault(asyncio.get_running_loop(), Announcements())


_announcements: WeakKeyDictionary[asyncio.AbstractEventLoop, Announcements] = WeakKeyDictionary()
