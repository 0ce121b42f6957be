"""GET in a session: its standalone stream, and the rest of a stream that was interrupted.

Messages for one session wait in its outbox; the active stream moves them to an event log of its
own, so that each message has one stream and one number there. Messages for every session of a
server stay in the server's log: the position of a session in it is a part of the event ids.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from django_mcp import conf, stores
from django_mcp.auth.base import Principal
from django_mcp.frame.session import Change, Session
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.revisions import BY_VERSION, Feature
from django_mcp.protocol.sse import EventId
from django_mcp.protocol.subscriptions import UPDATED
from django_mcp.pubsub import announcements, bus, catch_up, publisher
from django_mcp.pubsub.coalescing import Coalescer
from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.server.server import Server
from django_mcp.stores.base import Event, StoreFull
from django_mcp.transports.http.request import HttpError
from django_mcp.transports.http.session import event_log
from django_mcp.transports.http.session.active_stream import HINTS, ActiveStream, LogPosition
from django_mcp.transports.http.session.response import RETRY
from django_mcp.transports.http.sse_stream import MAX_BUFFERED, AuthenticatedRequest, SseStream
from django_mcp.transports.keepalive import Keepalive

MayRead = Callable[[Principal, Session, str], Awaitable[bool]]
"""Whether the principal of a session may read a resource."""

PREFIX = "g"
"""The first letter of the names of standalone streams, which are opened by a GET."""
RENEWALS = 3
"""How often a stream that sends nothing is renewed within SESSION_IDLE_TIMEOUT."""
RESUME_AGAIN = 0.3
"""Seconds until a resumed stream publishes that again: a new call subscribes after a moment."""
CHECKS = 3
"""How often a resumed stream looks at its lease while that would be renewed once, at first."""
RELOAD_AGAIN = 2.0
"""Seconds after which a session is loaded again that the store could not load."""
NO_POSITION = "n"
"""The position in an event id before the first message of the server's log."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A position in a standalone stream: the number of its own event, and the log position."""

    stream: str
    number: int
    log: LogPosition

    def __str__(self) -> str:
        log = NO_POSITION if self.log is None else str(self.log)
        return str(EventId(f"{self.stream}~{log}", self.number))

    @classmethod
    def parse(cls, event_id: EventId) -> StreamPosition | None:
        """The position in an event id of a standalone stream, or None for another id."""
        stream, tilde, log = event_id.stream.partition("~")
        if not tilde or not stream.startswith(PREFIX):
            return None
        if log == NO_POSITION:
            return cls(stream, event_id.sequence, None)
        return cls(stream, event_id.sequence, int(log)) if log.isdecimal() else None


