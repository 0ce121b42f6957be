"""The standalone stream of a session, for messages which belong to no request.

Messages for one session wait in its outbox; the active stream moves them to an event log of its
own, so that each message has one stream and one number there. Messages for every session of a
server stay in the server's log: the position of a session in it is a part of the event ids.

| state | meaning | who moves it |
|---|---|---|
| opening | it subscribes, and sends only the start of the response | ``serve``: active |
| active | the client is not initialized; what wakes it loads the session | ``_read``: sending |
| sending | reads the resumed stream, then the log, then the outbox | a newer stream: ended |
| ended | the reading in progress is finished, and the position is kept | nobody |

A client that leaves, and the end of its session, move each state to ended. Which stream of a
session is active is decided in ``active_stream``; the states of its response are in
``long_lived_stream``.
"""

# The rules:
#
# 1. A stream sends while it is active, its session is initialized, and it is open (``_may_send``).
#    ``active_stream`` decides which stream of a session is active.
# 2. ``serve`` subscribes before it takes over. Earlier notifications are read from the store, and
#    is read; what is published later arrives as a hint, or by ``catch_up``.
# 3. A message of the outbox moves to the stream of its own in the store before it is sent. So it is
#    on one stream only, and a client that missed it resumes this stream.
#    A client that comes back to a stream which was resumed before has read nothing of the streams
#    that continued it. Their names are in the resumed stream, and what they have moves to the new
#    one, in the order in which they were opened. Nothing else is read from another stream.
# 4. An event id has both positions: in the stream itself and in the log of the server. It stands
#    for everything up to it, and a client that resumes is sent the rest.
# 5. The position in the log grows with each event that is sent or passed over. ``renew`` keeps it
#    in the session. After a crash, what was sent since is sent again.
# 6. One task reads, at the pace of the client. Whatever brings news wakes it, and does not send.
# 7. Only notifications that add nothing when they are repeated may be merged.
# 8. The log keeps its entries for a while, and a session may be away for longer. A client that
#    comes back to a gap is told that every list may have changed.

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_mcp import conf, stores
from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.session import Change, Session
from django_mcp.core.protocol import jsonrpc, sse
from django_mcp.core.protocol.limits import natural
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.core.protocol.sse import EventId
from django_mcp.core.protocol.subscriptions import UPDATED
from django_mcp.core.server.server import Server
from django_mcp.pubsub import announcements, bus, catch_up, publisher, session_messages
from django_mcp.runtime import background
from django_mcp.stores.base import Event, StoreFull
from django_mcp.transports.http import open_streams
from django_mcp.transports.http.request import HttpError
from django_mcp.transports.http.session.active_stream import (
    ACTIVE,
    OPENED,
    ActiveStream,
    LogPosition,
)
from django_mcp.transports.http.session.response import RETRY
from django_mcp.transports.http.session.stream import SessionStream, method_of
from django_mcp.transports.session_engine import Keepalive

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

MayRead = Callable[[Principal, Session, str], Awaitable[bool]]
"""Whether the principal of a session may read a resource."""

PREFIX = "g"
"""The first letter of the names of standalone streams, which are opened by a GET."""
RENEWALS = 3
"""How often a stream that sends nothing is renewed within SESSION_IDLE_TIMEOUT."""
NO_POSITION = "n"
"""The position in an event id before the first message of the server's log."""


def is_name(data: str) -> bool:
    """Whether an entry of a stream is the name of one that continues it; messages are JSON."""
    return data.startswith(PREFIX)


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
        position = natural(log)
        return None if position is None else cls(stream, event_id.sequence, position)


