"""``DJANGO_MCP`` as one frozen value: read in this place, checked as a whole.

A key that is unknown or does not fit is an ImproperlyConfigured which says what would fit.
It knows what may be configured, and nothing of what is made from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_mcp.protocol import origins
from django_mcp.protocol.revisions import BY_VERSION

Check = Callable[[Any], Any]
"""Returns the value to keep; raises ValueError, whose text completes "it must be …"."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One entry of ``STORES``: the class, by its dotted path, and what it is made with."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)


DEFAULT_STORES = {
    "sessions": Backend("django_mcp.stores.database.DatabaseSessionStore"),
    "events": Backend("django_mcp.stores.database.DatabaseEventStore"),
}


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError('a path that begins with a slash, such as "/mcp"')
    return value


def _dotted_path(value: Any) -> str:
    if not isinstance(value, str) or not all(map(str.isidentifier, value.split("."))):
        raise ValueError('a dotted path, such as "shop.mcp.current_tenant"')
    if "." not in value:
        raise ValueError(f"a dotted path: which module has {value!r}?")
    return value


def _origin(value: Any) -> str:
    if not isinstance(value, str) or not origins.is_pattern(value):
        raise ValueError('origins such as "https://app.example.com" or "https://*.example.com"')
    return value


def _version(value: Any) -> str:
    if not isinstance(value, str) or value not in BY_VERSION:
        raise ValueError(f"some of {', '.join(map(repr, BY_VERSION))}")
    return value


def _at_least(least: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"a whole number of at least {least}")
        return value

    return check


