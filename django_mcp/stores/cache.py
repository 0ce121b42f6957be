"""Sessions and events in any of Django's caches: Redis, Memcached and the like.

A cache deletes expired entries by itself. These stores have the following guarantees and limits:

* No update is lost and no event number is used twice, if ``add`` of the cache is atomic (it is
  in Redis, Memcached, the database and local memory; not in files). A worker that is suspended
  until it has lost its lock or its claim writes nothing, unless it was suspended during the write.
* A full or restarted cache loses sessions early. Their clients have to initialize again.
* The local memory cache is shared only by the threads of one process.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import ceil
from typing import Any, NamedTuple, cast

from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.redis import RedisCache
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.core.frame.session import EMPTY, Change, Session, address
from django_mcp.stores.base import (
    Check,
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    StoreFull,
    digest,
    on_thread,
    pack,
    unpack,
    write_timeout,
)
from django_mcp.stores.redis_connection import RedisConnection

LOCK_LIFETIME = 3
"""Seconds until a lock, or a claim, expires: its holder has died. Locks are held for
milliseconds."""
CLAIM_VALID = 0.9
"""Seconds from reading a session to claiming its next version, and from there to writing it.

Both times together are shorter than LOCK_LIFETIME, even if a cache counts whole seconds. A claim
may succeed because an earlier one has expired. Whoever makes the later claim has then read the
session after the holder of the earlier one could write it.
"""
LIST_CHECK = 64
"""Sessions in an entry that lists them. Beyond that, expired ones are dropped."""


# The keys of entries.
_session = "django_mcp:session-state:{}".format
_version = "django_mcp:session-claim:{}:{}".format
_used = "django_mcp:used:{}".format
_streams = "django_mcp:streams:{}".format
_head = "django_mcp:stream:{}".format
_event = "django_mcp:event:{}:{}".format
_claim = "django_mcp:claim:{}".format


class _InCache:
    """A store in the cache ``alias``, with locks for entries that are read and then written."""

    def __init__(self, *, alias: str = "default", **limits: Any) -> None:
        super().__init__(**limits)
        self._alias = alias
        self._local = threading.local()  # Threads cannot share a connection to a cache.

    @property
    def resource(self) -> str:
        """The name of its threads: if the cache hangs, the database still answers."""
        return f"cache {self._alias}"

    @property
    def _cache(self) -> BaseCache:
        if not hasattr(self._local, "connection"):
            self._local.connection = _connect(self._alias)
        return cast("BaseCache", self._local.connection)

    def _locked(self, key: str) -> AbstractContextManager[LockedCache]:
        return locked(self._cache, key)

    async def prune(self, *, pause: float = 0.0) -> int:
        """Do nothing: the cache deletes expired entries by itself, and returns no number."""
        return 0


@contextmanager
def locked(cache: BaseCache, key: str) -> Iterator[LockedCache]:
    """Hold the lock of ``key`` among all workers; raises StoreBusy after a timeout."""
    lock = f"{key}:lock"
    token = secrets.token_hex(8)
    acquired_at = time.monotonic()
    deadline = acquired_at + write_timeout()
    while not cache.add(lock, token, timeout=LOCK_LIFETIME):
        _pause(deadline)
        acquired_at = time.monotonic()
    try:
        yield LockedCache(cache, acquired_at + LOCK_LIFETIME)
    finally:
        # After some time it may have expired, and be the lock of another worker.
        is_ours = time.monotonic() < acquired_at + LOCK_LIFETIME / 2
        if is_ours or cache.get(lock) == token:
            cache.delete(lock)


def _pause(deadline: float) -> None:
    """Wait for another writer; raises StoreBusy after the deadline."""
    if time.monotonic() > deadline:
        raise StoreBusy
    time.sleep(random.uniform(0.001, 0.01))


class LockedCache:
    """The cache while a lock is held: it writes nothing once the lock may have expired."""

    def __init__(self, cache: BaseCache, until: float) -> None:
        self._cache = cache
        self._until = until
        self.get = cache.get
        self.get_many = cache.get_many

    @property
    def for_writing(self) -> BaseCache:
        """The cache; raises StoreBusy if another worker may have the lock by now."""
        self.check()
        return self._cache

    def check(self) -> None:
        if time.monotonic() > self._until:
            raise StoreBusy


def _connect(alias: str) -> BaseCache:
    """A connection to a cache. One to Redis has the time limit of stores, unless it has its own."""
    described = {**caches.settings[alias]}
    backend = import_string(described.pop("BACKEND"))
    if not issubclass(backend, RedisCache):
        return caches.create_connection(alias)
    location = described.pop("LOCATION", "")
    limit = conf.get().store_timeout
    limits = {"socket_timeout": limit}
    if "unix:" not in str(location):
        limits["socket_connect_timeout"] = limit
    described["OPTIONS"] = {**limits, **described.get("OPTIONS", {})}
    if backend is RedisCache:
        backend = RedisConnection
    return cast("BaseCache", backend(location, described))


class _Stored(NamedTuple):
    """A session as it was read."""

    name: str
    update_count: int
    slot: str
    """The key of its entry in the list of its caller."""
    text: str
    used_at: float
    initialized: bool
    read_at: float
    """A time before it was read."""


class CacheSessionStore(_InCache, SessionStore):
    """Stores sessions in the cache ``alias``.

    A session has two entries, its data and the time of its last use, so that a touch never
    overwrites an update. The second one also contains whether it is initialized. A third one
    occupies one of the ``limit_per_principal`` slots of its caller. Other entries list the
    subscribers of a resource; they may contain expired sessions.

    Before a worker changes or deletes a session, it claims the next version: an entry that only one
    worker can add. It expires by itself, so that it takes one operation where a lock takes two.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._timeout = self._lifetime(initialized=True)

    def _lifetime(self, *, initialized: bool) -> int:
        """Seconds until entries expire: after the session, because its use may be written late."""
        return ceil(self.timeout(initialized=initialized) * 1.05)

    @on_thread
    def create(self, session: Session) -> None:
        name = session.address
        text = pack(session)
        # Slots are chosen by the name, which is random, so that the first one is mostly free.
        slot = _slot(session, int(name[:8], 16) % self.limit_per_principal)
        self._write(session, 0, slot, text)
        if not self._cache.add(slot, name, self._timeout):
            try:
                self._write(session, 0, self._find_slot(session), text)
            except StoreFull:
                self._cache.delete_many([_session(name), _used(name)])
                raise
        for uri in session.subscriptions:
            self._list(_of_resource(session.server, uri), name, True)

    def _find_slot(self, session: Session) -> str:
        """Occupy a slot that is free, or that an ended session has; raises StoreFull."""
        name = session.address
        with self._locked(_of_caller(session)) as cache:
            slots = [_slot(session, number) for number in range(self.limit_per_principal)]
            occupied: dict[str, str] = cache.get_many(slots)
            for slot in slots:
                if slot not in occupied and cache.for_writing.add(slot, name, self._timeout):
                    return slot
            slot = self._vacate_slot(occupied)
            cache.for_writing.set(slot, name, self._timeout)
            return slot

    def _vacate_slot(self, occupied: Mapping[str, str]) -> str:
        """The slot of a session which has ended or, if there is none, ends; raises StoreFull."""
        live = self._live(list(occupied.values()))
        for slot, name in occupied.items():
            if name not in live:
                return slot
        oldest = self.longest_idle((name, *used) for name, used in live.items())
        self._end(oldest)
        return next(slot for slot, name in occupied.items() if name == oldest)

    @on_thread
    def load(self, session_id: str) -> Session | None:
        return self._load(session_id)

    @on_thread
    def touch(self, session_id: str) -> None:
        self._load(session_id)

    def _load(self, session_id: str) -> Session | None:
        stored = self._read(address(session_id))
        if stored is None:
            return None
        session = unpack(stored.text, session_id=session_id)
        self._renew_if_due(session, stored)
        return session

    def _read(self, name: str) -> _Stored | None:
        read_at = time.monotonic()
        entries = self._cache.get_many([_session(name), _used(name)])
        if len(entries) < 2:
            return None
        update_count, slot, text = entries[_session(name)]
        used_at, initialized = entries[_used(name)]
        if not self.is_live(used_at, initialized=initialized):
            return None
        return _Stored(name, update_count, slot, text, used_at, initialized, read_at)

    @on_thread
    def update(
        self, session_id: str, changes: Sequence[Change], *, check: Check | None = None
    ) -> Session | None:
        name = address(session_id)
        deadline = time.monotonic() + write_timeout()
        while (stored := self._read(name)) is not None:
            before = unpack(stored.text, session_id=session_id)
            if check is not None:
                check(before)
            after = before.apply(changes)
            text = pack(after)
            if text == stored.text:
                self._renew_if_due(before, stored)
                self._list_included(before, changes)
                return before
            if self._replace(stored, before, after, text):
                self._list_included(after, changes)
                return unpack(text, session_id=session_id)
            _pause(deadline)
        return None

    def _replace(self, stored: _Stored, before: Session, after: Session, text: str) -> bool:
        """Write the next version of a session; False if another worker writes it."""
        is_same_caller = after.counted_as == before.counted_as
        slot = stored.slot if is_same_caller else self._find_slot(after)
        # Before it is written, because a session that was taken over is not flushed a second time.
        self._list_each(after, before.subscriptions - after.subscriptions)
        if not self._claim(stored):
            if slot != stored.slot:
                self._cache.delete(slot)
            return False
        self._write(after, stored.update_count + 1, slot, text, {slot: stored.name})
        if slot != stored.slot:
            self._cache.delete(stored.slot)
        return True

    def _list_included(self, session: Session, changes: Sequence[Change]) -> None:
        """List a session as a subscriber of the resources that ``changes`` include.

        Also of those that it has already: an earlier attempt may have failed before this.
        """
        wanted = [change for change in changes if change.area == "subscriptions"]
        self._list_each(session, {change.key for change in wanted if change.action == "include"})

    def _list_each(self, session: Session, uris: Iterable[str]) -> None:
        """List a session with those of the resources that it is subscribed to, and no others."""
        for uri in uris:
            is_member = uri in session.subscriptions
            self._list(_of_resource(session.server, uri), session.address, is_member)

    def _claim(self, stored: _Stored) -> bool:
        """Whether this worker, and no other one, may write the next version of a session.

        Raises StoreBusy if it was suspended, so that it may be too late to write.
        """
        version = _version(stored.name, stored.update_count + 1)
        claimed_at = time.monotonic()
        if not self._cache.add(version, 1, LOCK_LIFETIME):
            return False
        now = time.monotonic()
        if now > claimed_at + CLAIM_VALID:
            raise StoreBusy
        if now > stored.read_at + CLAIM_VALID:
            # The holder of an expired claim may have written it.
            self._cache.delete(version)
            return False
        return True

    @on_thread
    def delete(self, session_id: str, *, check: Check | None = None) -> bool:
        def accept(stored: _Stored) -> None:
            if check is not None:
                check(unpack(stored.text, session_id=session_id))

        ended = self._end(address(session_id), accept)
        if ended is None:
            return False
        session = unpack(ended.text, session_id=session_id)
        for uri in session.subscriptions:
            self._list(_of_resource(session.server, uri), ended.name, False)
        return True

    def _end(
        self, name: str, accept: Callable[[_Stored], object] = lambda _: None
    ) -> _Stored | None:
        """Delete the entries of a session; return the session, or None if there is none."""
        deadline = time.monotonic() + write_timeout()
        while (stored := self._read(name)) is not None:
            accept(stored)
            if self._claim(stored):
                self._cache.delete_many([_session(name), _used(name), stored.slot])
                return stored
            _pause(deadline)
        return None

    @on_thread
    def subscribers(self, server: str, uri: str) -> list[str]:
        return list(self._live(self._cache.get(_of_resource(server, uri), [])))

    def _live(self, names: Sequence[str]) -> dict[str, tuple[float, bool]]:
        """When the live ones of the sessions were last used, and whether they are initialized."""
        entries = self._cache.get_many(map(_used, names))
        used = {name: entries[_used(name)] for name in names if _used(name) in entries}
        return {
            name: (used_at, initialized)
            for name, (used_at, initialized) in used.items()
            if self.is_live(used_at, initialized=initialized)
        }

    def _write(
        self,
        session: Session,
        update_count: int,
        slot: str,
        text: str,
        further: Mapping[str, Any] = EMPTY,
    ) -> None:
        """Write the entries of a session, which counts as used now, and ``further`` ones."""
        entries = {
            _session(session.address): (update_count, slot, text),
            _used(session.address): (self.now(), session.initialized),
            **further,
        }
        self._cache.set_many(entries, self._lifetime(initialized=session.initialized))

    def _renew_if_due(self, session: Session, stored: _Stored) -> None:
        """Write the time of use, and extend the lifetime of all entries of the session."""
        if not self.is_touch_due(stored.used_at, initialized=stored.initialized):
            return
        self._renew(session, stored)
        if session.initialized:
            return
        # Another worker may have initialized it since it was read: it then lives longer.
        newer = self._read(stored.name)
        if newer is not None and newer.update_count != stored.update_count:
            self._renew(unpack(newer.text, session_id=session.id), newer)

    def _renew(self, session: Session, stored: _Stored) -> None:
        cache = self._cache
        lifetime = self._lifetime(initialized=session.initialized)
        cache.set(_used(stored.name), (self.now(), session.initialized), lifetime)
        cache.touch(_session(stored.name), lifetime)
        cache.touch(stored.slot, self._timeout)
        for uri in session.subscriptions:
            cache.touch(_of_resource(session.server, uri), self._timeout)

    def _list(self, key: str, name: str, is_member: bool) -> None:
        """Add a session to one of the entries that list sessions, or remove it."""
        with self._locked(key) as cache:
            names = [listed for listed in cache.get(key, []) if listed != name]
            if is_member and len(names) % LIST_CHECK == 0:
                names = list(self._live(names))
            if is_member:
                names.append(name)
            cache.for_writing.set(key, names, self._timeout)


