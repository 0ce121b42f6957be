"""Sessions and events in the memory of one process: for one worker, for stdio, for tests.

It forgets by itself what is too old, since no command can reach it from another process.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from threading import Lock

from django_mcp.frame.session import Change, Session, address
from django_mcp.stores.base import Clock, Event, EventStore, SessionStore, StoreFull, pack, unpack


@dataclass(slots=True)
class _Kept:
    """A session as text, so that nobody changes it in place, and when it was used."""

    session: Session
    text: str
    used_at: float


class MemorySessionStore(SessionStore):
    """Keeps sessions as long as the process lives."""

    def __init__(
        self, *, idle_timeout: float, limit_per_principal: int, now: Clock = time.time
    ) -> None:
        super().__init__(
            idle_timeout=idle_timeout, limit_per_principal=limit_per_principal, now=now
        )
        self._kept: dict[str, _Kept] = {}  # By address, the longest unused first.
        self._held: Counter[str] = Counter()  # By principal.
        self._lock = Lock()  # Tests, and synchronous callers, bring event loops of their own.

    async def create(self, session: Session) -> None:
        text = pack(session)
        with self._lock:
            self._drop_expired()
            if self._held[session.principal] >= self.limit_per_principal:
                raise StoreFull(f"This caller has {self.limit_per_principal} sessions already")
            self._held[session.principal] += 1
            self._kept[session.address] = _Kept(session, text, self.now())

    async def load(self, session_id: str) -> Session | None:
        with self._lock:
            kept = self._use(address(session_id))
            return None if kept is None else unpack(kept.text, session_id=session_id)

    async def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        with self._lock:
            kept = self._use(address(session_id))
            if kept is None:
                return None
            session = unpack(kept.text, session_id=session_id).apply(changes)
            kept.text = pack(session)
            kept.session = session
            return unpack(kept.text, session_id=session_id)

    async def touch(self, session_id: str) -> None:
        with self._lock:
            self._use(address(session_id))

    async def delete(self, session_id: str) -> bool:
        with self._lock:
            self._drop_expired()
            return self._drop(address(session_id))

    async def subscribers(self, server: str, uri: str) -> list[str]:
        with self._lock:
            self._drop_expired()
            return [
                name
                for name, kept in self._kept.items()
                if kept.session.server == server and uri in kept.session.subscriptions
            ]

    async def prune(self) -> int:
        with self._lock:
            return self._drop_expired()

    def _use(self, name: str) -> _Kept | None:
        """The session of this address, moved to the end of those that may expire."""
        kept = self._kept.get(name)
        if kept is None or not self.is_live(kept.used_at):
            return None
        kept.used_at = self.now()
        self._kept[name] = self._kept.pop(name)
        return kept

    def _drop_expired(self) -> int:
        oldest = self.oldest_use
        expired = list(takewhile(lambda name: self._kept[name].used_at <= oldest, self._kept))
        return sum(map(self._drop, expired))

    def _drop(self, name: str) -> bool:
        kept = self._kept.pop(name, None)
        if kept is None:
            return False
        self._held[kept.session.principal] -= 1
        if not self._held[kept.session.principal]:
            del self._held[kept.session.principal]
        return True


@dataclass(slots=True)
class _Stream:
    """The newest events, each with the time when it was appended, and the last number."""

    events: deque[tuple[float, Event]]
    touched_at: float
    last: int = 0
    closed: bool = False


class MemoryEventStore(EventStore):
    """Keeps events as long as the process lives."""

    def __init__(
        self, *, limit: int, lifetime: float, streams: int, now: Clock = time.time
    ) -> None:
        super().__init__(limit=limit, lifetime=lifetime, streams=streams, now=now)
        self._kept: dict[str, dict[str, _Stream]] = {}  # By session; the longest quiet first.
        self._swept_at = now()
        self._lock = Lock()

    async def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        with self._lock:
            return self._append(session, stream, data)

    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        with self._lock:
            kept = self._find(session, stream)
            if kept is None:
                return None
            oldest = self.now() - self.lifetime
            return [event for at, event in kept.events if event.number > number and at > oldest]

    async def move(self, session: str, source: str, target: str) -> list[Event]:
        with self._lock:
            kept = self._find(session, source)
            if kept is None:
                return []
            self._drop_old_events(kept)
            data = [event.data for _, event in kept.events]
            if not data:
                return []
            last = self._append(session, target, data)
            kept.events.clear()
            return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    async def close(self, session: str, stream: str) -> None:
        with self._lock:
            kept = self._find(session, stream)
            if kept is not None:
                kept.closed = True
                self._touch(session, stream)

    async def is_closed(self, session: str, stream: str) -> bool:
        with self._lock:
            kept = self._find(session, stream)
            return kept is None or kept.closed

    async def forget(self, session: str) -> None:
        with self._lock:
            self._kept.pop(session, None)

    async def prune(self) -> int:
        with self._lock:
            return self._sweep()

    def _append(self, session: str, stream: str, data: Iterable[str]) -> int:
        kept = self._find(session, stream) or self._open(session, stream)
        self._touch(session, stream)
        for text in data:
            kept.last += 1
            kept.events.append((kept.touched_at, Event(kept.last, text)))
        return kept.last

    def _find(self, session: str, stream: str) -> _Stream | None:
        kept = self._kept.get(session, {}).get(stream)
        return kept if kept is not None and self._is_known(kept) else None

    def _is_known(self, kept: _Stream) -> bool:
        return self.keeps_stream(kept.touched_at, closed=kept.closed)

    def _touch(self, session: str, stream: str) -> None:
        """Note the time, and move the stream to the end of those that may have to go."""
        streams = self._kept[session]
        kept = streams[stream] = streams.pop(stream)
        kept.touched_at = self.now()

    def _open(self, session: str, stream: str) -> _Stream:
        if self.now() - self._swept_at >= self.lifetime:
            self._sweep()
        streams = self._kept.setdefault(session, {})
        streams.pop(stream, None)
        self._make_room(streams)
        kept = streams[stream] = _Stream(deque(maxlen=self.limit), self.now())
        return kept

    def _make_room(self, streams: dict[str, _Stream]) -> None:
        if len(streams) < self.streams:
            return
        for name in [name for name, kept in streams.items() if not self._is_known(kept)]:
            del streams[name]
        if len(streams) >= self.streams:
            closed = next((name for name, kept in streams.items() if kept.closed), None)
            if closed is None:
                raise StoreFull(f"This session has {self.streams} open streams already")
            del streams[closed]

    def _sweep(self) -> int:
        """Drop what is too old, in every session; how many events that was."""
        self._swept_at = self.now()
        dropped = 0
        for session, streams in list(self._kept.items()):
            for name, kept in list(streams.items()):
                dropped += self._drop_old_events(kept)
                if not self._is_known(kept):
                    del streams[name]
            if not streams:
                del self._kept[session]
        return dropped

    def _drop_old_events(self, kept: _Stream) -> int:
        oldest, before = self.now() - self.lifetime, len(kept.events)
        while kept.events and kept.events[0][0] <= oldest:
            kept.events.popleft()
        return before - len(kept.events)
