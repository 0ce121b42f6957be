"""The servers of the site: discovery in each app's ``mcp.py``, configuration, and components."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string, module_has_submodule

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.base import Authenticator
from django_mcp.auth.resource import Resource
from django_mcp.components.base import Component
from django_mcp.protocol.revisions import NEWEST
from django_mcp.runtime.signing import DjangoSigner
from django_mcp.server.options import ServerOptions
from django_mcp.server.server import Server

default = Server("mcp")
"""The site's default server, to which the bare decorators add."""

tool = default.tool
resource = default.resource
prompt = default.prompt

_servers: dict[str, Server] = {default.name: default}


def discover() -> None:
    """Register the servers in the ``mcp`` module of every app; exceptions in it are raised."""
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "mcp"):
            register_module(import_module(f"{app.name}.mcp"))


def register_module(module: ModuleType) -> None:
    """Register every Server that ``module`` has at its top level."""
    for value in vars(module).values():
        if isinstance(value, Server):
            add(value)


def add(server: Server) -> None:
    """Register a server; raises ImproperlyConfigured when another one has its name."""
    if _servers.setdefault(server.name, server) is not server:
        raise ImproperlyConfigured(
            f"Two MCP servers are named {server.name!r}. Give one of them another name."
        )


def servers() -> tuple[Server, ...]:
    """Return every server, the default one first."""
    return tuple(_servers.values())


def mountable() -> tuple[Server, ...]:
    """Return the servers for HTTP: the default one only with components or authenticators."""
    is_unused = not any(default.components.all()) and not conf.get().authenticators
    return tuple(server for server in servers() if server is not default or not is_unused)


def get(name: str) -> Server:
    """Return the server of this name; raises LookupError, which lists the registered names."""
    try:
        return _servers[name]
    except KeyError:
        known = ", ".join(_servers)
        raise LookupError(f"There is no MCP server {name!r}; there are: {known}") from None


def make_ready(server: Server) -> None:
    if not server.is_configured:
        configure(server)


def configure(server: Server) -> Server:
    """Apply the site's settings; they also name the default server."""
    site = conf.get()
    options = ServerOptions(
        versions=site.protocol_versions,
        page_size=site.page_size,
        client_response_timeout=site.client_response_timeout,
        request_state_lifetime=site.request_state_lifetime,
        handler_timeout=site.handler_timeout,
        cache_ttl_ms=site.cache_ttl_ms,
        log_rate_limit=site.log_rate_limit,
        strict=site.validate_output == "strict",
        subscriptions=site.max_subscriptions,
        notify_lists_on_initialize=site.notify_lists_on_initialize,
        scopes=site.scopes,
        scope_hierarchy=site.scope_hierarchy,
        debug=django_settings.DEBUG,
    )
    server.configure(options, DjangoSigner())
    if server is default:
        server.path = site.path
        server.instructions = site.instructions
        server.describe(name=site.name, title=site.title, version=site.version)
    return server


def authentication(server: Server) -> Authentication:
    """Return the authentication of ``server``; raises ImproperlyConfigured like authenticators."""
    return authentication_by(server, authenticators(server))


def authentication_by(server: Server, named: Sequence[Authenticator]) -> Authentication:
    """Return the authentication of ``server`` by other authenticators than its own."""
    title = server.info.get("title")
    path = "/" + server.path.strip("/")
    title = None if title is None else str(title)
    return Authentication(named, Resource(path, tuple(sorted(server.scopes)), title, server.name))


def path(server: Server) -> str:
    """The path at which the server is mounted, whether it is configured or not."""
    return conf.get().path if server is default else server.path


def authenticators(server: Server) -> tuple[Authenticator, ...]:
    """Return the authenticators of ``server``; raises ImproperlyConfigured when it has none."""
    named = conf.get().authenticators if server.authenticators is None else server.authenticators
    if not named:
        raise ImproperlyConfigured(
            f"The MCP server {server.name!r} names no authenticator. Set "
            'DJANGO_MCP["AUTHENTICATORS"], or authenticators=[…] on the Server; for a server that '
            'everyone may call, use "django_mcp.auth.anonymous.AnonymousAuthentication".'
        )
    return tuple(_authenticator(item) if isinstance(item, str) else item for item in named)


def _authenticator(path: str) -> Any:
    if path in RENAMED_AUTHENTICATORS:
        raise ImproperlyConfigured(f"{path!r} is now {RENAMED_AUTHENTICATORS[path]!r}.")
    return import_string(path)()


RENAMED_AUTHENTICATORS = {
    "django_mcp.auth.public.Public": "django_mcp.auth.anonymous.AnonymousAuthentication",
    "django_mcp.auth.django_session.DjangoSession": (
        "django_mcp.auth.django_session.DjangoSessionAuthentication"
    ),
}
"""Dotted paths by their former names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One component and the server that declares it, as the admin and ``mcp_show`` print it."""

    server: Server
    component: Component

    @property
    def identity(self) -> str:
        return f"{self.server.name}:{self.component.kind}:{self.component.key}"

    @property
    def kind(self) -> str:
        return self.component.kind.replace("_", " ")

    @property
    def app(self) -> str:
        """The label of the app in which the component was registered, or ""."""
        app = apps.get_containing_app_config(self.component.module)
        return "" if app is None else app.label

    @property
    def permission(self) -> str:
        """The permission that a caller needs, or the function that decides; "" for none."""
        permission = self.component.permission
        if not callable(permission):
            return permission or ""
        module = getattr(permission, "__module__", "")
        return f"{module}.{getattr(permission, '__qualname__', repr(permission))}()"

    @property
    def search_text(self) -> str:
        """The text in which the admin searches. Computed descriptions are not part of it."""
        item = self.component
        description = "" if callable(item.description) else str(item.description)
        return "\n".join((item.name, item.key, item.listed_title or "", description)).casefold()

    @property
    def descriptor(self) -> dict[str, Any]:
        return self.server.components.descriptor(NEWEST, self.component)

    def facts(self) -> dict[str, Any]:
        """Return everything about the component, as JSON values."""
        component = self.component
        return {
            "server": self.server.name,
            "path": self.server.path,
            "kind": component.kind,
            "name": component.name,
            "app": self.app,
            "source": component.source,
            "permission": self.permission,
            "scopes": sorted(component.scopes),
            "cache": component.cache and asdict(component.cache),
            "listed": self.descriptor,
        }


def entries(*chosen: Server) -> Iterator[Entry]:
    """Iterate over the components of these servers, or of all: kind by kind, in listed order."""
    for server in chosen or servers():
        for component in server.components.all():
            yield Entry(server, component)