class StandaloneStream(SessionStream):
    """One response to a GET. It sends while it is active, and ends when a newer stream is."""

    def __init__(
        self,
        http: HttpExchange,
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
        """The position after which an earlier stream has to be replayed."""
        self._continued = "" if resumed is None else resumed.stream
        """The stream that the client resumes if it comes back now; empty if it is this one."""
        self._name = PREFIX + secrets.token_urlsafe(12)
        self._last = 0
        self._has_unsent = False
        """Whether there may be events in this stream which were not sent."""
        self._renewed_at = self._loop.time()
        self._news: set[Hashable] = {publisher.LOG, session_messages.OUTBOX}
        """The streams of the store that may have messages for this one."""
        self._coalescer = announcements.Coalescer(self._read_soon)
        self._active = ActiveStream(self._session.id, self._name, end=self.end)

    async def serve(self) -> None:
        group = session_messages.of_session(self._session.address)
        here = bus.here()
        is_primed = BY_VERSION[self._session.version].has(Feature.PRIMING_EVENTS)
        try:
            # In this order: a stream of its own that nobody closes would count as open.
            await self._active.reserve()
            await stores.events().append(self._session.address, self._name, ())
        except StoreFull as error:
            text = f"{error}: close one of them first"
            raise HttpError(429, text, open_streams.RETRY_HEADERS) from error
        try:
            # Until the resumed stream is sent, the client stays at its position there.
            first = self._id if self._resumed is None else str(self._resumed)
            self.enqueue(sse.priming(first, retry=RETRY) if is_primed else sse.KEEP_ALIVE)
            await here.subscribe(group, self._receive_event)
            await announcements.here().subscribe(self._server, None, self._receive_broadcast)
            self._follow(session_messages.OUTBOX)
            # Become the active stream, for the session as it is now.
            session = await self._active.take()
            if session is not None:
                self._active.start(await self._position_in(session))
            self._use(session)
            self._keepalive.start()
            await self.wait_until_closed()
            await self._wait_for_reader()
            # The client may come back: when to do so (T-HTTP-46).
            await self.finish(sse.retry(RETRY) if is_primed else b"")
        finally:
            self._keepalive.stop()
            self._coalescer.close()
            self._unfollow()
            announcements.here().unsubscribe(self._server, None, self._receive_broadcast)
            here.unsubscribe(group, self._receive_event)
            # The server may cancel this task, and the position has to be kept all the same.
            background.spawn(self._close())

    async def _position_in(self, session: Session) -> LogPosition:
        """The position in the server's log where this stream begins.

        A client that resumes the last stream knows it exactly, also where it has read nothing of a
        stream that continued it. Otherwise it is the highest one that is known, as for a client
        that has read the first event alone, which is sent before the position is known.
        """
        previous = self._active.previous
        positions = [self._active.position, session.log_position]
        if self._resumed is not None and self._resumed.log is not None:
            if previous in ("", self._resumed.stream):
                return self._resumed.log
            events = await self._after(self._resumed)
            if previous in [event.data for event in events]:
                return self._resumed.log
            positions.append(self._resumed.log)
        return max((position for position in positions if position is not None), default=None)

    def _follow(self, stream: str) -> None:
        super()._follow(stream)
        if self._followed:
            catch_up.here().follow(self._session.address, ACTIVE, self._active_changed)

    def _unfollow(self) -> None:
        super()._unfollow()
        catch_up.here().unfollow(self._session.address, ACTIVE, self._active_changed)

    def _active_changed(self, number: int | None) -> None:
        """End if a newer stream is active; reload the session if its streams are lost."""
        self._active.changed(number)
        if number is None and not self.is_closed:
            background.spawn(self._reload())

    @property
    def _may_send(self) -> bool:
        # Before a client is initialized it should be sent nothing (LIFE-10).
        return self._active.is_active and self._session.initialized and not self.is_closed

    @property
    def _id(self) -> str:
        return str(StreamPosition(self._name, self._last, self._active.position))

    async def _close(self) -> None:
        self._writer.close()
        await self._wait_for_reader()
        await self._active.close()
        await stores.events().close(self._session.address, self._name)

    async def _load(self) -> Session | None:
        await self._renew()
        return await self._active.renew()

    async def _renew(self) -> None:
        """Keep the stream in the event store, which forgets those that nobody appends to."""
        now = self._loop.time()
        interval = conf.get().session_idle_timeout / RENEWALS
        if now - self._renewed_at >= interval:
            self._renewed_at = now
            await stores.events().append(self._session.address, self._name, (), create=False)
            await self._active.keep()

    def _receive_event(self, message: bus.Message) -> None:
        match message["event"]:
            case "posted":
                self._coalescer.add(session_messages.OUTBOX)
            case "ended":
                self.end()
            case "taken_over" if message["by"] != self.principal.key:
                self.end()
            case "initialized":
                self._session = self._session.apply([Change("initialized", "set", value=True)])
                self._wake()
            case event if event == OPENED:
                self._active.receive(message)

    def _receive_broadcast(self, message: bus.Message) -> None:
        """Read the log, or send a message for every session that is in no log."""
        if message["number"] is not None or "is_log_unknown" in message:
            self._coalescer.add(publisher.LOG)
        elif self._may_send and session_messages.supports(self._session, message["method"]):
            self.enqueue(sse.event(message["text"]))

    def _read_soon(self, stream: Hashable) -> None:
        self._news.add(stream)
        self._wake()

    def _stored(self, _: int | None) -> None:
        self._read_soon(session_messages.OUTBOX)

    async def _read(self) -> None:
        if self._active.is_active and not self._session.initialized:
            await self._load_if_initialized()
        if not self._may_send or not await self._is_of_caller():
            return
        await self._keep_continued()
        if self._resumed is not None:
            await self._replay(self._resumed)
            self._resumed = None
        await self._send_news(publisher.LOG, self._send_log)
        await self._send_news(session_messages.OUTBOX, self._send_outbox)

    async def _send_news(self, stream: str, send: Callable[[], Awaitable[None]]) -> None:
        """Send the new entries of a stream of the store; after a failure, they stay new."""
        if stream not in self._news:
            return
        self._news.remove(stream)
        try:
            await send()
        except BaseException:
            self._news.add(stream)
            raise

    async def _load_if_initialized(self) -> None:
        """Look whether the client is initialized by now, because the hint may be lost."""
        session = await stores.sessions().load(self._session.id)
        if session is None or session.principal != self.principal.key:
            self.end()
        else:
            self._session = session

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
        """Send the messages for this session, and messages that a failed attempt has moved here.

        The store may have moved events, although it did not answer in time.
        """
        session = self._session.address
        store = stores.events()
        events: list[Event] = []
        if self._has_unsent:
            events = await store.after(session, self._name, self._last) or []
        if self._active.is_active:
            # Later, the messages are for the stream that is active then.
            self._has_unsent = True
            events += await store.move(session, session_messages.OUTBOX, self._name)
        messages = [event for event in events if not is_name(event.data)]
        for event in deduplicate(messages):
            is_permitted = await self._is_permitted(event.data)
            self._last = event.number
            if is_permitted:
                await self._send_with_id(event.data)
        self._has_unsent = False

    async def _send_with_id(self, text: str) -> None:
        await self._send_stored(text, self._id)
        self._continued = ""

    async def _keep_continued(self) -> None:
        """Note that this stream continues the resumed one, as long as its client may not know it.

        This keeps the resumed stream as well, which is closed, and would be forgotten.
        """
        if self._continued:
            session = self._session.address
            await stores.events().append(session, self._continued, [self._name], create=False)

    async def _replay(self, position: StreamPosition) -> None:
        stream = position.stream
        events = await self._after(position)
        await self._take_over([event.data for event in events if is_name(event.data)])
        for event in events:
            if not is_name(event.data) and await self._is_permitted(event.data):
                event_id = StreamPosition(stream, event.number, position.log)
                await self._send_stored(event.data, str(event_id))
        if BY_VERSION[self._session.version].has(Feature.PRIMING_EVENTS):
            self.enqueue(sse.priming(self._id))
            self._continued = ""

    async def _after(self, position: StreamPosition) -> list[Event]:
        session = self._session.address
        return await stores.events().after(session, position.stream, position.number) or []

    async def _take_over(self, names: Iterable[str]) -> None:
        """Move what streams have that continued the resumed one to this one, and send it later."""
        session = self._session.address
        store = stores.events()
        waiting = [name for name in dict.fromkeys(names) if name != self._name]
        numbers = await store.last_of_each([(session, name) for name in waiting]) if waiting else {}
        for name in waiting:
            if numbers.get((session, name)):
                self._has_unsent = True
                await store.move(session, name, self._name)

    async def _send_log(self) -> None:
        position = self._active.position
        if position is None:
            self._active.position = await publisher.position(self._server)
            if self._server.notify_lists_on_initialize:
                self._write_list_changes()
            await self._active.renew()
            return
        events = announcements.here().recent_after(self._server, position)
        if events is None:
            events = await self._stored_after(position)
        for event in deduplicate(events):
            if not self._active.is_active:
                return  # The newer stream begins here.
            self._active.position = event.number
            if session_messages.supports(self._session, method_of(event.data)):
                await self._send_with_id(event.data)
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
        if self._active.is_active and announcements.has_gap(position, events):
            self._active.position = events[0].number - 1 if events else newest
            self._write_list_changes()
        return events

    def _write_list_changes(self) -> None:
        """Announce a change of every list, which replaces what was announced before."""
        methods = session_messages.advertised(self._server)
        for method in methods:
            # Only the last one is a position to resume at: before it, all are sent again.
            event_id = self._id if method == methods[-1] else None
            self.enqueue(sse.event(jsonrpc.encode(jsonrpc.notification(method)), id=event_id))
        if methods:
            self._continued = ""

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


async def find(event_id: EventId | None, session: Session) -> StreamPosition | None:
    """The position where a client resumes; None if it names no stream of this session."""
    position = None if event_id is None else StreamPosition.parse(event_id)
    if position is None:
        return None
    events = await stores.events().after(session.address, position.stream, position.number)
    return None if events is None else position


def deduplicate(events: Iterable[Event]) -> list[Event]:
    """The events; of those which add nothing when repeated, only the last one."""
    last: dict[Any, Event] = {}
    for event in events:
        repeats = method_of(event.data) in publisher.METHODS | {UPDATED}
        key = event.data if repeats else event.number
        last.pop(key, None)  # So that it takes the place of the later one.
        last[key] = event
    return list(last.values())
