"""Which servers exist. It finds each app's ``mcp.py`` and makes its servers ready to answer."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string, module_has_submodule

from django_mcp import conf
from django_mcp.auth.base import Authenticator
from django_mcp.components.base import Component
from django_mcp.runtime.signing import DjangoSigner
from django_mcp.server.server import Server, ServerOptions

MODULE = "mcp"
"""The module of an app in which we look for what it registers."""

default = Server("mcp")
"""The site's default server, to which the bare decorators add."""

tool = default.tool
resource = default.resource
prompt = default.prompt

_servers: dict[str, Server] = {default.name: default}


def discover() -> None:
    """Import the ``mcp`` module of every installed app, and take up the servers it declares.

    An error in such a module stops the start, with its own traceback.
    """
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, MODULE):
            register_module(import_module(f"{app.name}.{MODULE}"))


def register_module(module: ModuleType) -> None:
    """Take up every Server that ``module`` has at its top level."""
    for value in vars(module).values():
        if isinstance(value, Server):
            add(value)


def add(server: Server) -> None:
    """Take up a server; raises ImproperlyConfigured when another one has its name."""
    if _servers.setdefault(server.name, server) is not server:
        raise ImproperlyConfigured(
            f"Two MCP servers are named {server.name!r}. Give one of them another name."
        )


def servers() -> tuple[Server, ...]:
    """Every server, the default one first."""
    return tuple(_servers.values())


def mountable() -> tuple[Server, ...]:
    """Every server which is to be reached over HTTP.

    The default one is left out where it offers nothing and nobody was named who may use it:
    the site has servers of its own.
    """
    unused = not any(default.all_components()) and not conf.get().authenticators
    return tuple(server for server in servers() if server is not default or not unused)


def get(name: str) -> Server:
    """The server of this name; raises LookupError, which names those that exist."""
    try:
        return _servers[name]
    except KeyError:
        known = ", ".join(_servers)
        raise LookupError(f"There is no MCP server {name!r}; there are: {known}") from None


def configure(server: Server) -> Server:
    """Give ``server`` the site's settings; the default server also takes its name from them."""
    site = conf.get()
    server.configure(_limits(site), DjangoSigner())
    if server is default:
        server.path = site.path
        server.instructions = site.instructions
        server.describe(name=site.name, title=site.title, version=site.version)
    return server


def _limits(site: conf.Settings) -> ServerOptions:
    return ServerOptions(
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
        debug=django_settings.DEBUG,
    )


def authenticators(server: Server) -> tuple[Authenticator, ...]:
    """Who tells who calls ``server``; raises ImproperlyConfigured when nobody was named."""
    named = conf.get().authenticators if server.authenticators is None else server.authenticators
    if not named:
        raise ImproperlyConfigured(
            f"The MCP server {server.name!r} names no authenticator, and silence does not mean "
            'open. Set DJANGO_MCP["AUTHENTICATORS"], or authenticators=[…] on the Server; for a '
            'server that everyone may use, say "django_mcp.auth.anonymous.AnonymousAuthentication".'
        )
    return tuple(import_string(item)() if isinstance(item, str) else item for item in named)


def app_of(component: Component) -> str:
    """The label of the app in which ``component`` was registered, or "" for none."""
    app = apps.get_containing_app_config(component.module)
    return "" if app is None else app.label
