"""System checks: mistakes which would otherwise appear at the first call.

``docs/reference/checks.md`` explains every id; a released id is never used for another check.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from itertools import dropwhile
from types import CodeType
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.db import DatabaseError, connections
from django.utils.module_loading import import_string

from django_mcp import conf, registry, stores
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.auth.authentication import BEARER
from django_mcp.auth.base import Authenticator
from django_mcp.auth.django_session import DjangoSessionAuthentication
from django_mcp.auth.token import TokenAuthentication
from django_mcp.components.base import USER_CHECKS, Component
from django_mcp.components.tool import ToolComponent
from django_mcp.conf import Backend, Settings
from django_mcp.dispatch import visibility
from django_mcp.protocol.revisions import BY_VERSION, Structured
from django_mcp.protocol.schema.compiler import to_object_root
from django_mcp.registry import entries
from django_mcp.server.server import Server
from django_mcp.tasks import runners

TAG = "django_mcp"
DISTRIBUTION = "django-mcp-channels"
FILE_LISTS = ("RECORD", "SOURCES.txt")
WSGI_ONLY = ("django.core", "django.contrib.staticfiles")
"""Apps whose ``runserver`` is a WSGI server, which cannot serve MCP."""

REDIS_LAYER = "channels_redis."
"""The package of the usual layer, which has the same name in the index of packages."""
IN_MEMORY_LAYER = "channels.layers.InMemoryChannelLayer"

Found = Iterator[CheckMessage]


def check(find: Callable[..., Found], *, deploy: bool = False) -> Callable[..., list[CheckMessage]]:
    """Register a check; one which takes the settings is skipped where they are invalid."""
    needs_settings = bool(inspect.signature(find).parameters)

    @register(TAG, deploy=deploy)
    def run(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
        try:
            arguments = [conf.get()] if needs_settings else []
        except ImproperlyConfigured:
            return []  # ``check_settings`` reports it.
        try:
            return list(find(*arguments))
        except DatabaseError:
            # Checks run before migrations, and the serializer of a view may read a table.
            return []

    return run


@check
def check_names() -> Found:
    # The lists of files are searched as strings: ``packages_distributions`` parses them, which
    # takes longer than all other checks together.
    owners = {
        item.metadata["Name"].lower().replace("_", "-")
        for item in metadata.distributions()
        if any("django_mcp/__init__.py" in (item.read_text(name) or "") for name in FILE_LISTS)
    }
    for name in sorted(owners - {DISTRIBUTION}):
        yield Error(
            f"The distribution {name!r} also installs a package django_mcp, so that Python may "
            f"import it instead of {DISTRIBUTION}.",
            hint=f"Uninstall {name}, then install {DISTRIBUTION} again.",
            id="django_mcp.E001",
        )


@check
def check_settings() -> Found:
    try:
        conf.get()
    except ImproperlyConfigured as error:
        yield Error(str(error), id="django_mcp.E002")


@check
def check_stores(site: Settings) -> Found:
    for create in (stores.sessions, stores.events):
        try:
            create()
        except ImproperlyConfigured as error:
            yield Error(str(error), id="django_mcp.E003")


@check
def check_task_runner(site: Settings) -> Found:
    has_task_tools = any(server.capabilities.has("tasks") for server in registry.servers())
    if not has_task_tools:
        return
    try:
        runners.get()
    except ImproperlyConfigured as error:
        yield Error(str(error), id="django_mcp.E012")


@check
def check_frame_processors(site: Settings) -> Found:
    for path in site.frame_processors:
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f'DJANGO_MCP["FRAME_PROCESSORS"] names {path!r}, which cannot be imported: {error}',
                id="django_mcp.E004",
            )


@check
def check_serializers(site: Settings) -> Found:
    for path in (*site.serializers, *site.serializers.values()):
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f'DJANGO_MCP["SERIALIZERS"] names {path!r}, which cannot be imported: {error}',
                id="django_mcp.E010",
            )


@check
def check_authenticators(site: Settings) -> Found:
    # A site without ASGI_APPLICATION may use stdio alone. If it mounts a server without
    # authenticators, mounting raises the same error.
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
def check_modules(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    # An error would stop migrate, which may be what the module needs. The commands that look at
    # databases name them; from Django 6.1 on, all are named for the others as well.
    is_check = sys.argv[1:2] == ["check"]
    level: type[Warning | Error] = Warning if databases and not is_check else Error
    hint = "Correct it: until then, neither mount nor the commands of MCP servers work."
    return [level(str(each), hint=hint, id="django_mcp.E021") for each in registry.broken()]


@check
def check_mount(site: Settings) -> Found:
    path = getattr(settings, "ASGI_APPLICATION", None)
    if not path or not any(entries()) or registry.broken():
        return
    try:
        import_string(path)
    except Exception as error:
        yield Warning(
            f"ASGI_APPLICATION is {path!r}, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            hint="Without it, no ASGI server can serve the site.",
            id="django_mcp.W021",
        )
        return
    missing = [each for each in registry.mountable() if not registry.is_mounted(each)]
    if missing:
        names = ", ".join(repr(registry.path(each)) for each in missing)
        yield Warning(
            f"{path} answers 404 at {names}: it does not mount the MCP servers.",
            hint=(
                "In that module: from django_mcp.routing import mount, and "
                "application = mount(get_asgi_application()). Silence this check for a site that "
                "uses stdio alone."
            ),
            id="django_mcp.W022",
        )


@check
def check_middleware(site: Settings) -> Found:
    for path in () if site.django_middleware == "all" else site.django_middleware:
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f'DJANGO_MCP["DJANGO_MIDDLEWARE"] names {path!r}, which cannot be imported: '
                f"{error}",
                id="django_mcp.E022",
            )


@check
def check_paths(site: Settings) -> Found:
    by_path: dict[str, Server] = {}
    for server in registry.servers():
        path = registry.path(server)
        first = by_path.setdefault(path.strip("/"), server)
        if first is not server:
            yield Error(
                f"The MCP servers {first.name!r} and {server.name!r} share the path "
                f"{path!r}, so that only one of them can be reached.",
                hint='Set another path on one of them: Server(…, path="/…").',
                id="django_mcp.E007",
            )


@check
def check_channel_layer(site: Settings) -> Found:
    if site.channel_layer not in ("default", *_channel_layers()):
        yield Error(
            f'DJANGO_MCP["CHANNEL_LAYER"] is {site.channel_layer!r}, which is not a key '
            "of CHANNEL_LAYERS.",
            hint=f"CHANNEL_LAYERS has: {', '.join(_channel_layers()) or 'nothing'}.",
            id="django_mcp.E008",
        )


@check
def check_connection_pools() -> Found:
    for alias, database in connections.settings.items():
        pool = database.get("OPTIONS", {}).get("pool")
        if pool and database.get("CONN_MAX_AGE", 0) != 0:
            yield Error(
                f"The database {alias!r} has a connection pool, and so must not have CONN_MAX_AGE.",
                hint="Remove CONN_MAX_AGE: a pool keeps connections open by itself.",
                id="django_mcp.E024",
            )
        if isinstance(pool, dict) and _most(pool) == 1:
            yield Warning(
                f"The connection pool of the database {alias!r} has one connection. A handler that "
                "has it cannot wait for a store, which needs another one.",
                hint="Set max_size to at least 2.",
                id="django_mcp.W015",
            )


def _most(pool: dict[str, Any]) -> Any:
    """How many connections a pool of psycopg has at most."""
    return pool.get("min_size", 4) if pool.get("max_size") is None else pool["max_size"]


@check
def check_channel_layer_backend(site: Settings) -> Found:
    path = _channel_layers().get(site.channel_layer, {}).get("BACKEND")
    if not isinstance(path, str):
        return
    try:
        import_string(path)
    except ImportError as error:
        is_usual = path.startswith(REDIS_LAYER)
        yield Error(
            f"CHANNEL_LAYERS[{site.channel_layer!r}] names the BACKEND {path!r}, which cannot be "
            f"imported: {error}",
            hint="Run: pip install channels_redis" if is_usual else "Correct the dotted path.",
            id="django_mcp.E023",
        )


@check
def check_single_use(site: Settings) -> Found:
    backend = settings.CACHES.get("default", {}).get("BACKEND")
    if site.request_state_single_use and backend in (*LOCAL_CACHES, FILE_CACHE):
        yield Error(
            f"The default cache is {backend!r}, which cannot ensure that a request state is used "
            "once by all workers.",
            hint=(
                "Use a default cache that all workers share, such as Redis, Memcached or the "
                'database, or set DJANGO_MCP["REQUEST_STATE_SINGLE_USE"] to False.'
            ),
            id="django_mcp.E009",
        )


@check
def check_runserver() -> Found:
    if not settings.DEBUG or not any(entries()):
        return
    if get_commands()["runserver"] in WSGI_ONLY:
        yield Warning(
            "This runserver is a WSGI server: it responds with 404 at every MCP endpoint.",
            hint='Put "daphne" at the top of INSTALLED_APPS.',
            id="django_mcp.W001",
        )
    elif not getattr(settings, "ASGI_APPLICATION", None):
        yield Warning(
            "ASGI_APPLICATION is not set, so that runserver has no application to serve.",
            hint='Set it to the dotted path of your application: "my_site.asgi.application".',
            id="django_mcp.W002",
        )


@check
def check_descriptions() -> Found:
    for entry in entries():
        if isinstance(entry.component, ToolComponent) and not entry.component.description:
            yield Warning(
                f"The tool {entry.component.name!r} at {entry.component.source} has no "
                "description.",
                hint="Describe in its docstring what it does and when to use it.",
                id="django_mcp.W003",
            )


@check
def check_permissions() -> Found:
    # Only the database knows whether a permission of an installed app exists.
    labels = {config.label for config in apps.get_app_configs()}
    for entry in entries():
        permission = entry.component.permission
        if permission in USER_CHECKS:
            continue
        if isinstance(permission, str) and permission.partition(".")[0] not in labels:
            yield Warning(
                f"The {entry.kind} {entry.component.name!r} at {entry.component.source} needs the "
                f"permission {permission!r}, but no installed app has that label.",
                hint='Write "app_label.codename", for instance "auth.view_user".',
                id="django_mcp.W004",
            )


@check
def check_approvals() -> Found:
    if apps.is_installed("django_mcp.approvals"):
        return
    for entry in entries():
        if getattr(entry.component, "approval", None) is not None:
            yield Error(
                f"Calls of the tool {entry.component.name!r} at {entry.component.source} need an "
                "approval, but the app that stores them is not installed: every call fails.",
                hint='Add "django_mcp.approvals" to INSTALLED_APPS, and run migrate.',
                id="django_mcp.E011",
            )


@check
def check_output_schemas(site: Settings) -> Found:
    # Most schemas which are not for objects are wrapped in one for older clients, and need no
    # warning.
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


def _is_task_at_once(component: Component) -> bool:
    """Whether it runs as a task wherever an input request would end the call."""
    if not isinstance(component, ToolComponent):
        return False
    return component.task_support == "required" and not component.task_after


@check
def check_input_requests() -> Found:
    # What an undeclared one writes before an input request is written again when it runs again:
    # such writes are rolled back only where it is declared.
    for entry in entries():
        component = entry.component
        if component.requests_input or _is_task_at_once(component):
            continue
        if _requests_input(component.handler):
            yield Warning(
                f"The {entry.kind} {entry.component.name!r} at {entry.component.source} seems to "
                "request input from the client, which it does not declare.",
                hint="Set requests_input=True.",
                id="django_mcp.W009",
            )


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
    if (code := getattr(function, "__code__", None)) is None or depth == 0:
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
    """Yield every name in the code, also of functions defined inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@partial(check, deploy=True)