class SessionStream(SseStream, ABC):
    """A GET of a session. One task at a time reads from the stores, whenever there is news."""

    kind = "get"

    def __init__(self, http: AuthenticatedRequest, session: Session) -> None:
        super().__init__(http)
        self._session = session
        self._reader: asyncio.Task[None] | None = None
        self._has_news = False
        self._reloading: asyncio.TimerHandle | None = None
        self._followed = ""
        """The stream of the store from which it reads, if hints may be lost."""

    async def check(self) -> None:
        """Close the stream of a session that has ended; an open stream counts as activity."""
        await super().check()
        if not self.is_denied:
            await self._reload()

    @abstractmethod
    async def _read(self) -> None:
        """Send what the stores have for this stream."""

    async def _load(self) -> Session | None:
        return await stores.sessions().load(self._session.id)

    async def _reload(self) -> None:
        try:
            self._use(await self._load())
        except StoreUnavailable:
            # It is logged. The session may have gone with what the store has lost.
            if self._reloading is None:
                self._reloading = self._loop.call_later(RELOAD_AGAIN, self._reload_again)

    def _reload_again(self) -> None:
        self._reloading = None
        if not self.gone:
            background.spawn(self._reload())

    def _use(self, session: Session | None) -> None:
        """Read for the session as it is now: clients open streams while they initialize."""
        if session is None or session.principal != self.principal.key:
            self.end()
        else:
            self._session = session
            self._wake()

    def _wake(self) -> None:
        """Read now, or once more after the reading in progress."""
        self._has_news = True
        if self._reader is None and not self.gone:
            self._reader = background.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            while self._has_news and not self.gone:
                self._has_news = False
                await self._read()
                await self.flush()
        except StoreUnavailable:
            # It is logged. The next read or the next stream finds the messages.
            catch_up.here().read_again(self._session.address, self._followed)
        except Exception:
            # The messages stay in the store: the next read or the next stream finds them.
            text = "A stream cannot read its messages from the store"
            log_repeated(logging.ERROR, text, exc_info=True)
            catch_up.here().read_again(self._session.address, self._followed)
        finally:
            self._reader = None

    def _follow(self, stream: str) -> None:
        """Read what was appended to a stream of the store, if the hint of it is lost."""
        if publisher.is_logged():
            self._followed = stream
            catch_up.here().follow(self._session.address, stream, self._stored)

    def _unfollow(self) -> None:
        catch_up.here().unfollow(self._session.address, self._followed, self._stored)

    def _stored(self, _: int | None) -> None:
        self._wake()

    async def _send_stored(self, text: str, event_id: str) -> None:
        """Send an event of the store, at the pace of the client."""
        if self.buffered > MAX_BUFFERED // 2:
            await self.flush()
        self.enqueue(sse.event(text, id=event_id))

    async def _wait_for_reader(self) -> None:
        while self._reader is not None:
            await asyncio.wait([self._reader])


