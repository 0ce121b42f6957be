"""Sessions and events in any of Django's caches: Redis, Memcached and the like.

A cache forgets by itself what is too old. What it promises besides is little, so this is what
these stores promise, and on what condition:

* No update is lost and no event number is given twice, if ``add`` of the cache is atomic (it is
  in Redis, Memcached, the database and local memory; not in files) and no worker is stopped
  for longer than HELD between reading and writing.
* A cache which is full, or restarted, forgets sessions early. Their clients begin anew.
* The local memory cache is shared by the threads of one process alone.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import NamedTuple

from django.core.cache import caches
from django.core.cache.backends.base import BaseCache

from django_mcp.frame.session import Change, Session, address
from django_mcp.runtime import threads
from django_mcp.stores.base import (
    PATIENCE,
    Clock,
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    StoreFull,
    digest,
    pack,
    unpack,
)

LOCK_LIFETIME = 30
"""Seconds after which a lock is void: its holder was stopped."""


class _LockedCache:
    """A cache, and a lock for everything in it that is read and then written."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._here = threading.local()  # Django lets no two threads share a cache's connection.

    @property
    def cache(self) -> BaseCache:
        """The cache, as the current thread may use it."""
        if not hasattr(self._here, "cache"):
            self._here.cache = caches.create_connection(self._alias)
        cache: BaseCache = self._here.cache
        return cache

    @contextmanager
    def locked(self, key: str) -> Iterator[BaseCache]:
        """Nobody else is within ``locked(key)``, on any worker; raises StoreBusy in the end."""
        cache, lock, mine = self.cache, f"{key}:lock", secrets.token_hex(8)
        deadline = time.monotonic() + PATIENCE
        while not cache.add(lock, mine, timeout=LOCK_LIFETIME):
            if time.monotonic() > deadline:
                raise StoreBusy("The session is being written by too many at once")
            time.sleep(random.uniform(0.001, 0.01))
        try:
            yield cache
        finally:
            if cache.get(lock) == mine:
                cache.delete(lock)


