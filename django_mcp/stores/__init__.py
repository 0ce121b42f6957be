"""Stores of sessions and events: the site's own, and one module per backend."""

from __future__ import annotations

import functools  # ``cache`` is a module of this package.
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.stores.base import EventStore, SessionStore

KINDS: Mapping[str, type] = {"sessions": SessionStore, "events": EventStore}


@functools.cache
def sessions() -> SessionStore:
    """The site's session store, with the limits in its settings."""
    site = conf.get()
    store: SessionStore = _make(
        "sessions",
        idle_timeout=site.session_idle_timeout,
        limit_per_principal=site.max_sessions_per_principal,
    )
    return store


@functools.cache
def events() -> EventStore:
    """The site's event store, with the limits in its settings."""
    site = conf.get()
    store: EventStore = _make(
        "events",
        limit=site.max_events_per_stream,
        lifetime=site.event_lifetime,
        streams=site.max_streams_per_session,
        # Those of sessions which clients abandoned need not outlive the sessions.
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
    try:
        store = import_string(backend.path)(**{**bounds, **backend.options})
    except ImportError as error:
        raise ImproperlyConfigured(f"{where} names a BACKEND that is missing: {error}") from error
    except TypeError as error:
        raise ImproperlyConfigured(f"{where} has OPTIONS that do not fit: {error}") from error
    if not isinstance(store, KINDS[name]):
        raise ImproperlyConfigured(f"{where}: {backend.path} is no {KINDS[name].__name__}.")
    return store


def _clear(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "CACHES"}:
        sessions.cache_clear()
        events.cache_clear()


setting_changed.connect(_clear, dispatch_uid="django_mcp.stores")
