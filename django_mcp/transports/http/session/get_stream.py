"""GET in a session: its standalone stream, and the rest of a stream that was interrupted.

What belongs to a session alone waits in its outbox; the stream which has the word moves it to
a log of its own, so that each message has one stream and one number there. What every session
of a server is told stays in the server's log: how far a session has read it is a part of its
event ids, so that the client itself brings back where it was.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django_mcp import stores
from django_mcp.auth.base import Principal
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.revisions import BY_VERSION, Feature
from django_mcp.protocol.sse import EventId
from django_mcp.protocol.subscriptions import UPDATED
from django_mcp.pubsub import bus, publisher
from django_mcp.server.server import Server
from django_mcp.stores.base import Event, StoreFull
from django_mcp.transports.http.request import HttpError
from django_mcp.transports.http.session import event_log
from django_mcp.transports.http.session.active_stream import ActiveStream, LogPosition
from django_mcp.transports.http.session.response import RETRY
from django_mcp.transports.http.sse_stream import SseStream
from django_mcp.transports.keepalive import Keepalive

logger = logging.getLogger("django_mcp")

MayRead = Callable[[Principal, Session, str], Awaitable[bool]]
"""Whether a resource may be read by the principal of a session."""

PREFIX = "g"
"""How the names of standalone streams begin, which are born from a GET."""
CLAIM_AGAIN = 0.3
"""Seconds after which a stream that was resumed says so a second time."""
NOTHING = "n"
"""What stands in an event id for a client that was told nothing yet."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a client is on a standalone stream: the events of the stream's own, and the log."""

    stream: str
    number: int
    heard: LogPosition

    def __str__(self) -> str:
        heard = NOTHING if self.heard is None else str(self.heard)
        return str(EventId(f"{self.stream}~{heard}", self.number))

    @classmethod
    def parse(cls, identity: EventId) -> StreamPosition | None:
        """The place which an event id of a standalone stream names, or None."""
        stream, tilde, heard = identity.stream.partition("~")
        if not tilde or not stream.startswith(PREFIX):
            return None
        if heard == NOTHING:
            return cls(stream, identity.sequence, None)
        return cls(stream, identity.sequence, int(heard)) if heard.isdecimal() else None


class SessionStream(SseStream, ABC):
    """A GET of a session. It reads whenever it is woken, one reader at a time."""

    __slots__ = ("_dirty", "_reader", "_session", "_store")

    def __init__(self, *, session: Session, **facts: Any) -> None:
        super().__init__(**facts)
        self._session = session
        self._reader: asyncio.Task[None] | None = None
        self._dirty = False

    @property
    def _is_primed(self) -> bool:
        return BY_VERSION[self._session.version].has(Feature.PRIMING_EVENTS)

    async def check(self) -> None:
        """End the stream of a session that has ended; an open stream is use of it."""
        await super().check()
        await self._look_again()

    async def _look_again(self) -> None:
        """Take the session as it is now: it may have begun or ended while nobody listened here.

        Clients do open their stream at the moment at which they say that they are ready.
        """
        session = await stores.sessions().load(self._session.id)
        if session is None:
            self.end()
        else:
            self._session = session
            self._wake()

    def _wake(self) -> None:
        """Read what there is, now or once more after what is being read."""
        self._dirty = True
        if self._reader is None and not self.gone:
            self._reader = asyncio.ensure_future(self._read_all())

    async def _read_all(self) -> None:
        try:
            while self._dirty and not self.gone:
                self._dirty = False
                await self._read()
                await self.flush()
        except Exception:
            # What is kept is found again by the next stream, or by this one when it is checked.
            logger.exception("A stream cannot read what it should send")
        finally:
            self._reader = None

    @abstractmethod
    async def serve(self) -> None:
        """Keep the stream open, and send on it what is its own."""

    @abstractmethod
    async def _read(self) -> None:
        """Send what there is to be sent."""

    async def _silent(self) -> None:
        """Wait until nothing is being read."""
        while self._reader is not None:
            await asyncio.wait([self._reader])


