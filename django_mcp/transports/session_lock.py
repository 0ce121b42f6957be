"""The session lock, for servers which answer the requests of a session one at a time.

Within one process, requests are answered in order of arrival. Between processes a lease in the
session decides; there, the request that has waited longest is not necessarily the next.

| state | meaning | who moves it |
|---|---|---|
| waiting in the process | another request of this event loop holds the lock | its end |
| waiting for the lease | a request of another worker holds it | its release, or its expiry |
| cancelled while it acquires the lease | the update may have taken it | its end: released |
| held | the request runs; the lease is renewed every 3 s | the end of the request: released |
| released | the next one that asks gets it | nobody |

An update of the store goes on in its thread when the task that waits for it is cancelled. So a late
renewal extends only a lease that is still held, and a cancelled acquisition waits for its update.

A worker that dies holds the lease until it expires. A store that is away keeps it from being
renewed or released: the request goes on, and others wait until the lease expires.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from weakref import WeakValueDictionary

from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol.errors import InvalidRequest
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import SessionStore

UNLOCKED = frozenset({"ping", "logging/setLevel"})
"""Methods which never wait for the lock; extensions have others."""
LEASE = 10.0
"""Seconds until the lease of a worker that died expires."""
RENEWAL = 3.0
"""Seconds between two renewals of the lease, and a third of it after one that failed."""
PAUSES = (0.02, 0.05, 0.1, 0.25)
"""Seconds between attempts to acquire the lease of another worker; the last one repeats."""


def waits(method: str) -> bool:
    """Whether requests of a method wait for the lock."""
    return method not in UNLOCKED and method not in INSTALLED.unserialized


@asynccontextmanager
async def acquire(
    session_id: str, store: SessionStore, *, is_shared: bool
) -> AsyncIterator[Session]:
    """Hold the lock: the session as the previous holder left it; InvalidRequest if there is none.

    ``is_shared`` says that other workers may have requests of the same session.
    """
    # Two loops of one process share nothing but the lease.
    key = (id(asyncio.get_running_loop()), address(session_id))
    async with _locks.setdefault(key, asyncio.Lock()):
        if is_shared:
            async with _lease(session_id, store) as session:
                yield session
        else:
            yield _existing(await store.load(session_id))


@asynccontextmanager
async def _lease(session_id: str, store: SessionStore) -> AsyncIterator[Session]:
    token = secrets.token_urlsafe(9)
    for pause in chain(PAUSES, repeat(PAUSES[-1])):
        session = _existing(await _try(session_id, token, store))
        if session.lock.get("by") == token:
            break
        await asyncio.sleep(pause)
    renewal = asyncio.ensure_future(_renew(session_id, token, store))
    try:
        yield session
    finally:
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        await _release(session_id, token, store)


async def _try(session_id: str, token: str, store: SessionStore) -> Session | None:
    """Try to take the lease; if the caller is cancelled meanwhile, nobody holds it afterwards."""
    attempt = asyncio.ensure_future(_update_lease(session_id, token, store, "lease"))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        await asyncio.wait([attempt])
        if not attempt.cancelled() and attempt.exception() is None:
            await _release(session_id, token, store)
        raise


async def _release(session_id: str, token: str, store: SessionStore) -> None:
    try:
        await store.update(session_id, [Change("lock", "release", token)])
    except Exception:
        # The answer stands; other requests wait until the lease expires.
        log_repeated(logging.ERROR, "A session lock could not be released", exc_info=True)


async def _update_lease(
    session_id: str, token: str, store: SessionStore, action: str
) -> Session | None:
    now = store.now()
    change = Change("lock", action, token, {"now": now, "until": now + LEASE})
    return await store.update(session_id, [change])


async def _renew(session_id: str, token: str, store: SessionStore) -> None:
    pause = RENEWAL
    while True:
        await asyncio.sleep(pause)
        pause = RENEWAL
        try:
            await _update_lease(session_id, token, store, "renew")
        except StoreUnavailable:
            pause = RENEWAL / 3  # It is logged.
        except Exception:
            log_repeated(logging.ERROR, "A session lock could not be renewed", exc_info=True)


def _existing(session: Session | None) -> Session:
    if session is None:
        raise InvalidRequest("The session has ended")
    return session


_locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()
"""By event loop and session, for as long as they are held or waited for."""