def check_public_writes(site: Settings) -> Found:
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


def _authenticators(server: Server) -> Sequence[Authenticator]:
    try:
        return registry.authenticators(server)
    except Exception:
        return ()  # ``check_authenticators`` reports it.


def _unguarded_writes(server: Server) -> Iterator[str]:
    """Return the names of tools which every caller sees and which may write, as is the default."""
    for tool in server.components.of_kind(ToolComponent.kind):
        is_read_only = (tool.annotations or {}).get("readOnlyHint", False)
        if not (is_read_only or tool.permission or tool.scopes):
            yield tool.name


@check
def check_challenges(site: Settings) -> Found:
    for entry in entries():
        component, authenticators = entry.component, _authenticators(entry.server)
        is_guarded = component.scopes or component.permission
        if not is_guarded or visibility.policy_of(component, entry.server) != "challenged":
            continue
        if authenticators and (missing := _missing_login(component, authenticators)):
            yield Warning(
                f"Calls of the {entry.kind} {component.name!r} at {component.source} are answered "
                f"with a challenge, but {missing} at the MCP server {entry.server.name!r}.",
                hint=(
                    "Add an authenticator for access tokens to the server, or set "
                    'when_denied="hidden".'
                ),
                id="django_mcp.W012",
            )


def _missing_login(component: Component, authenticators: Sequence[Authenticator]) -> str | None:
    """What a caller would need that no authenticator gives; unknown ones may give everything."""
    if all(isinstance(item, AnonymousAuthentication) for item in authenticators):
        return "nobody can log in"
    without_scopes = (AnonymousAuthentication, DjangoSessionAuthentication)
    if component.scopes and all(isinstance(item, without_scopes) for item in authenticators):
        return "no authenticator gives scopes to a caller"
    return None


