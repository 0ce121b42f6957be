"""Sessions and events in any of Django's caches: Redis, Memcached and the like.

A cache deletes expired entries by itself. These stores have the following guarantees and limits:

* No update is lost and no event number is used twice, if ``add`` of the cache is atomic (it is
  in Redis, Memcached, the database and local memory; not in files) and no worker is suspended
  for longer than LOCK_LIFETIME between reading and writing.
* A full or restarted cache loses sessions early. Their clients have to initialize again.
* The local memory cache is shared only by the threads of one process.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, NamedTuple, cast

from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from django_mcp.frame.session import Change, Session, address
from django_mcp.stores.base import (
    WRITE_TIMEOUT,
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    StoreFull,
    digest,
    on_thread,
    pack,
    unpack,
)

LOCK_LIFETIME = 30
"""Seconds after which a lock expires: its holder has died."""


# The keys of entries.
_session = "django_mcp:session:{}".format
_used = "django_mcp:used:{}".format
_streams = "django_mcp:streams:{}".format
_head = "django_mcp:stream:{}".format
_event = "django_mcp:event:{}:{}".format


class _InCache:
    """A store in the cache ``alias``, with locks for entries that are read and then written."""

    def __init__(self, *, alias: str = "default", **limits: Any) -> None:
        super().__init__(**limits)
        self._alias = alias
        self._local = threading.local()  # Threads cannot share a connection to a cache.

    @property
    def _cache(self) -> BaseCache:
        if not hasattr(self._local, "connection"):
            self._local.connection = caches.create_connection(self._alias)
        return cast("BaseCache", self._local.connection)

    @contextmanager
    def _locked(self, key: str) -> Iterator[BaseCache]:
        """Hold the lock of ``key`` among all workers; raises StoreBusy after a timeout."""
        cache, lock, token = self._cache, f"{key}:lock", secrets.token_hex(8)
        deadline = time.monotonic() + WRITE_TIMEOUT
        while not cache.add(lock, token, timeout=LOCK_LIFETIME):
            if time.monotonic() > deadline:
                raise StoreBusy("Too many concurrent writes to the session")
            time.sleep(random.uniform(0.001, 0.01))
        try:
            yield cache
        finally:
            if cache.get(lock) == token:
                cache.delete(lock)

    async def prune(self) -> int:
        """Do nothing: the cache deletes expired entries by itself, and returns no number."""
        return 0


class CacheSessionStore(_InCache, SessionStore):
    """Stores sessions in the cache ``alias``.

    A session has two entries, its data and the time of its last use, so that a touch never
    overwrites an update. The second one also tells whether it is initialized. Other entries list
    the sessions of a caller and the subscribers of a resource; they may contain expired sessions.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._timeout = self._lifetime(initialized=True)

    def _lifetime(self, *, initialized: bool) -> int:
        """Seconds until entries expire: later than the session, whose use may be written late."""
        return ceil(self.timeout(initialized=initialized) * 1.05)

    @on_thread
    def create(self, session: Session) -> None:
        text, key = pack(session), _of_caller(session)
        with self._locked(key) as cache:
            names = cache.get(key, [])
            if len(names) >= self.limit_per_principal:
                names = self._make_room(names)
            lifetime = self._lifetime(initialized=session.initialized)
            cache.set(_session(session.address), text, lifetime)
            cache.set(key, [*names, session.address], self._timeout)
            self._renew(session)
        for uri in session.subscriptions:
            self._list(_of_resource(session.server, uri), session.address, True)

    def _make_room(self, names: Sequence[str]) -> list[str]:
        """The live ones of these sessions, without the one that was deleted for a new one."""
        used = self._live(names)
        if len(used) >= self.limit_per_principal:
            oldest = self.longest_idle((name, *entry) for name, entry in used.items())
            with self._locked(_session(oldest)) as cache:
                cache.delete_many([_session(oldest), _used(oldest)])
            del used[oldest]
        return list(used)

    @on_thread
    def load(self, session_id: str) -> Session | None:
        return self._load(session_id)

    @on_thread
    def touch(self, session_id: str) -> None:
        self._load(session_id)

    def _load(self, session_id: str) -> Session | None:
        name = address(session_id)
        found = self._cache.get_many([_session(name), _used(name)])
        text, (used_at, initialized) = found.get(_session(name)), found.get(_used(name), _NEVER)
        if text is None or not self.is_live(used_at, initialized=initialized):
            return None
        session = unpack(text, session_id=session_id)
        if self.is_touch_due(used_at, initialized=initialized):
            self._renew(session)
        return session

    @on_thread
    def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        key = _session(address(session_id))
        with self._locked(key) as cache:
            if (before := self._load(session_id)) is None:
                return None
            after = before.apply(changes)
            text = pack(after)
            cache.set(key, text, self._lifetime(initialized=after.initialized))
            self._renew(after)
            for uri in before.subscriptions ^ after.subscriptions:
                is_member = uri in after.subscriptions
                self._list(_of_resource(after.server, uri), after.address, is_member)
        return unpack(text, session_id=session_id)

    @on_thread
    def delete(self, session_id: str) -> bool:
        name = address(session_id)
        with self._locked(_session(name)) as cache:
            session = self._load(session_id)
            cache.delete_many([_session(name), _used(name)])
        if session is None:
            return False
        self._list(_of_caller(session), name, False)
        for uri in session.subscriptions:
            self._list(_of_resource(session.server, uri), name, False)
        return True

    @on_thread
    def subscribers(self, server: str, uri: str) -> list[str]:
        return list(self._live(self._cache.get(_of_resource(server, uri), [])))

    def _live(self, names: Sequence[str]) -> dict[str, tuple[float, bool]]:
        """When the live ones of the sessions were last used, and whether they are initialized."""
        found = self._cache.get_many(map(_used, names))
        used = ((name, *found.get(_used(name), _NEVER)) for name in names)
        return {
            name: (used_at, initialized)
            for name, used_at, initialized in used
            if self.is_live(used_at, initialized=initialized)
        }

    def _renew(self, session: Session) -> None:
        """Write the time of use, and extend the lifetime of all entries of the session."""
        cache, lifetime = self._cache, self._lifetime(initialized=session.initialized)
        cache.set(_used(session.address), (self.now(), session.initialized), lifetime)
        cache.touch(_session(session.address), lifetime)
        cache.touch(_of_caller(session), self._timeout)
        for uri in session.subscriptions:
            cache.touch(_of_resource(session.server, uri), self._timeout)

    def _list(self, key: str, name: str, is_member: bool) -> None:
        """Add a session to one of the entries that list sessions, or remove it."""
        with self._locked(key) as cache:
            names = [each for each in cache.get(key, []) if each != name]
            cache.set(key, [*names, name] if is_member else names, self._timeout)