class StandaloneStream(SessionStream):
    """A stream for what belongs to no request; it sends while it has the word."""

    __slots__ = (
        "_catch_up",
        "_heard",
        "_keepalive",
        "_kept_heard",
        "_last",
        "_may_read",
        "_name",
        "_resumed",
        "_server",
        "_standing",
    )

    def __init__(
        self,
        *,
        server: Server,
        may_read: MayRead,
        end_session: Callable[[], Awaitable[None]],
        resumed: StreamPosition | None,
        **facts: Any,
    ) -> None:
        super().__init__(**facts)
        self._keepalive = Keepalive(server, send=self._send_keepalive, give_up=end_session)
        self._server = server
        self._may_read = may_read
        self._resumed = resumed
        self._name = PREFIX + secrets.token_urlsafe(12)
        self._heard = self._session.heard if resumed is None else resumed.heard
        self._kept_heard = self._session.heard
        self._last = 0
        self._catch_up = True
        self._standing = ActiveStream(
            self._session.address, self._name, speak=self._speak, fall_silent=self._fall_silent
        )

    async def serve(self) -> None:
        """Keep the stream open, and send on it what is its own."""
        session, ears = self._session.address, bus.here()
        groups = (publisher.of_session(session), publisher.of_server(self._server))
        await self._make_known()
        try:
            self._greet()
            for group, receiver in zip(groups, (self._hear, self._hear_log), strict=True):
                await ears.join(group, receiver)
            await self._look_again()
            await self._standing.open()
            self._keepalive.start()
            await self.hold()
            await self._silent()
            await self.finish(self._farewell())
        finally:
            self._keepalive.stop()
            for group, receiver in zip(groups, (self._hear, self._hear_log), strict=True):
                ears.leave(group, receiver)
            # The server may cancel this task, which would leave the session's word with us.
            bus.spawn(self._close())

    def beat(self, now: float, *, sign: bool) -> None:
        """One look; a stream without the word also looks whether it is still somebody's."""
        due = self._checked_at
        super().beat(now, sign=sign)
        if self._checked_at != due:
            self._catch_up = True
            self._standing.probe()

    # Statefulness and closing.

    async def _make_known(self) -> None:
        try:
            await stores.events().append(self._session.address, self._name, ())
        except StoreFull as error:
            raise HttpError(429, f"{error}: close one of them first") from error

    def _greet(self) -> None:
        """Begin the response: with an id to come back to, where the revision has that."""
        if self._is_primed:
            self.write(sse.priming(self._id, retry=RETRY))
        else:
            self.write(sse.KEEP_ALIVE)

    def _farewell(self) -> bytes:
        """When we end the stream of a client that may come back: when to do so (T-HTTP-46)."""
        return sse.retry(RETRY) if self._is_primed else b""

    async def _close(self) -> None:
        self.gone = True
        await self._silent()
        await self._standing.close(self._heard)
        await stores.events().close(self._session.address, self._name)
        await self._keep_heard()

    async def _keep_heard(self) -> None:
        """Let the session know how far it was told, for a stream that begins anew."""
        if self._heard is not None and self._heard != self._kept_heard:
            self._kept_heard = self._heard
            change = Change("heard", "set", value=self._heard)
            await stores.sessions().update(self._session.id, [change])

    # The word.

    def _speak(self, heard: LogPosition) -> None:
        """Begin to send: from where the stream was which had the word, if that is known."""
        if heard is not None:
            self._heard = heard if self._heard is None else max(heard, self._heard)
        self._catch_up = True
        self._wake()

    async def _fall_silent(self) -> LogPosition:
        await self._silent()
        return self._heard

    # Hearing.

    def _hear(self, message: bus.Message) -> None:
        step = HEARD.get(message["event"])
        if step is not None:
            step(self, message)

    def _hear_posted(self, _: bus.Message) -> None:
        self._wake()

    def _hear_standing(self, message: bus.Message) -> None:
        self._standing.hear(message)

    def _hear_ended(self, _: bus.Message) -> None:
        self.end()

    def _hear_initialized(self, _: bus.Message) -> None:
        self._session = self._session.apply([Change("initialized", "set", value=True)])
        self._wake()

    def _hear_log(self, message: bus.Message) -> None:
        """Send what every session is told; where something before it is missing, read it up."""
        number = message["number"]
        if not self._may_speak or not publisher.supports(self._session, message["method"]):
            return
        if number is None:
            self._say(message["text"], identity=None)
        elif self._reader is not None or self._heard is None or number != self._heard + 1:
            self._catch_up = True
            self._wake()
        else:
            self._heard = number
            self._say(message["text"], identity=self._id)

    @property
    def _may_speak(self) -> bool:
        # Before a client is ready it should be sent nothing (LIFE-10).
        return self._standing.has_word and self._session.initialized and not self.gone

    # Sending.

    async def _read(self) -> None:
        if not self._may_speak:
            return
        if self._resumed is not None:
            await self._replay(self._resumed)
            self._resumed = None
        if self._catch_up:
            self._catch_up = False
            await self._read_log()
        await self._take_from_outbox()

    async def _replay(self, place: StreamPosition) -> None:
        """Send what the interrupted stream said since, under the ids which it had there."""
        events = await stores.events().after(self._session.address, place.stream, place.number)
        for event in events or ():
            identity = StreamPosition(place.stream, event.number, place.heard)
            self.write(sse.event(event.data, id=str(identity)))

    async def _read_log(self) -> None:
        store = stores.events()
        events = await store.after(publisher.log_of(self._server), publisher.LOG, 0) or []
        if self._heard is None:
            await self._begin(events[-1].number if events else 0)
            return
        for event in deduplicate(_since(events, self._heard)):
            self._heard = event.number
            if publisher.supports(self._session, method_of(event.data)):
                self._say(event.data, identity=self._id)
        self._heard = events[-1].number if events else self._heard

    async def _begin(self, heard: int) -> None:
        """Tell a new session what it is told first, which stands for all that was said before."""
        methods = (
            publisher.advertised(self._server) if self._server.notify_lists_on_initialize else []
        )
        self._heard = heard
        for method in methods:
            # Only the last one is a place to come back to: before it, all are told again.
            identity = self._id if method == methods[-1] else None
            self._say(jsonrpc.encode(jsonrpc.notification(method)).decode(), identity=identity)
        await self._keep_heard()

    async def _take_from_outbox(self) -> None:
        events = await stores.events().move(self._session.address, publisher.OUTBOX, self._name)
        for event in deduplicate(events):
            self._last = event.number
            if await self._may_hear(event.data):
                self._say(event.data, identity=self._id)

    async def _may_hear(self, text: str) -> bool:
        """Whether the client may know what a message is about, now that it is sent (RES-18)."""
        if method_of(text) != UPDATED:
            return True
        uri: str = jsonrpc.decode(text)["params"]["uri"]
        return await self._may_read(self.principal, self._session, uri)

    def _say(self, text: str, *, identity: str | None) -> None:
        self.write(sse.event(text, id=identity))

    def _send_keepalive(self, message: bytes) -> bool:
        """Send it if it is for this stream to speak; whether the client takes what it is sent."""
        if self.is_stuck:
            return False
        if self._may_speak:
            self.write(sse.event(message))
        return True

    @property
    def _id(self) -> str:
        return str(StreamPosition(self._name, self._last, self._heard))