@check
def check_sent_tokens(site: Settings) -> Found:
    for server in registry.servers():
        found = [*dropwhile(_sends_no_tokens, _authenticators(server))]
        if names := [type(item).__name__ for item in found if _takes_own_tokens(item)]:
            sender = type(found[0]).__name__
            yield Warning(
                f"{sender} is listed before {', '.join(names)} at the MCP server {server.name!r}, "
                "so that it sends tokens which are for the latter to another service.",
                hint=f"List {sender} last.",
                id="django_mcp.W014",
            )


@check
def check_order_of_authenticators(site: Settings) -> Found:
    for server in registry.servers():
        from_accepting = [*dropwhile(_demands_credentials, _authenticators(server))]
        # Tokens are read by whoever comes later; other credentials are not looked for any more.
        unread = [item for item in from_accepting[1:] if getattr(item, "scheme", None) != BEARER]
        if unread:
            accepting = type(from_accepting[0]).__name__
            names = ", ".join(type(item).__name__ for item in unread)
            yield Warning(
                f"{accepting} is listed before {names} at the MCP server {server.name!r} and "
                "accepts everybody, so that the latter never decides.",
                hint=f"List {accepting} last.",
                id="django_mcp.W040",
            )


def _demands_credentials(item: Authenticator) -> bool:
    return not getattr(item, "accepts_all", False)


