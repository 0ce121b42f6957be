"""Stores of sessions and events: the site's own, and one module per backend."""

from __future__ import annotations

import functools  # ``cache`` is a module of this package.
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp import conf
from django_mcp.stores.base import EventStore, SessionStore

SESSIONS_PER_PRINCIPAL = 1000
"""Sessions of one caller: far more than a person opens, and bounded for one that opens sessions
without end. The anonymous callers behind one proxy may count as one caller."""
EVENTS_PER_STREAM = 1000
"""Events that a client can miss while it is away, and still read all of them."""
EVENT_LIFETIME = 10 * 60.0
"""Seconds until a client comes back, if it does."""
STREAMS_PER_SESSION = 128
"""More than MAX_IN_FLIGHT, because each request that runs may have a stream."""

KINDS: Mapping[str, type] = {"sessions": SessionStore, "events": EventStore}


@functools.cache
def sessions() -> SessionStore:
    """The site's session store; OPTIONS override its limits."""
    site = conf.get()
    store: SessionStore = _make(
        "sessions",
        idle_timeout=site.session_idle_timeout,
        limit_per_principal=SESSIONS_PER_PRINCIPAL,
    )
    return store


@functools.cache
def events() -> EventStore:
    """The site's event store; OPTIONS override its limits."""
    site = conf.get()
    store: EventStore = _make(
        "events",
        limit=EVENTS_PER_STREAM,
        lifetime=EVENT_LIFETIME,
        # One more, which says which GET stream is active.
        streams=STREAMS_PER_SESSION + 1,
        # Streams of abandoned sessions need not outlive the sessions.
        abandoned_after=site.session_idle_timeout * 1.1,
    )
    return store


async def prune_sessions(pause: float = 0.0) -> int:
    """Delete expired sessions, with pauses between steps; return their number."""
    return await sessions().prune(pause=pause)


async def prune_events(pause: float = 0.0) -> int:
    """Delete expired events and streams, with pauses between steps; return their number."""
    return await events().prune(pause=pause)


async def claim(name: str, seconds: float) -> bool:
    """Whether this worker is the only one that claims ``name`` within ``seconds``."""
    return await events().claim(name, seconds)


def _make(name: str, **bounds: Any) -> Any:
    """The backend in ``STORES``; raises ImproperlyConfigured."""
    backend = conf.get().stores[name]
    where = f'DJANGO_MCP["STORES"]["{name}"]'
    store = backend.make(where, **bounds)
    if not isinstance(store, KINDS[name]):
        raise ImproperlyConfigured(f"{where}: {backend.path} is no {KINDS[name].__name__}.")
    return store


def _clear(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "CACHES"}:
        sessions.cache_clear()
        events.cache_clear()


setting_changed.connect(_clear, dispatch_uid="django_mcp.stores")
