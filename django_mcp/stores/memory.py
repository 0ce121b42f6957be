"""Sessions and events in the memory of one process: for one worker, for stdio, for tests.

Expired entries are deleted without a command, since no command can reach the process.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from threading import Lock
from typing import Any

from django_mcp.core.frame.session import Change, Session, address
from django_mcp.stores.base import (
    Check,
    Event,
    EventStore,
    SessionStore,
    StoreFull,
    pack,
    unpack,
)


@dataclass(slots=True)
class _Entry:
    """A session as JSON, so that it is never changed in place, and its search keys."""

    text: str
    counted_as: str
    server: str
    subscriptions: frozenset[str]
    initialized: bool
    used_at: float


class MemorySessionStore(SessionStore):
    """Stores sessions for the lifetime of the process."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self._entries: dict[str, _Entry] = {}  # By address, the least recently used first.
        self._uninitialized: dict[str, None] = {}  # Some of them, in the same order.
        self._by_caller: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = Lock()  # Tests and synchronous callers have their own event loops.

    async def create(self, session: Session) -> None:
        text = pack(session)
        with self._lock:
            self._drop_expired()
            self._make_room(session.counted_as)
            self._by_caller[session.counted_as].add(session.address)
            self._entries[session.address] = _Entry(
                text,
                session.counted_as,
                session.server,
                session.subscriptions,
                session.initialized,
                self.now(),
            )
            if not session.initialized:
                self._uninitialized[session.address] = None

    async def load(self, session_id: str) -> Session | None:
        with self._lock:
            entry = self._use(address(session_id))
            return None if entry is None else unpack(entry.text, session_id=session_id)

    async def update(
        self, session_id: str, changes: Sequence[Change], *, check: Check | None = None
    ) -> Session | None:
        with self._lock:
            if (entry := self._use(address(session_id))) is None:
                return None
            session = unpack(entry.text, session_id=session_id)
            if check is not None:
                check(session)
            session = session.apply(changes)
            text = pack(session)
            self._count_as(entry, session)
            entry.text = text
            entry.subscriptions = session.subscriptions
            entry.initialized = session.initialized
            if session.initialized:
                self._uninitialized.pop(session.address, None)
            return unpack(text, session_id=session_id)

    def _count_as(self, entry: _Entry, session: Session) -> None:
        """Count a session as one of its present caller; raises StoreFull."""
        if session.counted_as != entry.counted_as:
            self._make_room(session.counted_as)
            self._forget_caller(entry.counted_as, session.address)
            self._by_caller[session.counted_as].add(session.address)
            entry.counted_as = session.counted_as

    async def touch(self, session_id: str) -> None:
        with self._lock:
            self._use(address(session_id))

    async def delete(self, session_id: str, *, check: Check | None = None) -> bool:
        with self._lock:
            self._drop_expired()
            entry = self._entries.get(address(session_id))
            if entry is not None and check is not None:
                check(unpack(entry.text, session_id=session_id))
            return self._drop(address(session_id))

    async def subscribers(self, server: str, uri: str) -> list[str]:
        with self._lock:
            self._drop_expired()
            return [
                name
                for name, entry in self._entries.items()
                if entry.server == server and uri in entry.subscriptions
            ]

    async def prune(self, *, pause: float = 0.0) -> int:
        with self._lock:
            return self._drop_expired()

    def _use(self, name: str) -> _Entry | None:
        """Look up a session, and move it to the end of the order of expiry."""
        entry = self._entries.get(name)
        if entry is None or not self.is_live(entry.used_at, initialized=entry.initialized):
            return None
        entry.used_at = self.now()
        self._entries[name] = self._entries.pop(name)
        if not entry.initialized:
            self._uninitialized[name] = self._uninitialized.pop(name)
        return entry

    def _drop_expired(self) -> int:
        opened = self._drop_before(self.oldest_use(initialized=False), self._uninitialized)
        initialized = self._drop_before(self.oldest_use(initialized=True), self._entries)
        return opened + initialized

    def _drop_before(self, oldest: float, names: Iterable[str]) -> int:
        expired = list(takewhile(lambda name: self._entries[name].used_at <= oldest, names))
        return sum(map(self._drop, expired))

    def _drop(self, name: str) -> bool:
        if (entry := self._entries.pop(name, None)) is None:
            return False
        self._uninitialized.pop(name, None)
        self._forget_caller(entry.counted_as, name)
        return True

    def _make_room(self, caller: str) -> None:
        """Delete the session that has been idle for the longest time if the caller has too many."""
        names = self._by_caller.get(caller, ())
        if len(names) >= self.limit_per_principal:
            entries = [(name, self._entries[name]) for name in names]
            present = [(name, entry.used_at, entry.initialized) for name, entry in entries]
            self._drop(self.longest_idle(present))

    def _forget_caller(self, caller: str, name: str) -> None:
        names = self._by_caller[caller]
        names.discard(name)
        if not names:
            del self._by_caller[caller]


