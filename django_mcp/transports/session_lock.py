"""The session lock, for servers which answer the requests of a session one at a time.

Within one process, requests are answered in order of arrival. Between processes a lease in the
session decides; there, the request that has waited longest is not necessarily the next.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from weakref import WeakValueDictionary

from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.stores.base import SessionStore

logger = logging.getLogger("django_mcp")

UNLOCKED = frozenset({"ping", "logging/setLevel"})
"""Methods which never wait for the lock."""

LEASE = 30.0
"""Seconds until the lease of a worker that died expires."""
RENEWAL = 10.0
"""Seconds between two renewals of the lease."""
PAUSES = (0.02, 0.05, 0.1, 0.25)
"""Seconds between attempts to acquire the lease of another worker; the last one repeats."""


@asynccontextmanager
async def acquire(
    session_id: str, store: SessionStore, *, is_shared: bool
) -> AsyncIterator[Session]:
    """Hold the lock: the session as the previous holder left it; InvalidRequest if there is none.

    ``is_shared`` says that other workers may have requests of the same session.
    """
    async with _lock(address(session_id)):
        if not is_shared:
            yield _existing(await store.load(session_id))
            return
        async with _lease(session_id, store) as session:
            yield session


def _lock(session: str) -> asyncio.Lock:
    """The lock of a session, for as long as it is held or waited for."""
    # Two loops of one process share nothing but the lease.
    key = (id(asyncio.get_running_loop()), session)
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    return lock


@asynccontextmanager
async def _lease(session_id: str, store: SessionStore) -> AsyncIterator[Session]:
    token = secrets.token_urlsafe(9)
    session = await _acquire_lease(session_id, token, store)
    renewal = asyncio.ensure_future(_renew(session_id, token, store))
    try:
        yield session
    finally:
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        await _release(session_id, token, store)


async def _acquire_lease(session_id: str, token: str, store: SessionStore) -> Session:
    for pause in chain(PAUSES, repeat(PAUSES[-1])):
        session = _existing(await _update_lease(session_id, token, store))
        if session.lock.get("by") == token:
            break
        await asyncio.sleep(pause)
    return session


async def _update_lease(session_id: str, token: str, store: SessionStore) -> Session | None:
    now = store.now()
    change = Change("lock", "lease", token, {"now": now, "until": now + LEASE})
    return await store.update(session_id, [change])


async def _renew(session_id: str, token: str, store: SessionStore) -> None:
    while True:
        await asyncio.sleep(RENEWAL)
        try:
            await _update_lease(session_id, token, store)
        except Exception:
            logger.exception("A session lock could not be renewed")


async def _release(session_id: str, token: str, store: SessionStore) -> None:
    try:
        await store.update(session_id, [Change("lock", "release", token)])
    except Exception:
        # The answer stands; other requests wait until the lease expires.
        logger.exception("A session lock could not be released")


def _existing(session: Session | None) -> Session:
    if session is None:
        raise InvalidRequest("The session has ended")
    return session


_locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