_NEVER = (float("-inf"), True)


def _of_caller(session: Session) -> str:
    return f"django_mcp:caller:{digest(session.counted_as)}"


def _of_resource(server: str, uri: str) -> str:
    return f"django_mcp:resource:{digest(server, uri)}"


class _Head(NamedTuple):
    """The state of a stream: its last number, and when it was last changed."""

    last: int
    closed: bool
    touched_at: float


class CacheEventStore(_InCache, EventStore):
    """Stores events in the cache ``alias``.

    Each event has its own entry, each stream one with its state, and each session one that lists
    its streams.
    """

    @on_thread
    def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        with self._locked(_streams(session)) as cache:
            return self._add(cache, session, digest(session, stream), tuple(data))

    def _add(self, cache: BaseCache, session: str, name: str, data: Sequence[str]) -> int:
        head = self._head(name) or self._open(session, name)
        last = head.last + len(data)
        # The head is written last: a reader of it finds all events up to its number.
        numbered = enumerate(data, head.last + 1)
        entries = {_event(name, number): (self.now(), text) for number, text in numbered}
        cache.set_many(entries, ceil(self.lifetime))
        self._write(session, name, _Head(last, head.closed, self.now()))
        self._drop(name, range(max(1, head.last - self.limit + 1), last - self.limit + 1))
        return last

    @on_thread
    def move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        if not self._after(name, 0):
            return []
        with self._locked(_streams(session)) as cache:
            if not (events := self._after(name, 0)):
                return []
            data = [event.data for event in events]
            last = self._add(cache, session, digest(session, target), data)
            self._drop(name, range(events[0].number, events[-1].number + 1))
        return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    def _drop(self, name: str, numbers: range) -> None:
        if numbers:  # Redis rejects an empty list.
            self._cache.delete_many([_event(name, number) for number in numbers])

    @on_thread
    def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        return self._after(digest(session, stream), number)

    def _after(self, name: str, number: int) -> list[Event] | None:
        if (head := self._head(name)) is None:
            return None
        numbers = range(max(number + 1, head.last - self.limit + 1, 1), head.last + 1)
        found = self._cache.get_many([_event(name, each) for each in numbers])
        oldest = self.now() - self.lifetime
        events = ((each, found.get(_event(name, each), (0.0, ""))) for each in numbers)
        return [Event(each, text) for each, (at, text) in events if at > oldest]

    @on_thread
    def last(self, session: str, stream: str) -> int | None:
        head = self._head(digest(session, stream))
        return None if head is None else head.last

    @on_thread
    def close(self, session: str, stream: str) -> None:
        name = digest(session, stream)
        with self._locked(_streams(session)):
            if (head := self._head(name)) is not None:
                self._write(session, name, _Head(head.last, True, self.now()))

    @on_thread
    def close_abandoned(self, session: str, stream: str, after: float, data: str) -> bool:
        name = digest(session, stream)
        if not self._is_abandoned(self._head(name), after):
            return False
        with self._locked(_streams(session)) as cache:
            if not self._is_abandoned(self._head(name), after):
                return False
            last = self._add(cache, session, name, [data])
            self._write(session, name, _Head(last, True, self.now()))
        return True

    def _is_abandoned(self, head: _Head | None, after: float) -> bool:
        return head is not None and not head.closed and head.touched_at <= self.now() - after

    @on_thread
    def forget(self, session: str) -> None:
        with self._locked(_streams(session)) as cache:
            names = cache.get(_streams(session), [])
            # Events without a head are not found, and expire soon.
            cache.delete_many([*map(_head, names), _streams(session)])

    @on_thread
    def is_closed(self, session: str, stream: str) -> bool:
        head = self._head(digest(session, stream))
        return head is None or head.closed

    def _head(self, name: str) -> _Head | None:
        return self._heads([name]).get(name)

    def _heads(self, names: Sequence[str]) -> dict[str, _Head]:
        """The heads of the streams that have not expired."""
        found = self._cache.get_many(map(_head, names))
        heads = {name: _Head(*found[_head(name)]) for name in names if _head(name) in found}
        live = self.is_live_stream
        return {n: head for n, head in heads.items() if live(head.touched_at, closed=head.closed)}

    def _open(self, session: str, name: str) -> _Head:
        cache, key = self._cache, _streams(session)
        names = [each for each in cache.get(key, []) if each != name]
        if len(names) >= self.streams:
            heads = self._heads(names)
            names = list(heads)
            if len(names) >= self.streams:
                closed = [each for each in names if heads[each].closed]
                if not closed:
                    raise StoreFull(f"This session has {self.streams} open streams already")
                oldest = min(closed, key=lambda each: heads[each].touched_at)
                cache.delete(_head(oldest))
                names.remove(oldest)
        cache.set(key, [*names, name], ceil(self.stream_lifetime(closed=False)))
        return _Head(0, False, self.now())

    def _write(self, session: str, name: str, head: _Head) -> None:
        cache = self._cache
        cache.set(_head(name), tuple(head), ceil(self.stream_lifetime(closed=head.closed)))
        cache.touch(_streams(session), ceil(self.stream_lifetime(closed=False)))
