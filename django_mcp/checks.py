"""System checks: what a site would otherwise learn from its first caller.

Each function looks at one subject. ``docs/reference/checks.md`` explains every id; an id which
was released is never given to something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
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
"""Apps whose ``runserver`` speaks WSGI, by which MCP cannot be served."""

IN_MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"

Apps = Sequence[AppConfig] | None
Check = Callable[..., list[CheckMessage]]
Found = Iterator[CheckMessage]


def of_site(look: Callable[[Settings], Found]) -> Check:
    """The check which shows the site's settings to ``look``, unless they cannot be read."""

    def check(app_configs: Apps, **_: Any) -> list[CheckMessage]:
        try:
            site = conf.get()
        except ImproperlyConfigured:
            return []  # ``check_settings`` says why.
        return list(look(site))

    return check


@register(TAG)
def check_names(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """No other distribution installs a package of our name."""
    return [
        Error(
            f"The distribution {name!r} installs a package django_mcp too, so that Python may "
            f"import it instead of {DISTRIBUTION}.",
            hint=f"Uninstall {name}, then install {DISTRIBUTION} again.",
            id="django_mcp.E001",
        )
        for name in sorted(_owners() - {DISTRIBUTION})
    ]


def _owners() -> set[str]:
    """The distributions which say that they install ``django_mcp``.

    Their lists of files are searched as text: ``packages_distributions`` takes them apart,
    which costs more time than all other checks together.
    """
    return {
        item.metadata["Name"].lower().replace("_", "-")
        for item in metadata.distributions()
        if any("django_mcp/__init__.py" in (item.read_text(name) or "") for name in FILE_LISTS)
    }


FILE_LISTS = ("RECORD", "SOURCES.txt")


@register(TAG)
def check_settings(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """DJANGO_MCP can be read."""
    try:
        conf.get()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="django_mcp.E002")]
    return []


@register(TAG)
@of_site
def check_stores(site: Settings) -> Found:
    """The stores which the settings name can be made."""
    for make in (stores.sessions, stores.events):
        try:
            make()
        except ImproperlyConfigured as error:
            yield Error(str(error), id="django_mcp.E003")


@register(TAG)
@of_site
def check_frame_processors(site: Settings) -> Found:
    """The frame processors are there."""
    for path in site.frame_processors:
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f'DJANGO_MCP["FRAME_PROCESSORS"] names {path!r}, which is not there: {error}',
                id="django_mcp.E004",
            )


@register(TAG)
@of_site
def check_authenticators(site: Settings) -> Found:
    """Every server that will be mounted says who may call it.

    A site without ASGI_APPLICATION may well use stdio alone, so it is left in peace: should it
    mount a server which names no authenticator, it is refused with the same words.
    """
    for server in registry.servers():
        try:
            registry.authenticators(server)
        except ImproperlyConfigured as error:
            if getattr(settings, "ASGI_APPLICATION", None):
                yield Error(str(error), id="django_mcp.E005")
        except Exception as error:
            yield Error(
                f"An authenticator of the MCP server {server.name!r} cannot be made: {error}",
                hint="Name a class by its dotted path, or give an instance in authenticators=[…].",
                id="django_mcp.E006",
            )


@register(TAG)
@of_site
def check_paths(site: Settings) -> Found:
    """No two servers answer at one path."""
    taken: dict[str, Server] = {}
    for server in map(registry.configure, registry.servers()):
        first = taken.setdefault(server.path.strip("/"), server)
        if first is not server:
            yield Error(
                f"The MCP servers {first.name!r} and {server.name!r} share the path "
                f"{server.path!r}, so that only one of them can be reached.",
                hint='Give one of them another: Server(…, path="/…").',
                id="django_mcp.E007",
            )


@register(TAG)
@of_site
def check_channel_layer(site: Settings) -> Found:
    """The channel layer which the settings name exists."""
    if site.channel_layer not in ("default", *_channel_layers()):
        yield Error(
            f'DJANGO_MCP["CHANNEL_LAYER"] is {site.channel_layer!r}, which CHANNEL_LAYERS does '
            "not have.",
            hint=f"CHANNEL_LAYERS has: {', '.join(_channel_layers()) or 'nothing'}.",
            id="django_mcp.E008",
        )


