"""The contracts of session stores and event stores.

A store is named in ``DJANGO_MCP["STORES"]`` as ``{"BACKEND": dotted path, "OPTIONS": {…}}``.
To add one, implement these classes and run ``tests/stores/contracts.py`` of the repository on them.

A session:

| state | meaning | who moves it there |
|---|---|---|
| opened | only ``initialize`` was sent; it lives for a minute | ``create`` |
| initialized | each use prolongs its life by ``idle_timeout`` | ``update`` |
| expired | not found, and no use brings it back | time; ``prune`` deletes it |
| deleted | not stored | ``delete``, or ``create`` of a caller who has too many |

A stream of the event store:

| state | meaning | who moves it there |
|---|---|---|
| open | its numbers continue, also after its events have expired | ``append``, ``move`` |
| closed | complete; it can be read for ``lifetime`` seconds | ``close``, ``close_abandoned`` |
| deleted | unknown; the numbers of a new one begin anew | ``forget``, time, a further stream |
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from hashlib import sha256
from itertools import starmap
from math import inf
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from django.db import InterfaceError, OperationalError
from pydantic_core import from_json

from django_mcp import conf
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.log import log_repeated
from django_mcp.runtime import pools, signing
from django_mcp.runtime.store_operations import StoreUnavailable

logger = logging.getLogger("django_mcp")

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

AsyncMethod: TypeAlias = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]

Clock = Callable[[], float]
"""Seconds since 1970. All workers that share a store must have the same time."""

Check = Callable[[Session], object]
"""Raises an error for a session that its caller may not use.

