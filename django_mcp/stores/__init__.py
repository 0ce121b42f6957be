"""Where things are kept; each file serves sessions and events."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_mcp import conf
from django_mcp.stores.base import EventStore, SessionStore

Store = TypeVar("Store", SessionStore, EventStore)


@cache
def sessions() -> SessionStore:
    """The site's store of sessions, with the bounds that its settings name."""
    site = conf.get()
    return _make(
        SessionStore,
        "sessions",
        idle_timeout=site.session_idle_timeout,
        limit_per_principal=site.max_sessions_per_principal,
    )


@cache
def events() -> EventStore:
    """The site's store of events, with the bounds that its settings name."""
    site = conf.get()
    return _make(
        EventStore,
        "events",
        limit=site.max_events_per_stream,
        lifetime=site.event_lifetime,
        streams=site.max_streams_per_session,
    )


def _make(kind: type[Store], name: str, **bounds: Any) -> Store:
    """The backend which ``STORES`` names; ImproperlyConfigured when none can be made of it."""
    backend = conf.get().stores[name]
    where = f'DJANGO_MCP["STORES"]["{name}"]'
    try:
        made = import_string(backend.path)(**{**bounds, **backend.options})
    except ImportError as error:
        raise ImproperlyConfigured(f"{where} names a BACKEND which is not there: {error}") from error
    except TypeError as error:
        raise ImproperlyConfigured(f"{where} has OPTIONS that do not fit: {error}") from error
    if not isinstance(made, kind):
        raise ImproperlyConfigured(f"{where}: {backend.path} is no {kind.__name__}.")
    return made


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"DJANGO_MCP", "CACHES"}:
        sessions.cache_clear()
        events.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.stores")
