"""System checks: mistakes which would otherwise appear at the first call.

Each function checks one subject. ``docs/reference/checks.md`` explains every id; a released id
is never used for another check.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from types import CodeType
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.utils.module_loading import import_string

from django_mcp import conf, registry, stores
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.base import Authenticator
from django_mcp.components.tool import ToolComponent
from django_mcp.conf import Backend, Settings
from django_mcp.protocol.revisions import BY_VERSION, Structured
from django_mcp.protocol.schema.compiler import to_object_root
from django_mcp.registry import entries
from django_mcp.server.server import Server

TAG = "django_mcp"
DISTRIBUTION = "django-mcp-channels"
WSGI_ONLY = ("django.core", "django.contrib.staticfiles")
"""Apps whose ``runserver`` is a WSGI server, which cannot serve MCP."""

IN_MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"

Apps = Sequence[AppConfig] | None
Check = Callable[..., list[CheckMessage]]
Found = Iterator[CheckMessage]


def with_settings(find: Callable[[Settings], Found]) -> Check:
    """Return the check which passes the site's settings to ``find``, unless they are invalid."""

    def check(app_configs: Apps, **_: Any) -> list[CheckMessage]:
        try:
            site = conf.get()
        except ImproperlyConfigured:
            return []  # ``check_settings`` reports it.
        return list(find(site))

    return check


@register(TAG)
def check_names(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """No other distribution installs a package of this name."""
    return [
        Error(
            f"The distribution {name!r} also installs a package django_mcp, so that Python may "
            f"import it instead of {DISTRIBUTION}.",
            hint=f"Uninstall {name}, then install {DISTRIBUTION} again.",
            id="django_mcp.E001",
        )
        for name in sorted(_owners() - {DISTRIBUTION})
    ]


def _owners() -> set[str]:
    """Return the distributions which install ``django_mcp``.

    Their lists of files are searched as strings: ``packages_distributions`` parses them, which
    takes longer than all other checks together.
    """
    return {
        item.metadata["Name"].lower().replace("_", "-")
        for item in metadata.distributions()
        if any("django_mcp/__init__.py" in (item.read_text(name) or "") for name in FILE_LISTS)
    }


FILE_LISTS = ("RECORD", "SOURCES.txt")


@register(TAG)
def check_settings(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """DJANGO_MCP is valid."""
    try:
        conf.get()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="django_mcp.E002")]
    return []


@register(TAG)
@with_settings
def check_stores(site: Settings) -> Found:
    """The configured stores can be created."""
    for create in (stores.sessions, stores.events):
        try:
            create()
        except ImproperlyConfigured as error:
            yield Error(str(error), id="django_mcp.E003")


@register(TAG)
@with_settings
def check_frame_processors(site: Settings) -> Found:
    """The frame processors can be imported."""
    for path in site.frame_processors:
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f'DJANGO_MCP["FRAME_PROCESSORS"] names {path!r}, which cannot be imported: {error}',
                id="django_mcp.E004",
            )


@register(TAG)
@with_settings
def check_authenticators(site: Settings) -> Found:
    """Every server that will be mounted has authenticators.

    A site without ASGI_APPLICATION may use stdio alone. If it mounts a server without
    authenticators, mounting raises the same error.
    """
    for server in registry.servers():
        try:
            registry.authenticators(server)
        except ImproperlyConfigured as error:
            if getattr(settings, "ASGI_APPLICATION", None):
                yield Error(str(error), id="django_mcp.E005")
        except Exception as error:
            yield Error(
                f"An authenticator of the MCP server {server.name!r} cannot be created: {error}",
                hint="Use the dotted path of a class, or pass an instance in authenticators=[…].",
                id="django_mcp.E006",
            )