class CacheSessionStore(SessionStore):
    """Keeps sessions in the cache ``alias``.

    A session has two entries, itself and the time of its last use, so that noting a use never
    overwrites an update. Further entries list the sessions of a principal, and the subscribers
    of a resource; they may name sessions which are gone.
    """

    def __init__(
        self,
        *,
        idle_timeout: float,
        limit_per_principal: int,
        now: Clock = time.time,
        alias: str = "default",
    ) -> None:
        super().__init__(
            idle_timeout=idle_timeout, limit_per_principal=limit_per_principal, now=now
        )
        self._shelf = _LockedCache(alias)
        # Use is noted to a grain, and the cache must not forget before we would.
        self._timeout = ceil(idle_timeout + self.grain)

    async def create(self, session: Session) -> None:
        await threads.run_in_store_pool(self._create, session)

    async def load(self, session_id: str) -> Session | None:
        return await threads.run_in_store_pool(self._load, session_id)

    async def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        return await threads.run_in_store_pool(self._update, session_id, changes)

    async def touch(self, session_id: str) -> None:
        await threads.run_in_store_pool(self._load, session_id)

    async def delete(self, session_id: str) -> bool:
        return await threads.run_in_store_pool(self._delete, session_id)

    async def subscribers(self, server: str, uri: str) -> list[str]:
        return await threads.run_in_store_pool(self._subscribers, server, uri)

    async def prune(self) -> int:
        """Nothing: the cache has forgotten by itself, and does not say how many."""
        return 0

    def _create(self, session: Session) -> None:
        text, mine = pack(session), _of_principal(session)
        with self._shelf.locked(mine) as cache:
            names = cache.get(mine, [])
            if len(names) >= self.limit_per_principal:
                names = list(self._kept(names))
            if len(names) >= self.limit_per_principal:
                raise StoreFull(f"This caller has {self.limit_per_principal} sessions already")
            cache.set(_session(session.address), text, self._timeout)
            cache.set(mine, [*names, session.address], self._timeout)
            self._note_use(session)
        for uri in session.subscriptions:
            self._list(_of_resource(session.server, uri), session.address)

    def _load(self, session_id: str) -> Session | None:
        kept = self._kept([address(session_id)])
        for text, used_at in kept.values():
            session = unpack(text, session_id=session_id)
            if self.is_worth_noting(used_at):
                self._note_use(session)
            return session
        return None

    def _update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        key = _session(address(session_id))
        with self._shelf.locked(key) as cache:
            before = self._load(session_id)
            if before is None:
                return None
            after = before.apply(changes)
            text = pack(after)
            cache.set(key, text, self._timeout)
            self._note_use(after)
            for uri in after.subscriptions - before.subscriptions:
                self._list(_of_resource(after.server, uri), after.address)
            for uri in before.subscriptions - after.subscriptions:
                self._unlist(_of_resource(after.server, uri), after.address)
        return unpack(text, session_id=session_id)

    def _delete(self, session_id: str) -> bool:
        name = address(session_id)
        with self._shelf.locked(_session(name)) as cache:
            session = self._load(session_id)
            cache.delete_many([_session(name), _used(name)])
        if session is None:
            return False
        self._unlist(_of_principal(session), name)
        for uri in session.subscriptions:
            self._unlist(_of_resource(session.server, uri), name)
        return True

    def _subscribers(self, server: str, uri: str) -> list[str]:
        names = self._shelf.cache.get(_of_resource(server, uri), [])
        return list(self._kept(names))

    def _kept(self, names: Sequence[str]) -> dict[str, tuple[str, float]]:
        """Those sessions which are live, each with the time when it was used."""
        keys = [key for name in names for key in (_session(name), _used(name))]
        found = self._shelf.cache.get_many(keys)
        return {
            name: (found[_session(name)], found[_used(name)])
            for name in names
            if _session(name) in found and self.is_live(found.get(_used(name), 0.0))
        }

    def _note_use(self, session: Session) -> None:
        """Let everything which is kept of the session live on."""
        cache = self._shelf.cache
        cache.set(_used(session.address), self.now(), self._timeout)
        cache.touch(_session(session.address), self._timeout)
        cache.touch(_of_principal(session), self._timeout)
        for uri in session.subscriptions:
            cache.touch(_of_resource(session.server, uri), self._timeout)

    def _list(self, key: str, name: str) -> None:
        with self._shelf.locked(key) as cache:
            names = [each for each in cache.get(key, []) if each != name]
            cache.set(key, [*names, name], self._timeout)

    def _unlist(self, key: str, name: str) -> None:
        with self._shelf.locked(key) as cache:
            names = [each for each in cache.get(key, []) if each != name]
            cache.set(key, names, self._timeout)


def _session(name: str) -> str:
    return f"django_mcp:session:{name}"


def _used(name: str) -> str:
    return f"django_mcp:used:{name}"


def _of_principal(session: Session) -> str:
    return f"django_mcp:principal:{digest(session.principal)}"


def _of_resource(server: str, uri: str) -> str:
    return f"django_mcp:resource:{digest(server, uri)}"


class _Head(NamedTuple):
    """How far a stream has come."""

    last: int
    closed: bool
    touched_at: float