def _seconds(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value <= 0 or not isfinite(value):
        raise ValueError("a number of seconds greater than 0")
    return float(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def _one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(" or ".join(map(repr, choices)))
        return str(value)

    return check


def _optional(check: Check) -> Check:
    def check_unless_none(value: Any) -> Any:
        try:
            return None if value is None else check(value)
        except ValueError as misfit:
            raise ValueError(f"None or {misfit}") from None

    return check_unless_none


def _several(check: Check) -> Check:
    def check_each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("a list or a tuple")
        try:
            return tuple(map(check, value))
        except ValueError as misfit:
            raise ValueError(f"a list of which each is {misfit}") from None

    return check_each


def _versions(value: Any) -> tuple[str, ...]:
    """The versions, oldest first, so that the last one is the newest that is served."""
    named = _several(_version)(value)
    if not named:
        raise ValueError(f"a list of at least one of {', '.join(map(repr, BY_VERSION))}")
    return tuple(version for version in BY_VERSION if version in named)


def _stores(value: Any) -> Mapping[str, Backend]:
    if not isinstance(value, Mapping) or not set(value) <= set(DEFAULT_STORES):
        raise ValueError(f"a dict with some of the keys {', '.join(map(repr, DEFAULT_STORES))}")
    named = {name: _backend(entry) for name, entry in value.items()}
    return MappingProxyType({**DEFAULT_STORES, **named})


def _backend(value: Any) -> Backend:
    form = 'a dict of entries such as {"BACKEND": "dotted.path", "OPTIONS": {…}}'
    if not isinstance(value, Mapping) or not {"BACKEND"} <= set(value) <= {"BACKEND", "OPTIONS"}:
        raise ValueError(form)
    options = value.get("OPTIONS", {})
    if not isinstance(options, Mapping):
        raise ValueError(form)
    return Backend(_dotted_path(value["BACKEND"]), MappingProxyType(dict(options)))


def _key(check: Check, default: Any = MISSING) -> Any:
    """A field whose value ``check`` lets through; without a default, ``_read`` derives one."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a site may decide. Each field is a key of ``DJANGO_MCP``, there in upper case."""

    # The default server, and who may reach it.

    name: str = _key(_optional(_text))
    """What the default server calls itself; by default the package that ROOT_URLCONF is in."""

    title: str | None = _key(_optional(_text), None)
    """The default server's name for people."""

    version: str = _key(_text, "1.0")
    """The version of the default server: of the site, that is, not of the protocol."""

    instructions: str | None = _key(_optional(_text), None)
    """What a model should know before it uses the default server."""

    path: str = _key(_path, "/mcp")
    """Where the default server is mounted."""

    authenticators: tuple[str, ...] | None = _key(_optional(_several(_dotted_path)), None)
    """Who tells who is calling, by dotted path. No default, since silence must not mean open:
    a server which names none and finds none here is refused when it is mounted."""

    allowed_origins: tuple[str, ...] = _key(_several(_origin), ())
    """Origins whose pages may call besides those of ALLOWED_HOSTS."""

    # The conversation.

    protocol_versions: tuple[str, ...] = _key(_versions, tuple(BY_VERSION))
    """The revisions that are served, oldest first. All of them: old clients are everywhere."""

    frame_processors: tuple[str, ...] = _key(_several(_dotted_path), ())
    """Callables which bring assigns to each message, as context processors do to a template."""

    page_size: int = _key(_at_least(1), 50)
    """Entries on one page of a list."""

    cache_ttl_ms: int = _key(_at_least(0), 0)
    """How long clients may keep what they listed or read. 0: only the author of a component
    knows how long it stays true."""

    validate_output: Literal["off", "strict"] = _key(_optional(_one_of("off", "strict")))
    """Whether what the server itself sends is checked against the revision: by default under
    DEBUG, for it costs time and tells its author alone."""

    log_rate_limit: int | None = _key(_optional(_at_least(1)), None)
    """Log messages per second to one client; the rest is dropped. None: nothing is."""

    notify_lists_on_initialize: bool = _key(_switch, True)
    """Whether each new session is told once that the lists of tools, resources and prompts have
    changed: clients which list them before they are ready then list them again."""

    # Bounds: what a client may occupy.

    max_body_size: int = _key(_at_least(1), 4 * 1024 * 1024)
    """Bytes of one message. An image of 3 MB still fits, base64 makes it a third longer."""

    max_in_flight: int = _key(_at_least(1), 100)
    """Requests of one session, or of one stdio client, which are being answered at once."""

    max_sessions_per_principal: int = _key(_at_least(1), 1000)
    """Live sessions of one caller. The public is one caller, too."""

    max_streams_per_session: int = _key(_at_least(1), 128)
    """Streams of one session whose events are kept: room for all requests in flight and more."""

    max_listen_streams: int = _key(_at_least(1), 1000)
    """Listen streams of one caller in one process, in revisions which have no sessions."""

    max_subscriptions: int = _key(_at_least(1), 1000)
    """Resources of which one session, or one listen stream, wants to hear."""

    max_events_per_stream: int = _key(_at_least(1), 1000)
    """Events of one stream which are kept for a client that lost its connection."""

    # Time, in seconds.

    session_idle_timeout: float = _key(_seconds, 30 * 60.0)
    """How long a session lives that nobody uses; an open stream is use."""

    event_lifetime: float = _key(_seconds, 10 * 60.0)
    """How long a client may take to come back for events it missed."""

    client_response_timeout: float = _key(_seconds, 5 * 60.0)
    """How long a question to the client may stay unanswered: a person may have to read it."""

    handler_timeout: float | None = _key(_optional(_seconds), 15 * 60.0)
    """How long one call may take at most, questions included; None for no bound."""

    request_state_lifetime: float = _key(_seconds, 10 * 60.0)
    """How long a client may take to retry a call with the answers it was asked for."""

    request_state_single_use: bool = _key(_switch, False)
    """Whether such a call can be retried once only. It takes a cache that all workers share."""

    sse_ping_interval: float | None = _key(_optional(_seconds), 15.0)
    """Between two signs of life on a silent stream: proxies cut after 30 or 60. None: no sign."""

    # Transports.

    http_sse: bool = _key(_switch, False)
    """Whether clients of the first revision, with its two HTTP endpoints, are served as well.
    Off: it is deprecated, and its connections cannot be resumed."""

    # Where things are kept, and where they run.

    stores: Mapping[str, Backend] = field(
        default_factory=lambda: MappingProxyType(DEFAULT_STORES), metadata={"check": _stores}
    )
    """The backends of ``sessions`` and ``events``. The database, so that several workers need
    no configuration."""

    channel_layer: str = _key(_text, "default")
    """The alias of the channel layer by which workers tell each other what happened."""

    sync_execution: Literal["threads", "thread_sensitive"] = _key(
        _one_of("threads", "thread_sensitive"), "threads"
    )
    """Whether synchronous handlers run side by side, or all on the one thread which Django
    reserves for code that must not change threads, as a test's transaction demands."""

    sync_thread_pool_size: int = _key(_at_least(1), min(32, (os.cpu_count() or 1) + 4))
    """Synchronous handlers of this process which run at once; asyncio's own rule of thumb."""


@cache
def get() -> Settings:
    """The site's settings; raises ImproperlyConfigured, with the remedy, for a wrong one."""
    given = getattr(django_settings, "DJANGO_MCP", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"DJANGO_MCP is {given!r}; it must be a dict.")
    values = {KEYS[key].name: _checked(key, value) for key, value in map(_known, given.items())}
    derived = {
        "name": _site_name(),
        "validate_output": "strict" if django_settings.DEBUG else "off",
    }
    chosen = {name: values.get(name) or default for name, default in derived.items()}
    return Settings(**{**values, **chosen})


def _known(item: tuple[Any, Any]) -> tuple[str, Any]:
    key, value = item
    if key not in KEYS:
        nearest = get_close_matches(str(key).upper(), KEYS, n=1)
        remedy = f"Did you mean {nearest[0]!r}?" if nearest else f"There are: {', '.join(KEYS)}."
        raise ImproperlyConfigured(f"DJANGO_MCP has no key {key!r}. {remedy}")
    return key, value


def _checked(key: str, value: Any) -> Any:
    try:
        return KEYS[key].metadata["check"](value)
    except ValueError as misfit:
        raise ImproperlyConfigured(
            f'DJANGO_MCP["{key}"] is {value!r}; it must be {misfit}.'
        ) from None


def _site_name() -> str:
    """The package of the site, which its ROOT_URLCONF gives away."""
    urlconf: str | None = getattr(django_settings, "ROOT_URLCONF", None)
    return urlconf.partition(".")[0] if urlconf else "django"


KEYS: Mapping[str, Field[Any]] = {entry.name.upper(): entry for entry in fields(Settings)}
"""The keys of ``DJANGO_MCP``, in the order in which they are documented."""

READ = frozenset({"DJANGO_MCP", "DEBUG", "ROOT_URLCONF"})
"""The settings of Django which ``get`` reads."""


def _forget(*, setting: str, **_: Any) -> None:
    if setting in READ:
        get.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.conf")