It is called with the session before the change, perhaps several times and on any thread. The store
raises its error, and changes nothing.
"""

ABANDONED_AFTER = 24 * 60 * 60.0
"""Seconds without events until an open stream is abandoned, unless the store has another limit:
its worker has died."""

APPENDED_AT_ONCE = 10
"""Sessions that a store without transactions appends to at the same time."""

STEP = 500
"""Expired rows that are deleted at once, so that nobody waits for long behind them."""

INITIALIZE_TIMEOUT = 60.0
"""Seconds of inactivity until a session expires that was never initialized."""

STREAM_CHECK = 120.0
"""Seconds until an open stream counts its session as used again, at the latest."""


class StoreFull(Exception):
    """A limit of the store is reached; the request is rejected."""


class StoreBusy(StoreUnavailable):
    """A write was in conflict with other writers for too long."""

    default_message = "Too many requests write to the same place"


def write_timeout() -> float:
    """Seconds until a write fails if each attempt is in conflict with other writers."""
    return conf.get().store_timeout * 0.8


def on_thread(method: Callable[Concatenate[S, P], T]) -> AsyncMethod[S, P, T]:
    """Decorate a blocking method of a store, to run it on one of the threads for stores.

    Stores with the same attribute ``resource`` share threads; without one, they use the threads of
    the database. Raises StoreUnavailable if the server of the store is away, or does not answer in
    time.
    """

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        resource = getattr(self, "resource", DATABASE)
        try:
            return await pools.run_in_threads_of(resource, partial(method, self, *args, **kwargs))
        except Exception as error:
            if not is_outage(error):
                raise
            log_outage(error)
            if isinstance(error, StoreUnavailable):
                raise
            raise StoreUnavailable from error

    return run


DATABASE = "stores"
"""The threads of stores in the database."""

OUTAGES = frozenset(
    {
        "redis.exceptions.RedisError",
        "django_redis.exceptions.ConnectionInterrupted",
        "pymemcache.exceptions.MemcacheError",
        "_pylibmc.MemcachedError",
    }
)
"""Exceptions of the clients of caches, by name, because they may not be installed."""


UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})


def is_outage(error: BaseException) -> bool:
    """Whether an error says that a server is away, and not that an operation is wrong."""
    if isinstance(error, OperationalError | InterfaceError | StoreUnavailable):
        return True
    if isinstance(error, OSError):
        is_of_network = isinstance(error, ConnectionError | TimeoutError | socket.gaierror)
        return is_of_network or error.errno in UNREACHABLE
    names = (f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__)
    return not OUTAGES.isdisjoint(names)


class _Outages:
    """When a store was last unavailable, for this process."""

    seen_at = -inf


_outages = _Outages()


def log_outage(error: Exception) -> None:
    """Log that a server is away: at once, and then once a minute with the number of times."""
    # A store that is only busy answers, unless its database let nobody write.
    if not isinstance(error, StoreBusy) or isinstance(error.__cause__, OperationalError):
        _outages.seen_at = time.monotonic()
    log_repeated(logging.ERROR, "A store does not answer", exc_info=error)


def had_outage(seconds: float) -> bool:
    """Whether a store was unavailable within the last ``seconds``, for this process.

    Then a lease may have run out although its holder is alive: it could not renew the lease.
    """
    return time.monotonic() - _outages.seen_at < seconds


class SessionStore(ABC):
    """Stores sessions until they are deleted or unused for ``idle_timeout`` seconds.

    A session that is not initialized expires after ``initialize_timeout`` already. All workers
    read the writes of each. An expired session is not found. The time of the last use is
    accurate to a twentieth of these timeouts, so that most loads need no write.

    The id of a session is a secret of its client, so the key of the stored session is its address.
    """

    def __init__(
        self,
        *,
        idle_timeout: float,
        limit_per_principal: int,
        initialize_timeout: float = INITIALIZE_TIMEOUT,
        now: Clock = time.time,
    ) -> None:
        self.idle_timeout = idle_timeout
        self.initialize_timeout = min(initialize_timeout, idle_timeout)
        self.limit_per_principal = limit_per_principal
        self.now = now
        self.touch_interval = idle_timeout / 20
        """Seconds until the time of the last use is written again."""

    @abstractmethod
    async def create(self, session: Session) -> None:
        """Store a new session.

        If there are ``limit_per_principal`` with the same ``counted_as``, the one of them that
        has been idle for the longest time is deleted. Raises StoreFull when all are in use.
        """

    @abstractmethod
    async def load(self, session_id: str) -> Session | None:
        """The session, which counts as used now, or None when it is not found."""

    @abstractmethod
    async def update(
        self, session_id: str, changes: Sequence[Change], *, check: Check | None = None
    ) -> Session | None:
        """Apply ``changes`` to the current session, atomically; None when it is not found.

        Concurrent updates are applied one after another; none is lost. The session counts as
        used now. Raises TypeError for a value that is not JSON serializable. Changes without effect
        write nothing but the time of the last use. Where they change ``counted_as``, the session
        counts for that key from then on, within the limit of ``create``. Raises StoreFull.
        """

    @abstractmethod
    async def touch(self, session_id: str) -> None:
        """Count the session as used now; an open stream does this to prevent expiry."""

    @abstractmethod
    async def delete(self, session_id: str, *, check: Check | None = None) -> bool:
        """Delete the session; False when it is not found."""

    @abstractmethod
    async def subscribers(self, server: str, uri: str) -> list[str]:
        """The addresses of the live sessions of ``server`` that are subscribed to ``uri``."""

    async def subscribers_of_each(self, server: str, uris: Sequence[str]) -> dict[str, list[str]]:
        """The result of ``subscribers``, for several resources at once.

        A store with queries should override it with as few of them as possible.
        """
        return {uri: await self.subscribers(server, uri) for uri in uris}

    @abstractmethod
    async def prune(self, *, pause: float = 0.0) -> int:
        """Delete expired sessions in steps, with pauses between them; return their number."""

    # For implementations.

    def timeout(self, *, initialized: bool) -> float:
        """Seconds of inactivity until a session expires."""
        return self.idle_timeout if initialized else self.initialize_timeout

    def oldest_use(self, *, initialized: bool) -> float:
        """A session that was last used at this time or before is expired."""
        return self.now() - self.timeout(initialized=initialized)

    def is_live(self, used_at: float, *, initialized: bool) -> bool:
        """Whether a session that was last used then has not expired."""
        return used_at > self.oldest_use(initialized=initialized)

    def is_touch_due(self, used_at: float, *, initialized: bool) -> bool:
        """Whether the time of the last use has to be written again."""
        return self.now() - used_at >= self.timeout(initialized=initialized) / 20

    @property
    def idle_since(self) -> float:
        """An initialized session that was used after this time may be in use."""
        return self.now() - self.touch_interval - min(STREAM_CHECK, self.idle_timeout / 2)

    def longest_idle(self, sessions: Iterable[tuple[str, float, bool]]) -> str:
        """The session that makes room for a new one of its caller; raises StoreFull without one.

        Each session is given by its name, the time of its last use, and whether it is initialized.
        """
        idle_since = self.idle_since
        idle = [
            (used_at, name)
            for name, used_at, initialized in sessions
            if not initialized or used_at <= idle_since
        ]
        if not idle:
            raise self.full()
        return min(idle)[1]

    def full(self) -> StoreFull:
        """The error for a caller without an unused session."""
        return StoreFull(f"This caller has {self.limit_per_principal} sessions in use already")


@dataclass(frozen=True, slots=True)
class Event:
    """One message of a stream: its number, and its JSON text."""

    number: int
    data: str


class EventStore(ABC):
    """Stores the messages of streams for clients that lose their connection.

    A stream has an opaque name and belongs to one session, given by its address. Numbers increase
    by one within a stream, from 1 unless its first append says otherwise. A stream keeps its
    newest ``limit`` events, each for ``lifetime`` seconds. A session has at most ``streams``
    streams: a further one replaces the closed stream that has been unchanged for the longest time.

    A closed stream exists for ``lifetime`` seconds more, an open one until nobody appends to it
    for ``abandoned_after`` seconds: its numbers must continue, even after all its events have
    expired.
    """

    def __init__(
        self,
        *,
        limit: int,
        lifetime: float,
        streams: int,
        abandoned_after: float = ABANDONED_AFTER,
        now: Clock = time.time,
    ) -> None:
        self.limit = limit
        self.lifetime = lifetime
        self.streams = streams
        self.abandoned_after = max(lifetime, abandoned_after)
        self.now = now

    is_shared = True
    """Whether other processes can read the events."""

    @abstractmethod
    async def append(
        self, session: str, stream: str, data: Iterable[str], *, create: bool = True, first: int = 1
    ) -> int:
        """Append messages to the stream; return the number of the last one.

        The first append creates the stream, even without messages; ``first`` is the number of its
        first event. A later append without messages says that its writer is alive. With
        ``create=False``, nothing is appended to a stream that does not exist, such as one that was
        deleted with its session, and 0 is returned. Raises StoreFull when the session has too many
        streams and none of them is closed.
        """

    async def append_to_each(self, stream: str, data: Mapping[str, Sequence[str]]) -> list[str]:
        """Append messages to the streams of this name in several sessions, given by address.

        Return the sessions which have too many streams, and got no message. After an error, some
        sessions may have their messages. A store with transactions should override this with one:
        an update of a resource is appended to the outboxes of all its subscribers.
        """
        at_once = asyncio.Semaphore(APPENDED_AT_ONCE)
        full: list[str] = []

        async def append(session: str, messages: Sequence[str]) -> None:
            async with at_once:
                try:
                    await self.append(session, stream, messages)
                except StoreFull:
                    full.append(session)

        results = await asyncio.gather(*starmap(append, data.items()), return_exceptions=True)
        for error in filter(None, results):
            raise error
        return full

    @abstractmethod
    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        """The events after ``number``, in order; None when this session has no such stream."""

    @abstractmethod
    async def last(self, session: str, stream: str) -> int | None:
        """The number of the last event, also of an expired one; None when there is no stream."""

    async def last_of_each(self, streams: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The numbers that ``last`` returns, for several sessions and streams at once.

        A stream that does not exist is left out. Each worker calls this every few seconds: a
        store should override it with as few queries as possible.
        """
        numbers = {key: await self.last(*key) for key in streams}
        return {key: number for key, number in numbers.items() if number is not None}

    @abstractmethod
    async def move(self, session: str, source: str, target: str) -> list[Event]:
        """Move the events of one stream to the end of another, atomically.

        Return the events with their new numbers, in order; none for an unknown source. Concurrent
        moves from one stream never return the same event.
        """

    @abstractmethod
    async def close(self, session: str, stream: str) -> None:
        """Mark the stream as closed; its events can be read until they expire."""

    @abstractmethod
    async def close_abandoned(self, session: str, stream: str, after: float, data: str) -> bool:
        """Append ``data`` and close the stream, if nobody has appended for ``after`` seconds.

        Atomic: of several callers, one gets True. False for a closed or unknown stream.
        """

    @abstractmethod
    async def is_closed(self, session: str, stream: str) -> bool:
        """Whether the stream is closed or unknown."""

    @abstractmethod
    async def forget(self, session: str) -> None:
        """Delete all streams of the session."""

    @abstractmethod
    async def prune(self, *, pause: float = 0.0) -> int:
        """Delete expired streams and events in steps, as sessions; return the number of events."""

    @abstractmethod
    async def claim(self, name: str, seconds: float) -> bool:
        """Whether the caller is the only one who claims ``name`` within ``seconds``."""

    # For implementations.

    def is_live_stream(self, touched_at: float, *, closed: bool) -> bool:
        """Whether a stream that was last appended to, or closed, then has not expired."""
        return self.now() - touched_at < self.stream_lifetime(closed=closed)

    def stream_lifetime(self, *, closed: bool) -> float:
        """Seconds until a stream expires that is not appended to."""
        return self.lifetime if closed else self.abandoned_after