@register(TAG)
def check_runserver(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """``manage.py runserver`` can serve what is registered."""
    if not settings.DEBUG or not any(entries()):
        return []
    if get_commands()["runserver"] in WSGI_ONLY:
        return [
            Warning(
                "runserver does not speak ASGI here: it answers 404 at every MCP endpoint.",
                hint='Put "daphne" at the top of INSTALLED_APPS.',
                id="django_mcp.W001",
            )
        ]
    if not getattr(settings, "ASGI_APPLICATION", None):
        return [
            Warning(
                "ASGI_APPLICATION is not set, so that runserver does not know what to serve.",
                hint='Set it to the dotted path of your application: "my_site.asgi.application".',
                id="django_mcp.W002",
            )
        ]
    return []


@register(TAG)
def check_descriptions(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """Tools are described: a model chooses by little else."""
    return [
        Warning(
            f"The tool {entry.component.name!r} at {entry.component.source} has no description.",
            hint="Say in its docstring what it does and when to use it.",
            id="django_mcp.W003",
        )
        for entry in entries()
        if isinstance(entry.component, ToolComponent) and not entry.component.description
    ]


@register(TAG)
def check_permissions(app_configs: Apps, **_: Any) -> list[CheckMessage]:
    """Permissions belong to installed apps. Whether they exist is known to the database alone."""
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
@of_site
def check_output_schemas(site: Settings) -> Found:
    """Clients of every revision that is served can be told what tools return.

    Most schemas which are not for objects are put into one for older clients: they need no
    warning.
    """
    if all(BY_VERSION[v].structured is not Structured.OBJECT for v in site.protocol_versions):
        return
    for entry in entries():
        schema = getattr(entry.component, "output_schema", None)
        if schema is not None and to_object_root(schema) is None:
            yield Warning(
                f"The output schema of the tool {entry.component.name!r} at "
                f"{entry.component.source} is not for an object and cannot be put into one, so "
                "that clients of older revisions are not told of it.",
                hint='Refer to "#/$defs/…" instead of "#", or describe an object.',
                id="django_mcp.W005",
            )


# What matters only where others can reach the site: ``manage.py check --deploy``.


@register(TAG, deploy=True)
@of_site
def check_public_writes(site: Settings) -> Found:
    """Strangers can call no tool which may change something."""
    for server in registry.servers():
        if _is_public(server) and (names := list(_unguarded_writes(server))):
            yield Warning(
                f"Everybody may call tools of the MCP server {server.name!r} which do not say "
                f"that they only read: {', '.join(names)}.",
                hint=(
                    "Give them a permission, or read_only=True, or take Public from the "
                    "authenticators."
                ),
                id="django_mcp.W006",
            )


def _is_public(server: Server) -> bool:
    return any(isinstance(item, AnonymousAuthentication) for item in _authenticators(server))


def _authenticators(server: Server) -> tuple[Authenticator, ...]:
    """Its authenticators; none where ``check_authenticators`` has something to say."""
    try:
        return registry.authenticators(server)
    except Exception:
        return ()


def _unguarded_writes(server: Server) -> Iterator[str]:
    """The names of tools which strangers see and which may write, as tools do unless they say."""
    for tool in server.components.of_kind(ToolComponent.kind):
        reads = (tool.annotations or {}).get("readOnlyHint", False)
        if not (reads or tool.permission or tool.scopes):
            yield tool.name


@register(TAG, deploy=True)
@of_site
def check_workers(site: Settings) -> Found:
    """Workers can tell each other what happened."""
    layer = _channel_layers().get(site.channel_layer, {})
    if layer.get("BACKEND", IN_MEMORY_LAYER) == IN_MEMORY_LAYER:
        yield Warning(
            f"No channel layer {site.channel_layer!r} connects processes, so that clients are not "
            "told of what happens in another worker than theirs.",
            hint=(
                "Configure one in CHANNEL_LAYERS, channels_redis for instance, or silence this "
                "where one process serves everything."
            ),
            id="django_mcp.W007",
        )


@register(TAG, deploy=True)
@of_site
def check_kept_in_memory(site: Settings) -> Found:
    """What workers must share is not kept in the memory of one."""
    for name, backend in site.stores.items():
        if _is_in_one_process(backend):
            yield Warning(
                f'DJANGO_MCP["STORES"]["{name}"] keeps {name} in the memory of one process: other '
                "workers do not know them, and a restart forgets them.",
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
