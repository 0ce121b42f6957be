"""The settings in ``DJANGO_MCP``: names, defaults and validation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from ipaddress import ip_address
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_mcp.core.protocol import origins
from django_mcp.core.protocol.headers import SCOPE_EXPECTED, is_scope
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.protocol.texts import similar

Check = Callable[[Any], Any]
"""Returns the value to use. Raises ValueError; its text completes "it must be …"."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One entry of ``STORES``: the dotted path of the class, and its keyword arguments."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, where: str, **bounds: Any) -> Any:
        """Create the object; raises ImproperlyConfigured, which names the setting ``where``."""
        try:
            kind = import_string(self.path)
        except ImportError as error:
            raise ImproperlyConfigured(_missing_backend(where, error)) from error
        except Exception as error:  # Its module is code of the site.
            text = f"{where} names a BACKEND that cannot be imported: {type(error).__name__}"
            raise ImproperlyConfigured(f"{text}: {error}") from error
        try:
            return kind(**{**bounds, **self.options})
        except ImportError as error:
            raise ImproperlyConfigured(_missing_backend(where, error)) from error
        except TypeError as error:
            raise ImproperlyConfigured(f"{where} has OPTIONS that do not fit: {error}") from error


def _missing_backend(where: str, error: ImportError) -> str:
    return f"{where} names a BACKEND that is missing: {error}"


LOCAL_HOSTS = (".localhost", "127.0.0.1", "[::1]")

DEFAULT_STORES = {
    "sessions": Backend("django_mcp.stores.database.DatabaseSessionStore"),
    "events": Backend("django_mcp.stores.database.DatabaseEventStore"),
}


def _expect(expected: str, is_valid: Callable[[Any], bool]) -> Check:
    def check(value: Any) -> Any:
        if not is_valid(value):
            raise ValueError(expected)
        return value

    return check