async def in_steps(step: Callable[[], Coroutine[Any, Any, int]], pause: float) -> int:
    """Repeat ``step``, which deletes up to STEP rows, until it finds fewer; return their sum."""
    deleted = 0
    while True:
        rows = await step()
        deleted += rows
        if rows < STEP:
            return deleted
        await asyncio.sleep(pause)


def pack(session: Session) -> str:
    """The session as JSON without its id; raises TypeError for an unserializable value.

    Runtime components are signed, because they name the functions that this site runs.
    """
    values = session.to_json()
    del values["id"]
    if "components" in values:
        values["signature"] = signing.signature(*_signed(session.address, values["components"]))
    return _ENCODER.encode(values)


def unpack(text: str, *, session_id: str) -> Session:
    """The session of the JSON that ``pack`` returned.

    The parser of pydantic takes a fifth of the time of Python's own. Python's parser follows where
    it fails: it also accepts half of a surrogate pair, and deep nesting.
    """
    try:
        values = from_json(text, cache_strings="keys")
    except ValueError:
        values = json.loads(text)
    if "components" in values:
        signed = _signed(address(session_id), values["components"])
        if not signing.is_signature(*signed, values.get("signature")):
            logger.error("The runtime components of a session are ignored: " + UNSIGNED)
            del values["components"]
    values["id"] = session_id
    return Session.from_json(values)


def pack_changes(changes: Iterable[Change]) -> str:
    """Changes of a session as JSON; raises TypeError for an unserializable value."""
    return _ENCODER.encode(
        [[change.area, change.action, change.key, change.value] for change in changes]
    )


def unpack_changes(text: str) -> list[Change]:
    """The changes of the JSON that ``pack_changes`` returned."""
    return [Change(*change) for change in json.loads(text)]


UNSIGNED = (
    "their signature is not by this site. Add the former SECRET_KEY to SECRET_KEY_FALLBACKS if it "
    "was changed. Otherwise, somebody else may have written to the session store"
)


def _signed(address: str, components: Mapping[str, Any]) -> tuple[str, str]:
    """The purpose and the text of the signature of a session's components."""
    return "components", f"{address} {_ENCODER.encode(components)}"


@lru_cache(maxsize=512)  # Servers, callers and streams recur; making one takes 5 µs.
def digest(*parts: str) -> str:
    """A name of fixed length and alphabet, valid in any index and any cache."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def _to_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"A session stores JSON, and a {type(value).__name__} is not JSON serializable. "
        "Assign a number, a string, a list or a dict instead, such as the primary key of a row."
    )


_ENCODER = json.JSONEncoder(default=_to_dict, separators=(",", ":"))