HEARD: Mapping[str, Callable[[StandaloneStream, bus.Message], None]] = {
    "posted": StandaloneStream._hear_posted,
    "standing": StandaloneStream._hear_standing,
    "ended": StandaloneStream._hear_ended,
    "initialized": StandaloneStream._hear_initialized,
}


class ResumedStream(SessionStream):
    """The rest of a POST's stream, up to the response, for a client that lost the beginning."""

    __slots__ = ("_name", "_number", "_token")

    def __init__(self, *, name: str, number: int, **facts: Any) -> None:
        super().__init__(**facts)
        self._name = name
        self._number = number
        self._token = secrets.token_urlsafe(9)

    async def serve(self) -> None:
        """Send what was missed, and go on until the response is sent."""
        group, ears = publisher.of_session(self._session.address), bus.here()
        try:
            self.write(sse.KEEP_ALIVE)
            await ears.join(group, self._hear)
            self._claim()
            # Once more, since a call listens only when it has been running for a moment.
            asyncio.get_running_loop().call_later(CLAIM_AGAIN, self._claim)
            await self._look_again()
            await self.hold()
            await self._silent()
            await self.finish()
        finally:
            ears.leave(group, self._hear)

    def _claim(self) -> None:
        """Let whoever else has the stream leave it to this one, and read what there is."""
        if not self.gone:
            told = {"event": "resumed", "stream": self._name, "by": self._token}
            bus.publish_soon(publisher.of_session(self._session.address), told)
            self._wake()

    def _hear(self, message: bus.Message) -> None:
        if message["event"] == "appended" and message["stream"] == self._name:
            self._wake()
        elif message["event"] == "resumed" and message["stream"] == self._name:
            if message["by"] != self._token:
                self.end()
        elif message["event"] == "ended":
            self.end()

    async def _read(self) -> None:
        session, store = self._session.address, stores.events()
        # In this order: what is appended before the end is read after it was seen.
        is_closed = await store.is_closed(session, self._name)
        for event in await store.after(session, self._name, self._number) or ():
            self._number = event.number
            self.write(sse.event(event.data, id=str(EventId(self._name, event.number))))
        if is_closed:
            self.end()


async def open_stream(last_event_id: str | None, **facts: Any) -> SessionStream:
    """The stream which a GET opens: a new one, unless the client names a place that we know.

    A place of another session, or one that was never given, is as good as none.
    """
    session: Session = facts["session"]
    named = EventId.parse(last_event_id) if last_event_id else None
    if named is not None and named.stream.startswith(event_log.PREFIX):
        if await stores.events().after(session.address, named.stream, named.sequence) is not None:
            wanted = {name: facts[name] for name in COMMON}
            return ResumedStream(name=named.stream, number=named.sequence, **wanted)
        return StandaloneStream(resumed=None, **facts)
    place = StreamPosition.parse(named) if named is not None else None
    if (
        place is not None
        and await stores.events().after(session.address, place.stream, place.number) is None
    ):
        place = None
    return StandaloneStream(resumed=place, **facts)


COMMON = ("session", "send", "receive", "principal", "reauthenticate")


def deduplicate(events: Iterable[Event]) -> list[Event]:
    """The events, those which say nothing more the second time only where they come last."""
    found: dict[Any, Event] = {}
    for event in events:
        repeats = method_of(event.data) in publisher.METHODS | {UPDATED}
        key = event.data if repeats else event.number
        found.pop(key, None)
        found[key] = event
    return list(found.values())


def _since(events: list[Event], heard: int) -> list[Event]:
    """The events after ``heard``, or all of them when the log has begun anew since."""
    begun_anew = bool(events) and events[-1].number < heard
    return [event for event in events if begun_anew or event.number > heard]


def method_of(text: str) -> str:
    """The method of a message that we encoded, or "" for a response."""
    method = jsonrpc.decode(text).get("method", "")
    return str(method)
