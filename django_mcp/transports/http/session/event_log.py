"""The event log of a call's stream, for a client that has to resume it.

An event has its number at once and is stored soon: neither the call nor a connected client waits
for the store. Each stream has one writer, so that the numbers here and in the store agree. The
writer holds a lease. Each append renews it, also an append without events. When the lease has ended
without a close, the worker has died, or the store was away. A reader that has followed the stream
for long enough to see a renewal then ends it, with an error for the client.

| state | meaning | who moves it |
|---|---|---|
| new | the store does not have the stream yet | the first write: stored |
| stored | events are written after each other, and the lease is renewed | ``close``: closed |
| broken | nothing is written: the store failed, or the session or the lease has ended | a write |
| closed | the store has all events, and readers know that there will be no more | nobody |

A broken stream is closed with an error for whoever resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum, auto
from typing import Any

from django_mcp import conf, stores
from django_mcp.core.concurrency.thread_pool import PoolEnded
from django_mcp.core.frame.session import Session
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InternalError, ParseError
from django_mcp.core.protocol.jsonrpc import RequestId
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.protocol.sse import EventId
from django_mcp.pubsub import session_messages
from django_mcp.runtime import background
from django_mcp.stores.base import had_outage

PREFIX = "p"
"""The first letter of the names of these streams, which are opened by a POST."""
MAX_UNREAD = 1024 * 1024
"""Bytes of events that wait for the store, or for a client that disconnected. Further ones are
dropped, except the response."""
MAX_RENEWAL = 3.0
"""Seconds between two renewals of a lease, or SSE_PING_INTERVAL if that is shorter."""
RENEWALS = 3
"""How many renewals a lease lasts for: it ends within 9 s after its worker."""
MIN_LEASE = 1.0
"""The shortest lease, in seconds."""
CREATION_TIMEOUT = 1.0
"""Seconds that the first event waits until the store has the stream."""
NAME_LENGTH = 17
"""The part of a stream's name before the id of its request."""
WORKER_ENDED = "The worker that answered this request has ended"


class _State(Enum):
    NEW = auto()
    STORED = auto()
    BROKEN = auto()
    CLOSED = auto()


class _Reader(Enum):
    """Which connection reads the events."""

    FIRST = auto()
    NONE = auto()
    OTHER = auto()


