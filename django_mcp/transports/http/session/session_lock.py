"""One after the other: the requests of one session, for servers which want it so.

In one process they are answered in the order in which they came. Between processes a lease in
the session settles whose turn it is; there, who waits longest need not be the first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from django_mcp import stores
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.transports import frames

logger = logging.getLogger("django_mcp")

Load = Callable[[], Awaitable[Session | None]]
"""The session as it is now, or None when it has ended."""

AT_ONCE = frozenset({"ping", "logging/setLevel"})
"""What never waits."""

LEASE = 30.0
"""Seconds after which a turn is over whose worker died."""
RENEWAL = 10.0
"""Seconds between two times that a worker which lives says so."""
PAUSES = (0.02, 0.05, 0.1, 0.25)
"""Seconds between two looks whether another worker has finished; the last one again and again."""


def is_needed(frame: Frame) -> bool:
    """Whether the request has to wait for others of its session."""
    assert frame.request is not None
    return frame.server.serialize_requests and frame.request.method not in AT_ONCE


@asynccontextmanager
async def acquire(frame: Frame, load: Load, *, shared: bool) -> AsyncIterator[Frame]:
    """The Frame, when it is its turn, with what the requests before it have left behind.

    ``shared`` says that other workers may have requests of the same session.
    """
    session_id = frame.get_mcp_session_id()
    if session_id is None or not is_needed(frame):
        yield frame
        return
    async with _lock(address(session_id)):
        if not shared:
            yield frames.with_session(frame, _alive(await load()))
            return
        async with _leased(session_id) as session:
            yield frames.with_session(frame, session)


def _lock(session: str) -> asyncio.Lock:
    """The lock of a session, for as long as somebody has it or waits for it."""
    # Two loops of one process have nothing but the lease between them.
    key = (id(asyncio.get_running_loop()), session)
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    return lock


@asynccontextmanager
async def _leased(session_id: str) -> AsyncIterator[Session]:
    token = secrets.token_urlsafe(9)
    session = await _lease(session_id, token)
    renewing = asyncio.ensure_future(_renew(session_id, token))
    try:
        yield session
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        await _release(session_id, token)


async def _release(session_id: str, token: str) -> None:
    try:
        await stores.sessions().update(session_id, [Change("lock", "release", token)])
    except Exception:
        # What was answered stays answered; the others wait until the lease is over.
        logger.exception("A turn cannot be given back")


async def _lease(session_id: str, token: str) -> Session:
    looks = 0
    while True:
        session = _alive(await _ask(session_id, token))
        if session.lock.get("by") == token:
            return session
        await asyncio.sleep(PAUSES[min(looks, len(PAUSES) - 1)])
        looks += 1


async def _ask(session_id: str, token: str) -> Session | None:
    store = stores.sessions()
    now = store.now()
    change = Change("lock", "lease", token, {"now": now, "until": now + LEASE})
    return await store.update(session_id, [change])


async def _renew(session_id: str, token: str) -> None:
    while True:
        await asyncio.sleep(RENEWAL)
        try:
            await _ask(session_id, token)
        except Exception:
            logger.exception("A turn cannot be kept")


def _alive(session: Session | None) -> Session:
    if session is None:
        raise InvalidRequest("The session has ended")
    return session


_locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