def _sends_no_tokens(item: Authenticator) -> bool:
    return not getattr(item, "sends_tokens", False)


def _takes_own_tokens(item: Authenticator) -> bool:
    """Whether it accepts bearer tokens that an authenticator before it could take for its own."""
    if isinstance(item, TokenAuthentication):
        return False  # Personal access tokens are known by their prefix, and are not sent.
    return getattr(item, "scheme", None) == BEARER and _sends_no_tokens(item)


@check
def check_audiences(site: Settings) -> Found:
    if "*" not in settings.ALLOWED_HOSTS or site.base_url is not None or site.audiences:
        return
    for server in registry.mountable():
        if any(getattr(item, "needs_endpoint_url", False) for item in _authenticators(server)):
            yield Error(
                f"The MCP server {server.name!r} refuses every access token: it accepts those for "
                'its own URL, which no setting names while ALLOWED_HOSTS contains "*".',
                hint=(
                    'Set DJANGO_MCP["BASE_URL"] to the URL of the site, or list its host names in '
                    "ALLOWED_HOSTS."
                ),
                id="django_mcp.E025",
            )


@partial(check, deploy=True)
def check_tokens_over_http(site: Settings) -> Found:
    base_url = site.base_url or ""
    is_https = settings.SECURE_SSL_REDIRECT or settings.SECURE_PROXY_SSL_HEADER or base_url
    if is_https and not base_url.startswith("http://"):
        return
    for server in registry.mountable():
        if any(getattr(item, "scheme", None) for item in _authenticators(server)):
            yield Warning(
                f"The MCP server {server.name!r} accepts tokens, and no setting says that the "
                "site is served over https: tokens could be read on their way.",
                hint=(
                    'Set DJANGO_MCP["BASE_URL"] to the https URL of the site, or '
                    "SECURE_PROXY_SSL_HEADER behind a proxy."
                ),
                id="django_mcp.W011",
            )


@partial(check, deploy=True)
def check_proxy_header(site: Settings) -> Found:
    is_https = (site.base_url or "").startswith("https://")
    if is_https and not settings.SECURE_PROXY_SSL_HEADER and registry.mountable():
        yield Warning(
            'DJANGO_MCP["BASE_URL"] is a https URL, but SECURE_PROXY_SSL_HEADER is not set: behind '
            "a proxy, Django takes requests for http, and so do the URLs that it builds.",
            hint=(
                "Set SECURE_PROXY_SSL_HEADER to the header that the proxy sets, or silence this "
                "check if the ASGI server has the certificate itself."
            ),
            id="django_mcp.W013",
        )


@partial(check, deploy=True)
def check_workers(site: Settings) -> Found:
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


@partial(check, deploy=True)
def check_stores_in_memory(site: Settings) -> Found:
    for name, backend in site.stores.items():
        if _is_in_one_process(backend):
            yield Warning(
                f'DJANGO_MCP["STORES"]["{name}"] stores {name} in the memory of one process: '
                "other workers cannot read them, and a restart clears them.",
                hint="Use the database, which is the default, or a cache that all workers share.",
                id="django_mcp.W008",
            )


@partial(check, deploy=True)
def check_allowed_hosts(site: Settings) -> Found:
    if "*" in settings.ALLOWED_HOSTS and registry.mountable():
        yield Warning(
            'ALLOWED_HOSTS contains "*", so that MCP servers answer for every host name: a page of '
            "another site can reach them by DNS rebinding.",
            hint="List the host names of the site in ALLOWED_HOSTS.",
            id="django_mcp.W010",
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
FILE_CACHE = "django.core.cache.backends.filebased.FileBasedCache"
"""Its ``add`` may return True to two processes."""


def _channel_layers() -> dict[str, dict[str, Any]]:
    return getattr(settings, "CHANNEL_LAYERS", {})