class CacheEventStore(EventStore):
    """Keeps events in the cache ``alias``.

    Each event has an entry of its own, each stream one that says how far it has come, and each
    session one that lists its streams.
    """

    def __init__(
        self,
        *,
        limit: int,
        lifetime: float,
        streams: int,
        now: Clock = time.time,
        alias: str = "default",
    ) -> None:
        super().__init__(limit=limit, lifetime=lifetime, streams=streams, now=now)
        self._shelf = _LockedCache(alias)

    async def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        return await threads.run_in_store_pool(self._append, session, stream, tuple(data))

    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        return await threads.run_in_store_pool(self._after, digest(session, stream), number)

    async def move(self, session: str, source: str, target: str) -> list[Event]:
        return await threads.run_in_store_pool(self._move, session, source, target)

    async def close(self, session: str, stream: str) -> None:
        await threads.run_in_store_pool(self._close, session, digest(session, stream))

    async def is_closed(self, session: str, stream: str) -> bool:
        head = await threads.run_in_store_pool(self._head, digest(session, stream))
        return head is None or head.closed

    async def forget(self, session: str) -> None:
        await threads.run_in_store_pool(self._forget, session)

    async def prune(self) -> int:
        """Nothing: the cache has forgotten by itself, and does not say how many."""
        return 0

    def _append(self, session: str, stream: str, data: Sequence[str]) -> int:
        with self._shelf.locked(_streams(session)) as cache:
            return self._add(cache, session, digest(session, stream), data)

    def _add(self, cache: BaseCache, session: str, name: str, data: Sequence[str]) -> int:
        head = self._head(name) or self._open(session, name)
        last = head.last + len(data)
        # The head comes last: whoever reads it finds every event that it counts.
        cache.set_many(
            {
                _event(name, number): (self.now(), text)
                for number, text in enumerate(data, head.last + 1)
            },
            ceil(self.lifetime),
        )
        self._write(session, name, _Head(last, head.closed, self.now()))
        self._drop(name, range(max(1, head.last - self.limit + 1), last - self.limit + 1))
        return last

    def _move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        if not self._after(name, 0):
            return []
        with self._shelf.locked(_streams(session)) as cache:
            events = self._after(name, 0)
            if not events:
                return []
            data = [event.data for event in events]
            last = self._add(cache, session, digest(session, target), data)
            self._drop(name, range(events[0].number, events[-1].number + 1))
        return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    def _drop(self, name: str, numbers: range) -> None:
        if numbers:  # Redis refuses to delete nothing.
            self._shelf.cache.delete_many([_event(name, number) for number in numbers])

    def _after(self, name: str, number: int) -> list[Event] | None:
        head = self._head(name)
        if head is None:
            return None
        numbers = range(max(number + 1, head.last - self.limit + 1, 1), head.last + 1)
        found = self._shelf.cache.get_many([_event(name, each) for each in numbers])
        oldest = self.now() - self.lifetime
        kept = ((each, found.get(_event(name, each), (0.0, ""))) for each in numbers)
        return [Event(each, text) for each, (at, text) in kept if at > oldest]

    def _close(self, session: str, name: str) -> None:
        with self._shelf.locked(_streams(session)):
            head = self._head(name)
            if head is not None:
                self._write(session, name, _Head(head.last, True, self.now()))

    def _forget(self, session: str) -> None:
        with self._shelf.locked(_streams(session)) as cache:
            names = cache.get(_streams(session), [])
            # Without their heads nobody finds the events, which the cache forgets soon.
            cache.delete_many([*map(_head, names), _streams(session)])

    def _head(self, name: str) -> _Head | None:
        return self._heads([name]).get(name)

    def _heads(self, names: Sequence[str]) -> dict[str, _Head]:
        """Those streams which are known still."""
        found = self._shelf.cache.get_many(map(_head, names))
        heads = {name: _Head(*found[_head(name)]) for name in names if _head(name) in found}
        return {
            name: head
            for name, head in heads.items()
            if self.keeps_stream(head.touched_at, closed=head.closed)
        }

    def _open(self, session: str, name: str) -> _Head:
        cache, key = self._shelf.cache, _streams(session)
        names = [each for each in cache.get(key, []) if each != name]
        if len(names) >= self.streams:
            names = self._make_room(names)
        cache.set(key, [*names, name], ceil(self.stream_lifetime(closed=False)))
        return _Head(0, False, self.now())

    def _make_room(self, names: Sequence[str]) -> list[str]:
        heads = self._heads(names)
        if len(heads) < self.streams:
            return list(heads)
        closed = [name for name, head in heads.items() if head.closed]
        if not closed:
            raise StoreFull(f"This session has {self.streams} open streams already")
        oldest = min(closed, key=lambda name: heads[name].touched_at)
        self._shelf.cache.delete(_head(oldest))
        return [name for name in heads if name != oldest]

    def _write(self, session: str, name: str, head: _Head) -> None:
        cache = self._shelf.cache
        cache.set(_head(name), tuple(head), ceil(self.stream_lifetime(closed=head.closed)))
        cache.touch(_streams(session), ceil(self.stream_lifetime(closed=False)))


def _streams(session: str) -> str:
    return f"django_mcp:streams:{session}"


def _head(name: str) -> str:
    return f"django_mcp:stream:{name}"


def _event(name: str, number: int) -> str:
    return f"django_mcp:event:{name}:{number}"