@register(TAG)
@with_settings
def check_paths(site: Settings) -> Found:
    """No two servers have the same path."""
    by_path: dict[str, Server] = {}
    for server in map(registry.configure, registry.servers()):
        first = by_path.setdefault(server.path.strip("/"), server)
        if first is not server:
            yield Error(
                f"The MCP servers {first.name!r} and {server.name!r} share the path "
                f"{server.path!r}, so that only one of them can be reached.",
                hint='Set another path on one of them: Server(…, path="/…").',
                id="django_mcp.E007",
            )


@register(TAG)
@with_settings
def check_channel_layer(site: Settings) -> Found:
    """The configured channel layer exists."""
    if site.channel_layer not in ("default", *_channel_layers()):
        yield Error(
            f'DJANGO_MCP["CHANNEL_LAYER"] is {site.channel_layer!r}, which is not a key '
            "of CHANNEL_LAYERS.",
            hint=f"CHANNEL_LAYERS has: {', '.join(_channel_layers()) or 'nothing'}.",
            id="django_mcp.E008",
        )


@register(TAG)
def check_runserver(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """``manage.py runserver`` can serve the registered components."""
    if not settings.DEBUG or not any(entries()):
        return []
    if get_commands()["runserver"] in WSGI_ONLY:
        return [
            Warning(
                "This runserver is a WSGI server: it responds with 404 at every MCP endpoint.",
                hint='Put "daphne" at the top of INSTALLED_APPS.',
                id="django_mcp.W001",
            )
        ]
    if not getattr(settings, "ASGI_APPLICATION", None):
        return [
            Warning(
                "ASGI_APPLICATION is not set, so that runserver has no application to serve.",
                hint='Set it to the dotted path of your application: "my_site.asgi.application".',
                id="django_mcp.W002",
            )
        ]
    return []


@register(TAG)
def check_descriptions(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """Tools have descriptions, by which a model chooses them."""
    return [
        Warning(
            f"The tool {entry.component.name!r} at {entry.component.source} has no description.",
            hint="Describe in its docstring what it does and when to use it.",
            id="django_mcp.W003",
        )
        for entry in entries()
        if isinstance(entry.component, ToolComponent) and not entry.component.description
    ]


@register(TAG)
def check_permissions(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """Permissions belong to installed apps. Only the database knows whether they exist."""
    labels = {config.label for config in apps.get_app_configs()}
    return [
        Warning(
            f"The {entry.kind} {entry.component.name!r} at {entry.component.source} needs the "
            f"permission {permission!r}, but no installed app has that label.",
            hint='Write "app_label.codename", for instance "auth.view_user".',
            id="django_mcp.W004",
        )
        for entry in entries()
        if isinstance(permission := entry.component.permission, str)
        and permission.partition(".")[0] not in labels
    ]


@register(TAG)
@with_settings
def check_output_schemas(site: Settings) -> Found:
    """Output schemas can be listed to clients of every served revision.

    Most schemas which are not for objects are wrapped in one for older clients, and need no
    warning.
    """
    if all(BY_VERSION[v].structured is not Structured.OBJECT for v in site.protocol_versions):
        return
    for entry in entries():
        schema = getattr(entry.component, "output_schema", None)
        if schema is not None and to_object_root(schema) is None:
            yield Warning(
                f"The output schema of the tool {entry.component.name!r} at "
                f"{entry.component.source} is not for an object and cannot be wrapped in one, "
                "so that it is not listed to clients of older revisions.",
                hint='Refer to "#/$defs/…" instead of "#", or describe an object.',
                id="django_mcp.W005",
            )


@register(TAG)
def check_input_requests(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """Handlers whose code requests input from the client declare it.

    An undeclared one works as well, unless it writes to the database before an input request:
    such writes are rolled back only where it is declared.
    """
    return [
        Warning(
            f"The {entry.kind} {entry.component.name!r} at {entry.component.source} seems to "
            "request input from the client, which it does not declare.",
            hint="Set requests_input=True.",
            id="django_mcp.W009",
        )
        for entry in entries()
        if not entry.component.requests_input and _requests_input(entry.component.handler)
    ]


INPUT_METHODS = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in ("ask", "elicit", "elicit_url", "create_message", "list_roots")
)
"""The methods of the client which request input."""

CALL_DEPTH = 4
"""How far functions are followed into the functions and methods which they call by name."""


def _requests_input(handler: Any, depth: int = CALL_DEPTH) -> bool:
    """Whether the code of a handler, or of a function that it calls, names an input method."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return False
    names = set(_names(code))
    if names & INPUT_METHODS:
        return True
    module = getattr(function, "__globals__", {})
    owner = type(getattr(handler, "__self__", None))
    methods = {name: inspect.getattr_static(owner, name, None) for name in names}
    called = [each for name in names for each in (module.get(name), methods[name])]
    return any(_requests_input(each, depth - 1) for each in called if inspect.isfunction(each))


def _names(code: CodeType) -> Iterator[str]:
    """Every name in the code, and in the code of the functions defined inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


# Deployment: ``manage.py check --deploy``.


@register(TAG, deploy=True)
@with_settings
def check_public_writes(site: Settings) -> Found:
    """Anonymous callers cannot call a tool that may write."""
    for server in registry.servers():
        if _is_public(server) and (names := list(_unguarded_writes(server))):
            yield Warning(
                f"Everyone may call tools of the MCP server {server.name!r} which are not declared "
                f"as read-only: {', '.join(names)}.",
                hint=(
                    "Set a permission or read_only=True on them, or remove "
                    "AnonymousAuthentication from the authenticators."
                ),
                id="django_mcp.W006",
            )


def _is_public(server: Server) -> bool:
    return any(isinstance(item, AnonymousAuthentication) for item in _authenticators(server))


def _authenticators(server: Server) -> tuple[Authenticator, ...]:
    """Return its authenticators; none where ``check_authenticators`` reports an error."""
    try:
        return registry.authenticators(server)
    except Exception:
        return ()


def _unguarded_writes(server: Server) -> Iterator[str]:
    """Return the names of tools which every caller sees and which may write, as is the default."""
    for tool in server.components.of_kind(ToolComponent.kind):
        is_read_only = (tool.annotations or {}).get("readOnlyHint", False)
        if not (is_read_only or tool.permission or tool.scopes):
            yield tool.name


@register(TAG, deploy=True)
@with_settings
def check_workers(site: Settings) -> Found:
    """A channel layer connects the workers."""
    layer = _channel_layers().get(site.channel_layer, {})
    if layer.get("BACKEND", IN_MEMORY_LAYER) == IN_MEMORY_LAYER:
        yield Warning(
            f"No channel layer {site.channel_layer!r} connects the processes, so that clients do "
            "not receive notifications from other workers.",
            hint=(
                "Configure one in CHANNEL_LAYERS, channels_redis for instance, or silence this "
                "check if the site has a single process."
            ),
            id="django_mcp.W007",
        )


@register(TAG, deploy=True)
@with_settings
def check_stores_in_memory(site: Settings) -> Found:
    """The stores are shared by all workers."""
    for name, backend in site.stores.items():
        if _is_in_one_process(backend):
            yield Warning(
                f'DJANGO_MCP["STORES"]["{name}"] stores {name} in the memory of one process: '
                "other workers cannot read them, and a restart clears them.",
                hint="Use the database, which is the default, or a cache that all workers share.",
                id="django_mcp.W008",
            )


def _is_in_one_process(backend: Backend) -> bool:
    if backend.path.startswith("django_mcp.stores.cache."):
        cache = settings.CACHES.get(backend.options.get("alias", "default"), {})
        return cache.get("BACKEND") in LOCAL_CACHES
    return backend.path.startswith("django_mcp.stores.memory.")


LOCAL_CACHES = (
    "django.core.cache.backends.dummy.DummyCache",
    "django.core.cache.backends.locmem.LocMemCache",
)


def _channel_layers() -> dict[str, dict[str, Any]]:
    return getattr(settings, "CHANNEL_LAYERS", {})