def _of_caller(session: Session) -> str:
    return f"django_mcp:caller:{digest(session.counted_as)}"


def _slot(session: Session, number: int) -> str:
    return f"{_of_caller(session)}:{number}"


def _of_resource(server: str, uri: str) -> str:
    return f"django_mcp:resource:{digest(server, uri)}"


_EXPIRED = (float("-inf"), "")
"""In the place of the entry of an event which the cache has deleted."""


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
    def append(
        self, session: str, stream: str, data: Iterable[str], *, create: bool = True, first: int = 1
    ) -> int:
        name = digest(session, stream)
        with self._locked(_streams(session)) as cache:
            if not create and self._head(name) is None:
                return 0
            return self._add(cache, session, name, tuple(data), first)

    def _add(
        self, cache: LockedCache, session: str, name: str, data: Sequence[str], first: int = 1
    ) -> int:
        cache.check()
        head = self._head(name) or self._open(session, name, first)
        last = head.last + len(data)
        # The head is written last: a reader of it finds all events up to its number.
        numbered = enumerate(data, head.last + 1)
        entries = {_event(name, number): (self.now(), text) for number, text in numbered}
        cache.for_writing.set_many(entries, ceil(self.lifetime))
        self._write(session, name, _Head(last, head.closed, self.now()))
        self._drop(name, range(max(1, head.last - self.limit + 1), last - self.limit + 1))
        return last

    @on_thread
    def move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        if not self._after(name, 0):
            return []
        with self._locked(_streams(session)) as cache:
            events = self._after(name, 0)
            if not events:
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
        keys = {_event(name, number): number for number in numbers}
        entries = self._cache.get_many(keys)
        oldest = self.now() - self.lifetime
        events = []
        for key, number in keys.items():
            created_at, text = entries.get(key, _EXPIRED)
            if created_at > oldest:
                events.append(Event(number, text))
        return events

    @on_thread
    def last(self, session: str, stream: str) -> int | None:
        head = self._head(digest(session, stream))
        return None if head is None else head.last

    @on_thread
    def last_of_each(self, streams: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        names = {digest(*key): key for key in streams}
        heads = self._heads(list(names))
        return {names[name]: head.last for name, head in heads.items()}

    @on_thread
    def close(self, session: str, stream: str) -> None:
        name = digest(session, stream)
        with self._locked(_streams(session)) as cache:
            cache.check()
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
        if not self._cache.get(_streams(session)):
            return  # Most sessions have none, and a look costs less than a lock.
        with self._locked(_streams(session)) as cache:
            heads = self._heads(cache.get(_streams(session), []))
            writing = cache.for_writing
            # First the heads: without them, events are not found.
            writing.delete_many([*map(_head, heads), _streams(session)])
            for name, head in heads.items():
                self._drop(name, range(max(1, head.last - self.limit + 1), head.last + 1))

    @on_thread
    def is_closed(self, session: str, stream: str) -> bool:
        head = self._head(digest(session, stream))
        return head is None or head.closed

    @on_thread
    def claim(self, name: str, seconds: float) -> bool:
        key = _claim(digest(name))
        with self._locked(key) as cache:
            if cache.get(key, float("-inf")) > self.now() - seconds:
                return False
            cache.for_writing.set(key, self.now(), ceil(seconds))
        return True

    def _head(self, name: str) -> _Head | None:
        return self._heads([name]).get(name)

    def _heads(self, names: Sequence[str]) -> dict[str, _Head]:
        """The heads of the streams that have not expired."""
        entries = self._cache.get_many(map(_head, names))
        heads = {name: _Head(*entries[_head(name)]) for name in names if _head(name) in entries}
        return {
            name: head
            for name, head in heads.items()
            if self.is_live_stream(head.touched_at, closed=head.closed)
        }

    def _open(self, session: str, name: str, first: int) -> _Head:
        key = _streams(session)
        names = [listed for listed in self._cache.get(key, []) if listed != name]
        if len(names) >= self.streams:
            names = self._make_room(names)
        self._cache.set(key, [*names, name], ceil(self.stream_lifetime(closed=False)))
        return _Head(first - 1, False, self.now())

    def _make_room(self, names: Sequence[str]) -> list[str]:
        """The streams of a session that remain when there is room for one more."""
        heads = self._heads(names)
        if len(heads) >= self.streams:
            closed = [name for name, head in heads.items() if head.closed]
            if not closed:
                raise StoreFull(f"This session has {self.streams} open streams already")
            oldest = min(closed, key=lambda name: heads[name].touched_at)
            self._cache.delete(_head(oldest))
            del heads[oldest]
        return list(heads)

    def _write(self, session: str, name: str, head: _Head) -> None:
        cache = self._cache
        cache.set(_head(name), tuple(head), ceil(self.stream_lifetime(closed=head.closed)))
        cache.touch(_streams(session), ceil(self.stream_lifetime(closed=False)))