@dataclass(slots=True)
class _Stream:
    """The newest events, each with the time when it was appended, and the last number."""

    events: deque[tuple[float, Event]]
    touched_at: float
    last: int = 0
    closed: bool = False


class MemoryEventStore(EventStore):
    """Stores events for the lifetime of the process."""

    is_shared = False

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        # By session and name, the least recently changed first.
        self._by_session: dict[str, dict[str, _Stream]] = {}
        self._claimed_at: dict[str, float] = {}
        self._pruned_at = self.now()
        self._lock = Lock()

    async def append(
        self, session: str, stream: str, data: Iterable[str], *, create: bool = True, first: int = 1
    ) -> int:
        with self._lock:
            if not create and self._find(session, stream) is None:
                return 0
            return self._append(session, stream, data, first)

    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        with self._lock:
            kept = self._find(session, stream)
            if kept is None:
                return None
            oldest = self.now() - self.lifetime
            return [event for at, event in kept.events if event.number > number and at > oldest]

    async def last(self, session: str, stream: str) -> int | None:
        with self._lock:
            kept = self._find(session, stream)
            return None if kept is None else kept.last

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

    async def close_abandoned(self, session: str, stream: str, after: float, data: str) -> bool:
        with self._lock:
            kept = self._find(session, stream)
            if kept is None or kept.closed or kept.touched_at > self.now() - after:
                return False
            self._append(session, stream, [data])
            kept.closed = True
            return True

    async def is_closed(self, session: str, stream: str) -> bool:
        with self._lock:
            kept = self._find(session, stream)
            return kept is None or kept.closed

    async def forget(self, session: str) -> None:
        with self._lock:
            self._by_session.pop(session, None)

    async def prune(self, *, pause: float = 0.0) -> int:
        with self._lock:
            return self._prune()

    async def claim(self, name: str, seconds: float) -> bool:
        with self._lock:
            if self._claimed_at.get(name, float("-inf")) > self.now() - seconds:
                return False
            self._claimed_at[name] = self.now()
            return True

    def _append(self, session: str, stream: str, data: Iterable[str], first: int = 1) -> int:
        kept = self._find(session, stream) or self._open(session, stream, first)
        self._touch(session, stream)
        for text in data:
            kept.last += 1
            kept.events.append((kept.touched_at, Event(kept.last, text)))
        return kept.last

    def _find(self, session: str, stream: str) -> _Stream | None:
        kept = self._by_session.get(session, {}).get(stream)
        return kept if kept is not None and self._is_live(kept) else None

    def _is_live(self, kept: _Stream) -> bool:
        return self.is_live_stream(kept.touched_at, closed=kept.closed)

    def _touch(self, session: str, stream: str) -> None:
        """Write the time, and move the stream to the end of the order of replacement."""
        streams = self._by_session[session]
        kept = streams.pop(stream)
        kept.touched_at = self.now()
        streams[stream] = kept

    def _open(self, session: str, stream: str, first: int) -> _Stream:
        if self.now() - self._pruned_at >= self.lifetime:
            self._prune()
        streams = self._by_session.setdefault(session, {})
        streams.pop(stream, None)
        if len(streams) >= self.streams:
            self._make_room(streams)
        opened = _Stream(deque(maxlen=self.limit), self.now(), first - 1)
        streams[stream] = opened
        return opened

    def _make_room(self, streams: dict[str, _Stream]) -> None:
        """Delete expired streams or, if there are none, the one that was closed first."""
        self._drop_expired(streams)
        if len(streams) < self.streams:
            return
        closed = next((name for name, kept in streams.items() if kept.closed), None)
        if closed is None:
            raise StoreFull(f"This session has {self.streams} open streams already")
        del streams[closed]

    def _drop_expired(self, streams: dict[str, _Stream]) -> None:
        expired = [name for name, kept in streams.items() if not self._is_live(kept)]
        for name in expired:
            del streams[name]

    def _prune(self) -> int:
        self._pruned_at = self.now()
        dropped = 0
        for session, streams in list(self._by_session.items()):
            dropped += sum(map(self._drop_old_events, streams.values()))
            self._drop_expired(streams)
            if not streams:
                del self._by_session[session]
        return dropped

    def _drop_old_events(self, kept: _Stream) -> int:
        """Delete the expired events of a stream; return their number."""
        oldest = self.now() - self.lifetime
        dropped = 0
        while kept.events and kept.events[0][0] <= oldest:
            kept.events.popleft()
            dropped += 1
        return dropped