def _is_string(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/")


def _is_origin(value: Any) -> bool:
    return isinstance(value, str) and origins.is_pattern(value)


def _is_base_url(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return value.startswith(("https://", "http://")) and not value.endswith("/")


def _is_version(value: Any) -> bool:
    return isinstance(value, str) and value in BY_VERSION


_string = _expect("a non-empty string", _is_string)
_path = _expect('a path that starts with a slash, such as "/mcp"', _is_path)
_origin = _expect(
    'origins such as "https://app.example.com" or "https://*.example.com"', _is_origin
)
_base_url = _expect('a URL without a slash at its end, such as "https://example.org"', _is_base_url)
_scope = _expect(SCOPE_EXPECTED, is_scope)
_version = _expect(f"some of {', '.join(map(repr, BY_VERSION))}", _is_version)
_error_codes = _expect('"sketch" or "draft"', lambda value: value in ("sketch", "draft"))
_boolean = _expect("True or False", lambda value: isinstance(value, bool))


def _host(value: Any) -> str:
    text = value.lower() if isinstance(value, str) else ""
    if not text or set(text) & {"/", "@", "[", "*", " "} or (":" in text and not _is_address(text)):
        raise ValueError('a host without scheme and port, such as "hooks.internal" or "::1"')
    return text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _dotted_path(value: Any) -> str:
    if not isinstance(value, str) or not all(map(str.isidentifier, value.split("."))):
        raise ValueError('a dotted path, such as "shop.mcp.current_tenant"')
    if "." not in value:
        raise ValueError(f"a dotted path with the module of {value!r}")
    return value


def _folder(value: Any) -> Path:
    if not isinstance(value, str | os.PathLike) or not Path(value).is_absolute():
        raise ValueError('the absolute path of a folder, such as BASE_DIR / "skills"')
    return Path(value)


def _all_or(check: Check) -> Check:
    def check_unless_all(value: Any) -> tuple[Any, ...] | str:
        try:
            return "all" if value == "all" else _several(check)(value)
        except ValueError as error:
            raise ValueError(f'"all" or {error}') from None

    return check_unless_all


def _at_least(least: int) -> Check:
    def is_valid(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return _expect(f"a whole number of at least {least}", is_valid)


def _seconds(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value <= 0 or not isfinite(value):
        raise ValueError("a number of seconds greater than 0")
    return float(value)


def _optional(check: Check) -> Check:
    def check_unless_none(value: Any) -> Any:
        try:
            return None if value is None else check(value)
        except ValueError as error:
            raise ValueError(f"None or {error}") from None

    return check_unless_none


def _several(check: Check) -> Check:
    def check_each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("a list or a tuple")
        try:
            return tuple(map(check, value))
        except ValueError as error:
            raise ValueError(f"a list of which each is {error}") from None

    return check_each


def _versions(value: Any) -> tuple[str, ...]:
    """Return the versions, oldest first: the last one is the newest that is served."""
    versions = _several(_version)(value)
    if not versions:
        raise ValueError(f"a list of at least one of {', '.join(map(repr, BY_VERSION))}")
    return tuple(version for version in BY_VERSION if version in versions)


def _hierarchy(value: Any) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError('a dict such as {"tickets": ["tickets:read", "tickets:write"]}')
    included = _several(_scope)
    return MappingProxyType({name: included(scopes) for name, scopes in value.items()})


def _paths_by_path(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError('a dict such as {"shop.money.Money": "shop.mcp.money_to_json"}')
    checked = {_dotted_path(name): _dotted_path(path) for name, path in value.items()}
    return MappingProxyType(checked)


def _backend(value: Any) -> Backend:
    is_entry = isinstance(value, Mapping) and {"BACKEND"} <= set(value) <= {"BACKEND", "OPTIONS"}
    options = value.get("OPTIONS", {}) if is_entry else None
    if not isinstance(options, Mapping):
        raise ValueError('a dict of entries such as {"BACKEND": "dotted.path", "OPTIONS": {…}}')
    return Backend(_dotted_path(value["BACKEND"]), MappingProxyType(dict(options)))


def _runner(value: Any) -> Backend:
    try:
        return _backend(value)
    except ValueError as error:
        raise ValueError('a dict such as {"BACKEND": "dotted.path", "OPTIONS": {…}}') from error


def _stores(value: Any) -> Mapping[str, Backend]:
    if not isinstance(value, Mapping) or not set(value) <= set(DEFAULT_STORES):
        raise ValueError(f"a dict with some of the keys {', '.join(map(repr, DEFAULT_STORES))}")
    named = {name: _backend(entry) for name, entry in value.items()}
    return MappingProxyType({**DEFAULT_STORES, **named})


def _key(check: Check, default: Any = MISSING) -> Any:
    """Return a field with its check; without a default, ``get`` computes one."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a site. Each field is a key of ``DJANGO_MCP``, there in upper case."""

    # The default server, and access to it.

    name: str = _key(_optional(_string))
    """The name of the default server; by default the package that ROOT_URLCONF is in."""

    title: str | None = _key(_optional(_string), None)
    """The display name of the default server."""

    version: str = _key(_string, "1.0")
    """The version of the default server (not of the protocol)."""

    instructions: str | None = _key(_optional(_string), None)
    """Instructions for the model on how to use the default server."""

    path: str = _key(_path, "/mcp")
    """The path of the default server."""

    authenticators: tuple[str, ...] | None = _key(_optional(_several(_dotted_path)), None)
    """Dotted paths of the authenticators of servers without their own. It has no default, so that a
    server is not open by accident: a server without authenticators is not mounted."""

    allowed_origins: tuple[str, ...] = _key(_several(_origin), ())
    """Origins of web pages that may send requests, besides the hosts in ALLOWED_HOSTS."""

    base_url: str | None = _key(_optional(_base_url), None)
    """The public URL of the site, such as "https://example.org", for OAuth metadata. None:
    the URL of each request."""

    audiences: tuple[str, ...] = _key(_several(_string), ())
    """Audiences of access tokens that are accepted besides the URL of the endpoint."""

    scopes: tuple[str, ...] = _key(_several(_scope), ())
    """Scopes that every access token needs, on servers without their own."""

    scope_hierarchy: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"check": _hierarchy}
    )
    """The scopes that a scope includes: ``{"tickets": ["tickets:read", "tickets:write"]}``."""

    token_cache_ttl: float | None = _key(_optional(_seconds), 5.0)
    """How many seconds a worker accepts a token again without a query. A revocation takes effect
    at once on all workers that a channel layer connects. None: every request queries."""

    tokens_end_with_password: bool = _key(_boolean, True)
    """Whether a new password ends the access tokens that users made for themselves, and their OAuth
    grants: a user who changes it may not trust those any more. Tokens that somebody else, or a
    command, made for a user stay valid."""

    # The protocol.

    protocol_versions: tuple[str, ...] = _key(_versions, tuple(BY_VERSION))
    """The served revisions, oldest first. All by default: many clients are old."""

    frame_processors: tuple[str, ...] = _key(_several(_dotted_path), ())
    """Dotted paths of functions. Their results are added to the assigns of each Frame, as context
    processors add to a template's context."""

    serializers: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"check": _paths_by_path}
    )
    """Dotted paths of functions that serialize values, by the dotted path of their class."""

    # Django around a handler.

    django_middleware: tuple[str, ...] | Literal["all"] = _key(_all_or(_dotted_path), ())
    """Dotted paths of Django middleware that runs around HTTP requests, outermost first; "all":
    all of MIDDLEWARE. None by default: most middleware is for pages."""

    rest_auth: str | None = _key(_optional(_dotted_path), None)
    """The dotted path of a function of the Frame that returns ``request.auth`` of REST views for
    callers without a token of the API, where ``rest_tools`` has no ``auth``. None: views that may
    read it are not tools for these callers."""

    first_middleware: tuple[str, ...] = _key(_several(_dotted_path), ())
    """Dotted paths of Django middleware that runs before the authenticators, outermost first, such
    as middleware that chooses the schema of a tenant."""

    middleware_changes_user: bool = _key(_boolean, False)
    """Whether the user that a middleware sets is the caller. Otherwise, a user other than the
    authenticated one is an error."""

    view_middleware: tuple[str, ...] = _key(_several(_dotted_path), ())
    """Dotted paths of Django middleware that runs around each view that a tool calls, outermost
    first, on servers without their own."""

    tenant: str | None = _key(_optional(_dotted_path), None)
    """The dotted path of a function that takes the HttpRequest, and returns the name of its tenant
    or None. Callers of two tenants are two callers, whatever their primary keys are."""

    # Limits per client.

    max_body_size: int = _key(_at_least(1), 4 * 1024 * 1024)
    """Bytes of one message: room for an image of 3 MB in base64."""

    max_result_size: int = _key(_at_least(1), 4 * 1024 * 1024)
    """Bytes of the texts and files in one result. A larger one is an error that the model reads:
    nobody gains by sending a table of 40 MB to it."""

    max_in_flight: int = _key(_at_least(1), 100)
    """Concurrent requests of one session, of one stdio client, and of one principal in one
    process; anonymous callers are counted by IP address. Further ones are rejected (429)."""

    # Files of the chat.

    upload_hosts: tuple[str, ...] = _key(_several(_host), ())
    """Hosts of files that a client names by their URL, and that the site fetches, such as
    ".oaiusercontent.com" for it and its subdomains. None by default."""

    max_upload_size: int = _key(_at_least(1), 10 * 1024 * 1024)
    """Bytes of the files of one argument, before they are read to their end."""

    upload_timeout: float = _key(_seconds, 30.0)
    """How long fetching the files of one argument may take."""

    # Time, in seconds.

    session_idle_timeout: float = _key(_seconds, 30 * 60.0)
    """Inactivity before a session expires. An open stream counts as activity."""

    handler_timeout: float | None = _key(_optional(_seconds), 15 * 60.0)
    """Time limit of one call, input requests included; None for no limit."""

    shutdown_timeout: float = _key(_seconds, 20.0)
    """How long running calls may go on when the process is asked to stop. gunicorn and Kubernetes
    kill it after 30 seconds."""

    request_state_single_use: bool = _key(_boolean, False)
    """Whether such a call can be retried only once. It requires a cache shared by all workers."""

    approval_lifetime: float = _key(_seconds, 7 * 24 * 3600.0)
    """How long a call waits for its approval, and an approved call for its run."""

    approval_retention: float | None = _key(_optional(_seconds), 90 * 24 * 3600.0)
    """How long approvals are stored after they were decided or have expired: long enough for a
    question about the last quarter. None: for ever."""

    call_log_retention: float | None = _key(_optional(_seconds), 90 * 24 * 3600.0)
    """How long the rows of ``django_mcp.contrib.call_log`` are stored. None: for ever."""

    sse_ping_interval: float | None = _key(_optional(_seconds), 15.0)
    """Interval of keepalive comments on an idle stream: proxies disconnect after 30 or 60.
    None: no comments."""

    skills_dirs: tuple[Path, ...] = _key(_several(_folder), ())
    """Folders that ``django_mcp.contrib.skills`` searches for skills, before the apps."""

    # Events.

    events_retention: float = _key(_seconds, 24 * 3600.0)
    """How long ``django_mcp.contrib.events`` stores events. Clients that come back later are told
    that events are missing."""

    events_max_subscriptions: int = _key(_at_least(1), 100)
    """Webhooks of one caller."""

    events_error_codes: str = _key(_error_codes, "sketch")
    """The codes of errors of events: "sketch" for the codes that clients know today, ChatGPT among
    them; "draft" for the codes of SEP-3415."""

    # Tasks.

    task_runner: Backend = _key(
        _runner, Backend("django_mcp.tasks.runners.in_process.InProcessRunner")
    )
    """Where tasks run: the dotted path of the runner and its options. By default in the process
    that received the call."""

    task_ttl: float = _key(_seconds, 60 * 60.0)
    """Seconds from the creation of a task until it and its result are deleted, unless the client
    requests another time."""

    # Transports.

    server_cards: tuple[str, ...] | Literal["all"] = _key(_all_or(_string), "all")
    """The names of servers. Their cards and entries in the AI catalogue are published, for
    everybody; "all": all servers with a description. An empty list publishes nothing."""

    http_sse: bool = _key(_boolean, False)
    """Whether the HTTP+SSE transport of the first revision is served as well. Off: it is
    deprecated, and its connections cannot be resumed."""

    wsgi_streams: int = _key(_at_least(0), 0)
    """Streams that a process of a WSGI server keeps open, besides streams of calls: the GET streams
    of sessions, and subscriptions/listen. None by default, because each occupies a thread of the
    server: with as many of them as threads, nobody else is answered."""

    # Stores, channel layer and threads.

    stores: Mapping[str, Backend] = field(
        default_factory=lambda: MappingProxyType(DEFAULT_STORES), metadata={"check": _stores}
    )
    """The backends of ``sessions`` and ``events``. By default the database, which all workers
    share without further configuration."""

    store_timeout: float = _key(_seconds, 5.0)
    """How long a request waits for a store. It is then answered with 503 and Retry-After: the
    server of the store is away, or hangs."""

    channel_layer: str = _key(_string, "default")
    """The alias of the channel layer that connects the workers."""

    private_hosts: tuple[str, ...] = _key(_several(_host), ())
    """Hosts with private addresses that may receive requests when a client names their URL. None by
    default: a client must not reach hosts that only the site can reach."""

    sync_thread_pool_size: int = _key(_at_least(1), min(32, (os.cpu_count() or 1) + 4))
    """Threads for synchronous handlers of one process; the default of asyncio's own pool. Hooks
    have as many of their own, and so have the ORM calls of asynchronous code, and the stores."""


@cache
def get() -> Settings:
    """Return the site's settings; raises ImproperlyConfigured, with the remedy."""
    given = getattr(django_settings, "DJANGO_MCP", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"DJANGO_MCP is {given!r}; it must be a dict.")
    values = {_field(key).name: _checked(key, value) for key, value in given.items()}
    urlconf = getattr(django_settings, "ROOT_URLCONF", None) or "django"
    values["name"] = values.get("name") or urlconf.partition(".")[0]
    site = Settings(**values)
    return site


def _field(key: Any) -> Field[Any]:
    if key not in KEYS:
        near = similar(str(key).upper(), KEYS)
        remedy = f"Did you mean {near!r}?" if near else f"There are: {', '.join(KEYS)}."
        raise ImproperlyConfigured(f"DJANGO_MCP has no key {key!r}. {remedy}")
    return KEYS[key]


def _checked(key: str, value: Any) -> Any:
    try:
        return KEYS[key].metadata["check"](value)
    except ValueError as error:
        message = f'DJANGO_MCP["{key}"] is {value!r}; it must be {error}.'
        raise ImproperlyConfigured(message) from None


KEYS: Mapping[str, Field[Any]] = {entry.name.upper(): entry for entry in fields(Settings)}
"""The keys of ``DJANGO_MCP``, in the order of their documentation."""

READ = frozenset({"DJANGO_MCP", "DEBUG", "ROOT_URLCONF"})
"""The Django settings that ``get`` reads."""


def allowed_hosts() -> tuple[str, ...]:
    """Return ALLOWED_HOSTS, or the hosts that Django serves under DEBUG if it is empty."""
    default = LOCAL_HOSTS if django_settings.DEBUG else ()
    return tuple(django_settings.ALLOWED_HOSTS) or default


class ProxySettings(NamedTuple):
    """Django's settings for sites behind a proxy."""

    secure_header: tuple[bytes, str] | None
    """The header that says whether the client uses https, in lower case, and its value then."""
    uses_forwarded_host: bool
    script_name: str | None


@cache
def proxy() -> ProxySettings:
    """Return them read once: Django's own object takes half a microsecond for each."""
    header = None
    if trusted := django_settings.SECURE_PROXY_SSL_HEADER:
        name = trusted[0].removeprefix("HTTP_").replace("_", "-").lower()
        header = name.encode(), trusted[1]
    uses_host = django_settings.USE_X_FORWARDED_HOST
    return ProxySettings(header, uses_host, django_settings.FORCE_SCRIPT_NAME)


READ_OF_PROXY = frozenset({"SECURE_PROXY_SSL_HEADER", "USE_X_FORWARDED_HOST", "FORCE_SCRIPT_NAME"})
"""The Django settings which ``proxy`` reads."""


def _clear_cache(*, setting: str, **_: Any) -> None:
    if setting in READ:
        get.cache_clear()
    if setting in READ_OF_PROXY:
        proxy.cache_clear()


setting_changed.connect(_clear_cache, dispatch_uid="django_mcp.conf")