class StreamLog:
    """The events of one stream of a session."""

    def __init__(self, session: Session, request_id: RequestId | None) -> None:
        # With the id, so that another worker can answer the request.
        encoded = urlsafe_b64encode(jsonrpc.encode(request_id)).decode().rstrip("=")
        self.name = PREFIX + secrets.token_urlsafe(12) + encoded
        self._session = session
        self._last = 0
        self._stored = 0
        self._state = _State.NEW
        self._reader = _Reader.FIRST
        self._unread = 0
        self._has_dropped = False
        self._loop = asyncio.get_running_loop()
        self._renewed_at = self._loop.time()
        self._backlog: list[str] = []
        self._writer: asyncio.Task[None] | None = None
        self._start_writing()

    @property
    def last(self) -> EventId:
        return EventId(self.name, self._last)

    def append(self, text: str, *, is_response: bool = False) -> EventId:
        """Number an event and store it soon; return its id, or the last one if it is dropped."""
        if self._unread > MAX_UNREAD and not is_response:
            if not self._has_dropped:
                self._has_dropped = True
                text = "Notifications are dropped: neither the client nor the store takes them"
                log_repeated(logging.WARNING, text)
            return self.last
        self._last += 1
        self._unread += len(text)
        self._backlog.append(text)
        self._start_writing()
        return self.last

    def resumed(self) -> None:
        """Note that another connection reads the stream."""
        self._reader = _Reader.OTHER
        self._has_dropped = False
        self._unread = 0

    def left(self) -> None:
        """Note that no connection reads the stream. Another one may do so later."""
        self._reader = _Reader.NONE

    def renew(self) -> None:
        """Extend the lease if that is due."""
        if self._loop.time() - self._renewed_at >= renewal_interval():
            self._renewed_at = self._loop.time()  # A store that fails is not asked all the time.
            self._start_writing()

    async def wait_until_created(self) -> None:
        """Wait until the store has the stream, but not long for a store that hangs."""
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=CREATION_TIMEOUT)

    async def flush(self) -> None:
        """Wait until all events are stored, or have failed to be."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def close(self) -> None:
        """Store all events, and that there will be no more."""
        if self._backlog:
            self._start_writing()
        await self.flush()
        try:
            await self._close()
        except PoolEnded:
            # This process ends, and its lease with it: whoever resumes the stream learns of it.
            return
        except Exception:
            text = "A stream cannot be closed in the event store"
            log_repeated(logging.ERROR, text, exc_info=True)
        if self._has_other_readers:
            await self.notify_readers()

    async def _close(self) -> None:
        address = self._session.address
        if self._state is _State.BROKEN:
            # Its response is not stored: whoever resumes it must not wait for one.
            text = end_of_lease(self._session, self.name)
            await stores.events().close_abandoned(address, self.name, 0.0, text)
        else:
            await stores.events().close(address, self.name)
        self._state = _State.CLOSED

    @property
    def _has_other_readers(self) -> bool:
        """Whether another connection may read the stream, and is notified of new events."""
        return self._reader is not _Reader.FIRST

    async def notify_readers(self) -> None:
        await session_messages.send_to_session(self._session.address, "appended", stream=self.name)

    def _start_writing(self) -> None:
        if self._writer is None and self._state in (_State.NEW, _State.STORED):
            self._writer = background.create_task(self._write_all())

    async def _write_all(self) -> None:
        texts: list[str] = []
        try:
            while True:
                texts = self._backlog
                self._backlog = []
                await self._write(texts)
                if self._has_other_readers and texts:
                    await self.notify_readers()
                if not self._backlog or self._state is _State.BROKEN:
                    return
        except PoolEnded:
            self._state = _State.BROKEN
        except Exception:
            # The call goes on, but a client that disconnects loses the events.
            text = "A stream cannot be stored, and so not be resumed"
            log_repeated(logging.WARNING, text, exc_info=True)
            if texts or self._state is _State.NEW:
                self._state = _State.BROKEN
        finally:
            self._writer = None
            if self._state is _State.BROKEN:
                self._backlog = []

    async def _write(self, texts: list[str]) -> None:
        # Only the first append creates the stream: one that was deleted must not come back.
        create = self._state is _State.NEW
        last = await stores.events().append(self._session.address, self.name, texts, create=create)
        self._state = _State.STORED
        self._stored += len(texts)
        self._renewed_at = self._loop.time()
        if self._reader is not _Reader.NONE:
            self._unread = sum(map(len, self._backlog))
        if last != self._stored:
            text = "A stream is no longer stored: its session or its lease has ended"
            log_repeated(logging.INFO, text)
            self._state = _State.BROKEN


def renewal_interval() -> float:
    """Seconds until a lease is renewed."""
    return min(conf.get().sse_ping_interval or MAX_RENEWAL, MAX_RENEWAL)


def lease() -> float:
    """Seconds until a lease ends that is not renewed."""
    return max(RENEWALS * renewal_interval(), MIN_LEASE)


def time_to_renew() -> float:
    """Seconds until a living worker has renewed its lease once the store is there again.

    So long lasts the lease of a worker that has just died, whose clients resume at once: they wait
    no longer for this.
    """
    return lease() - renewal_interval()


def is_name(stream: str) -> bool:
    """Whether the stream of an event id, which a client sent, belongs to a call."""
    try:
        request_id = _request_of(stream)
    except (ValueError, ParseError):
        return False
    return stream.startswith(PREFIX) and jsonrpc.is_id(request_id)


def end_of_lease(session: Session, stream: str) -> str:
    """The error that answers the request of a stream whose worker has ended."""
    error = BY_VERSION[session.version].error(InternalError(WORKER_ENDED))
    return jsonrpc.encode(jsonrpc.error(_request_of(stream), error)).decode()


def _request_of(stream: str) -> Any:
    """The id of the request that a stream answers."""
    encoded = stream[NAME_LENGTH:]
    return jsonrpc.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))


async def end_abandoned(session: Session, stream: str, *, watched_for: float) -> None:
    """End a stream whose lease has run out, with an error that answers its request.

    ``watched_for`` is the number of seconds since the store first answered the caller about it. If
    the store was away before, perhaps unnoticed by this process, the worker can renew the lease.
    """
    text = end_of_lease(session, stream)
    if watched_for < time_to_renew() or had_outage(lease()):
        return
    if await stores.events().close_abandoned(session.address, stream, lease(), text):
        log_repeated(logging.WARNING, "A call is given up: its worker has ended")