class StandaloneStream(SessionStream):
    """A stream for messages which belong to no request; it sends while it is active."""

    def __init__(
        self,
        http: AuthenticatedRequest,
        session: Session,
        resumed: StreamPosition | None,
        server: Server,
        may_read: MayRead,
        end_session: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(http, session)
        self._keepalive = Keepalive(server, send=self._send_keepalive, give_up=end_session)
        self._server = server
        self._may_read = may_read
        self._resumed = resumed
        self._name = PREFIX + secrets.token_urlsafe(12)
        self._last = 0
        self._has_unsent = False
        """Whether there may be events in this stream which were not sent."""
        self._is_subscribed = False
        self._renewed_at = self._loop.time()
        self._has_log_news = True
        self._has_outbox_news = True
        self._coalescer = Coalescer(self._read_soon)
        self._active = ActiveStream(
            self._session.id,
            self._name,
            activate=self._activate,
            drain=self._drain_reader,
            retry=lambda: background.spawn(self._reload()),
        )
        stored: LogPosition = self._session.active_stream.get("position")
        self._active.position = stored if resumed is None else resumed.log

    async def serve(self) -> None:
        group, here = publisher.of_session(self._session.address), bus.here()
        is_primed = BY_VERSION[self._session.version].has(Feature.PRIMING_EVENTS)
        try:
            await stores.events().append(self._session.address, self._name, ())
        except StoreFull as error:
            raise HttpError(429, f"{error}: close one of them first") from error
        try:
            # Until what it resumes is sent, the client stays at its position there.
            first = self._id if self._resumed is None else str(self._resumed)
            self.enqueue(sse.priming(first, retry=RETRY) if is_primed else sse.KEEP_ALIVE)
            await here.subscribe(group, self._receive_event)
            await self._subscribe_to_broadcasts()
            self._follow(publisher.OUTBOX)
            self._use(await self._active.open())
            self._keepalive.start()
            await self.wait_until_closed()
            await self._wait_for_reader()
            # The client may come back: when to do so (T-HTTP-46).
            await self.finish(sse.retry(RETRY) if is_primed else b"")
        finally:
            self._keepalive.stop()
            self._coalescer.close()
            self._unfollow()
            self._unsubscribe_from_broadcasts()
            here.unsubscribe(group, self._receive_event)
            # The server may cancel this task, and the lease has to be released all the same.
            background.spawn(self._close())

    def _follow(self, stream: str) -> None:
        super()._follow(stream)
        if self._followed:
            catch_up.here().follow(self._session.address, self._name, self._kept)

    def _unfollow(self) -> None:
        super()._unfollow()
        catch_up.here().unfollow(self._session.address, self._name, self._kept)

    def _kept(self, number: int | None) -> None:
        """Look at the session if the store has lost this stream, as when the session has ended."""
        if number is None and not self.gone:
            background.spawn(self._reload())

    async def _subscribe_to_broadcasts(self) -> None:
        self._is_subscribed = True
        await announcements.here().subscribe(self._server, None, self._receive_broadcast)

    def _unsubscribe_from_broadcasts(self) -> None:
        if self._is_subscribed:
            announcements.here().unsubscribe(self._server, None, self._receive_broadcast)

    @property
    def _may_send(self) -> bool:
        # Before a client is initialized it should be sent nothing (LIFE-10).
        return self._active.is_active and self._session.initialized and not self.gone

    @property
    def _id(self) -> str:
        return str(StreamPosition(self._name, self._last, self._active.position))

    async def _close(self) -> None:
        self.gone = True
        await self._wait_for_reader()
        await self._active.close()
        await stores.events().close(self._session.address, self._name)

    async def _load(self) -> Session | None:
        await self._renew()
        return await self._active.renew()

    async def _renew(self) -> None:
        """Keep the stream in the event store, which forgets those that nobody appends to."""
        now, interval = self._loop.time(), conf.get().session_idle_timeout / RENEWALS
        if now - self._renewed_at >= interval:
            self._renewed_at = now
            await stores.events().append(self._session.address, self._name, (), create=False)

    def _activate(self, lease: dict[str, Any]) -> None:
        """Start to send at the position in the lease, unless the client named its own."""
        position, own = lease.get("position"), self._active.position
        is_own = self._resumed and lease.get("previous") in (None, self._resumed.stream)
        if position is not None and not is_own:
            self._active.position = position if own is None else max(own, position)
        self._has_log_news = True
        self._wake()

    async def _drain_reader(self) -> None:
        await self._wait_for_reader()
        await self.flush()

    def _receive_event(self, message: bus.Message) -> None:
        match message["event"]:
            case "posted":
                self._coalescer.add(publisher.OUTBOX)
            case "ended":
                self.end()
            case "taken_over" if message["by"] != self.principal.key:
                self.end()
            case "initialized":
                self._session = self._session.apply([Change("initialized", "set", value=True)])
                self._wake()
            case event if event in HINTS:
                self._active.receive(message)

    def _receive_broadcast(self, message: bus.Message) -> None:
        """Read the log, or send a message for every session that is in no log."""
        if message["number"] is not None or "is_log_unknown" in message:
            self._coalescer.add(publisher.LOG)
        elif self._may_send and publisher.supports(self._session, message["method"]):
            self.enqueue(sse.event(message["text"]))

    def _read_soon(self, news: Hashable) -> None:
        if news == publisher.LOG:
            self._has_log_news = True
        else:
            self._has_outbox_news = True
        self._wake()

    def _stored(self, _: int | None) -> None:
        self._read_soon(publisher.OUTBOX)

    async def _read(self) -> None:
        if not self._may_send or not await self._is_of_caller():
            return
        if self._resumed is not None:
            await self._replay(self._resumed)
            self._resumed = None
        if self._has_log_news:
            self._has_log_news = False
            try:
                await self._read_log()
            except BaseException:
                self._has_log_news = True
                raise
        if self._has_outbox_news or self._has_unsent:
            self._has_outbox_news = False
            await self._send_outbox()

    async def _is_of_caller(self) -> bool:
        """Whether no principal has taken the session over, whose messages these would be."""
        if self._session.anonymous_at is None:
            return True
        session = await stores.sessions().load(self._session.id)
        is_of_caller = session is not None and session.principal == self.principal.key
        if not is_of_caller:
            self.end()
        return is_of_caller

    async def _send_outbox(self) -> None:
        """Send what waits for this session, and what an attempt has moved here that failed.

        The store may have moved events, although it did not answer in time.
        """
        session, store, events = self._session.address, stores.events(), []
        if self._has_unsent:
            events = await store.after(session, self._name, self._last) or []
        self._has_unsent = True
        events += await store.move(session, publisher.OUTBOX, self._name)
        for event in deduplicate(events):
            is_permitted = await self._is_permitted(event.data)
            self._last = event.number
            if is_permitted:
                await self._send_stored(event.data, self._id)
        self._has_unsent = False

    async def _replay(self, position: StreamPosition) -> None:
        session, stream = self._session.address, position.stream
        for event in await stores.events().after(session, stream, position.number) or ():
            event_id = StreamPosition(stream, event.number, position.log)
            await self._send_stored(event.data, str(event_id))
        if BY_VERSION[self._session.version].has(Feature.PRIMING_EVENTS):
            self.enqueue(sse.priming(self._id))

    async def _read_log(self) -> None:
        position = self._active.position
        if position is None:
            self._active.position = await publisher.position(self._server)
            self._write_initial_notifications()
            return
        events = announcements.here().recent_after(self._server, position)
        if events is None:
            events = await self._stored_after(position)
        for event in deduplicate(events):
            self._active.position = event.number
            if publisher.supports(self._session, method_of(event.data)):
                await self._send_stored(event.data, self._id)
        if events:
            self._active.position = events[-1].number

    async def _stored_after(self, position: int) -> list[Event]:
        newest = await publisher.position(self._server)
        if newest == position:
            return []
        # All of them if the log has started anew since.
        after = position if newest > position else 0
        log = publisher.log_of(self._server)
        events = await stores.events().after(log, publisher.LOG, after) or []
        if not events:
            self._active.position = newest
        return events

    def _write_initial_notifications(self) -> None:
        """Send the first notifications of a session, which replace everything before them."""
        server = self._server
        methods = publisher.advertised(server) if server.notify_lists_on_initialize else []
        for method in methods:
            # Only the last one is a position to resume at: before it, all are sent again.
            event_id = self._id if method == methods[-1] else None
            self.enqueue(sse.event(jsonrpc.encode(jsonrpc.notification(method)), id=event_id))

    async def _is_permitted(self, text: str) -> bool:
        """Whether the client may still read the resource that a message names (RES-18)."""
        if method_of(text) != UPDATED:
            return True
        uri: str = jsonrpc.decode(text)["params"]["uri"]
        return await self._may_read(self.principal, self._session, uri)

    def _send_keepalive(self, message: bytes) -> bool:
        """Send it if this stream is active; return whether the client reads its stream."""
        if self.is_stuck:
            return False
        if self._may_send:
            self.enqueue(sse.event(message))
        return True


class ResumedStream(SessionStream):
    """The rest of a POST's stream, up to the response, for a client that lost its connection."""

    def __init__(self, http: AuthenticatedRequest, session: Session, last_event: EventId) -> None:
        super().__init__(http, session)
        self._name, self._number = last_event.stream, last_event.sequence
        self._token = secrets.token_urlsafe(9)
        self._is_lease_due = True
        self._has_sent_end = False
        """Whether the client has its one answer: nothing may follow it."""
        self._is_replaced = False
        self._resumed_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def _check_lease(self) -> None:
        """Look, as often as the lease is renewed, whether the worker that writes still lives.

        At first more often: streams are resumed because their workers have just died.
        """
        self._is_lease_due = True
        self._wake()
        is_first = self._loop.time() - self._resumed_at <= event_log.lease()
        interval = event_log.renewal_interval() / (CHECKS if is_first else 1)
        self._timer = self._loop.call_later(interval, self._check_lease)

    async def serve(self) -> None:
        group, here = publisher.of_session(self._session.address), bus.here()
        try:
            self.enqueue(sse.KEEP_ALIVE)
            await here.subscribe(group, self._receive_event)
            self._follow(self._name)
            self._replace_others()
            asyncio.get_running_loop().call_later(RESUME_AGAIN, self._replace_others)
            await self._reload()
            self._check_lease()
            await self.wait_until_closed()
            await self._wait_for_reader()
            await self.finish()
        finally:
            self._unfollow()
            if self._timer is not None:
                self._timer.cancel()
            here.unsubscribe(group, self._receive_event)
            if not self._is_replaced:
                bus.publish_soon(group, {"event": "left", "stream": self._name})

    def _replace_others(self) -> None:
        if not self.gone:
            event = {"event": "resumed", "stream": self._name, "by": self._token}
            bus.publish_soon(publisher.of_session(self._session.address), event)
            self._wake()

    def _receive_event(self, message: bus.Message) -> None:
        is_mine = message.get("stream") == self._name
        match message["event"]:
            case "appended" if is_mine:
                self._wake()
            case "resumed" if is_mine and message["by"] != self._token:
                self._is_replaced = True
                self.end()
            case "ended":
                self.end()
            case "taken_over" if message["by"] != self.principal.key:
                self.end()

    async def _read(self) -> None:
        if self._has_sent_end:
            return
        session = self._session.address
        store = stores.events()
        if self._is_lease_due:
            self._is_lease_due = False
            await event_log.end_abandoned(self._session, self._name)
        # In this order: what is appended before the end is read after it was seen.
        is_closed = await store.is_closed(session, self._name)
        events = await store.after(session, self._name, self._number)
        for event in events or ():
            self._number = event.number
            await self._send_stored(event.data, str(EventId(self._name, event.number)))
        if events is None:
            await self._send_end_of_lease()
        elif is_closed and not events:
            await self._send_unseen_end()
        # A worker that died after it stored the response has not closed the stream.
        if is_closed or events is None or (events and not method_of(events[-1].data)):
            self._has_sent_end = True
            self.end()

    async def _send_unseen_end(self) -> None:
        """Send the error of a lease that has ended to a client which is ahead of the store.

        Events are sent while they are being stored. Of those that a worker did not store before it
        died, the client has seen the numbers, among them that of the error.
        """
        session, store = self._session.address, stores.events()
        last = await store.last(session, self._name) or 0
        for event in await store.after(session, self._name, last - 1) or ():
            if event.data == event_log.end_of_lease(self._session, self._name):
                await self._send_end_of_lease()

    async def _send_end_of_lease(self) -> None:
        text = event_log.end_of_lease(self._session, self._name)
        await self._send_stored(text, str(EventId(self._name, self._number)))


async def find(last_event_id: str | None, session: Session) -> EventId | StreamPosition | None:
    """The position to resume at, in the stream of a POST or of a GET.

    None if that of a GET is unknown, as one of another session is. Whoever resumes an unknown
    stream of a POST waits for a response, and has to be told that there is none.
    """
    event_id = EventId.parse(last_event_id) if last_event_id else None
    if event_id is None:
        return None
    if event_log.is_name(event_id.stream):
        return event_id
    position = StreamPosition.parse(event_id)
    if position is None:
        return None
    events = await stores.events().after(session.address, position.stream, event_id.sequence)
    return None if events is None else position


def deduplicate(events: Iterable[Event]) -> list[Event]:
    """The events; of those which add nothing when repeated, only the last one."""
    found: dict[Any, Event] = {}
    for event in events:
        repeats = method_of(event.data) in publisher.METHODS | {UPDATED}
        key = event.data if repeats else event.number
        found.pop(key, None)
        found[key] = event
    return list(found.values())


def method_of(text: str) -> str:
    return str(jsonrpc.decode(text).get("method", ""))
