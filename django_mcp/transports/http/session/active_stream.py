"""Which GET stream of a session sends: the newest, on any worker.

Every message is sent on exactly one stream (T-HTTP-51, -52). Each stream that opens appends its
name to the stream ``active`` of the session in the event store. The number which it gets decides:
the last one belongs to the active stream, and the other ends. A hint says so at once, and
``catch_up`` within five seconds.

| state | meaning | who moves it |
|---|---|---|
| new | it has no number or position yet, and may not send | ``take`` and ``start``: active |
| active | its number is the last one | a newer stream, or ``close``: ended |
| ended | it sends messages that it took from the outbox already, and closes | nobody |

A newer stream goes on at the position in the server's log that its client names, else at that of
the older one: exactly where both are on one event loop. On another worker it is that of the last
renewal, up to a minute old, kept in the session; later notifications are sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from django_mcp import stores
from django_mcp.core.concurrency.loops import PerLoop
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.pubsub import bus, session_messages

ACTIVE = "active"
"""The stream of a session; its last number belongs to its active stream."""
OPENED = "stream_opened"
"""The hint that a stream has become active."""

LogPosition = int | None


class _State(Enum):
    NEW = auto()
    ACTIVE = auto()
    ENDED = auto()


class ActiveStream:
    """The part of one GET stream in this; ``end`` is called once when a newer one is active."""

    def __init__(self, session_id: str, name: str, *, end: Callable[[], None]) -> None:
        self.position: LogPosition = None
        """The last number of the server's log which this stream has sent."""
        self.previous = ""
        """The stream which was active before, if it is on this event loop."""
        self._session_id = session_id
        self._session = address(session_id)
        self._name = name
        self._end = end
        self._number = 0
        self._state = _State.NEW

    @property
    def is_active(self) -> bool:
        return self._state is _State.ACTIVE

    async def reserve(self) -> None:
        """Create the stream of the numbers, before ``take``; raises StoreFull."""
        await stores.events().append(self._session, ACTIVE, ())

    async def take(self) -> Session | None:
        """Get a number, and end the older stream; return the session as it is now."""
        # Keys that were deleted with the session must not come back.
        events = stores.events()
        self._number = await events.append(self._session, ACTIVE, [self._name], create=False)
        other = _active.here().get(self._session)
        if other is not None and other._number > self._number:
            self._replaced()  # That one was opened at the same time.
        else:
            _active.here()[self._session] = self
            if other is not None:
                self.previous = other._name
                self.position = other.position
                other._replaced()
        event = {"event": OPENED, "number": self._number}
        bus.publish_soon(session_messages.of_session(self._session), event)
        return await self.renew()

    def start(self, position: LogPosition) -> None:
        """Send from this position of the server's log on, unless a newer stream does."""
        self.position = position
        if self._state is _State.NEW:
            self._state = _State.ACTIVE

    def receive(self, hint: bus.Message) -> None:
        self.changed(hint["number"])

    def changed(self, number: int | None) -> None:
        """Note the last number in the store, which is None if that has lost the session."""
        if self._number and number is not None and number > self._number:
            self._replaced()

    async def renew(self) -> Session | None:
        """Keep the session from expiring, and the position in it; return the session."""
        changes = []
        if self.position is not None:
            changes.append(Change("log_position", "advance", value=self.position))
        return await stores.sessions().update(self._session_id, changes)

    async def keep(self) -> None:
        """Keep the number in the event store, which forgets streams that nobody appends to."""
        await stores.events().append(self._session, ACTIVE, (), create=False)

    async def close(self) -> None:
        """Leave the position to the next stream."""
        is_last = _active.here().get(self._session) is self
        if is_last:
            del _active.here()[self._session]
        self._state = _State.ENDED
        await self.renew()

    def _replaced(self) -> None:
        if self._state is not _State.ENDED:
            self._state = _State.ENDED
            self._end()


_active: PerLoop[dict[str, ActiveStream]] = PerLoop(dict)
