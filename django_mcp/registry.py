"""The servers of the site: discovery in each app's ``mcp.py``, configuration, and components."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from inspect import ismethod
from types import ModuleType
from typing import Any, Literal, Protocol
from weakref import WeakSet, WeakValueDictionary

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.autoreload import autoreload_started
from django.utils.module_loading import import_string, module_has_submodule

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.resource import Resource
from django_mcp.core.auth.base import Authenticator
from django_mcp.core.components import signature
from django_mcp.core.components.base import OPTIONS, Component, ConfigurationError, Problems
from django_mcp.core.components.declaration import ViewPermission
from django_mcp.core.protocol.revisions import NEWEST, Revision
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.core.server.options import ServerOptions
from django_mcp.core.server.server import Server, checked_server, created
from django_mcp.runtime.signing import DjangoSigner

default = Server("mcp")
"""The site's default server: the bare decorators add to it."""

tool = default.tool
resource = default.resource
prompt = default.prompt


class Registrant(Protocol):
    """An object, or a class with a class method, that registers components of its own."""

    def __mcp_register__(self, server: Server, /) -> None:
        """Register components on ``server``, the default one, or on another that it names."""


Interface = Literal["ASGI", "WSGI"]
"""The interface between a web server and an application."""


class _Mounts(set[Interface]):
    """The interfaces through which a server has an endpoint in this process."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A module ``mcp`` that cannot be imported, and why."""

    module: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.module} cannot be imported: {type(self.error).__name__}: {self.error}"


@dataclass(slots=True)
class Registered:
    """What the ``mcp`` modules of the apps have, and what they lack.

    ``discover`` fills it when the site starts. ``add``, ``register`` and ``remember`` add to it at
    any time. No server is removed.
    """

    servers: dict[str, Server]
    """By name, the default one first."""
    registrants: list[object] = field(default_factory=list)
    """Those that have registered their components."""
    broken: list[Broken] = field(default_factory=list)
    forgotten: WeakSet[Server] = field(default_factory=WeakSet)
    """The servers that the import of the modules has created, and not registered."""
    remembered: WeakValueDictionary[str, Server] = field(default_factory=WeakValueDictionary)
    """Servers by name that need not be registered, as in a test."""


registered = Registered({default.name: default})


def discover() -> None:
    """Register the servers in the ``mcp`` module of every app.

    A module that cannot be imported stops everything that uses the servers (``raise_broken``), but
    not other commands, such as ``migrate``.
    """
    registered.broken.clear()
    before = set(created)
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "mcp"):
            name = f"{app.name}.mcp"
            try:
                register_module(import_module(name))
                for server in servers():
                    check_decorators(server)
            except Exception as error:
                registered.broken.append(Broken(name, error))
                watch_dir = functools.partial(_watch, app.path)
                autoreload_started.connect(watch_dir, weak=False, dispatch_uid=f"{name} is broken")
    registered.forgotten.clear()
    registered.forgotten.update(set(created) - before - set(servers()))


def _watch(folder: str, sender: Any, **_: Any) -> None:
    """Let ``runserver`` reload when a module is corrected that could not be imported."""
    sender.watch_dir(folder, "mcp.py")


def unregistered() -> tuple[Server, ...]:
    """Return the servers with components that no module ``mcp`` has as an attribute.

    Servers that are created later, by a test for instance, are left out.
    """
    left = (
        server
        for server in registered.forgotten
        if registered.servers.get(server.name) is not server
    )
    with_components = (server for server in left if any(server.components.registered()))
    return tuple(sorted(with_components, key=lambda server: server.name))


def broken() -> tuple[Broken, ...]:
    return tuple(registered.broken)


def raise_broken() -> None:
    """Raise ImproperlyConfigured if a module ``mcp`` could not be imported."""
    if registered.broken:
        raise ImproperlyConfigured(str(registered.broken[0])) from registered.broken[0].error


def note_mounted(server: Server, interface: Interface) -> None:
    server.state(_Mounts).add(interface)


def is_mounted(server: Server, interface: Interface) -> bool:
    """Whether an application of this process has an endpoint of ``server``."""
    return interface in server.state(_Mounts)


def register_module(module: ModuleType) -> None:
    """Register what ``module`` has at its top level: each Server, and each Registrant once.

    Raises ConfigurationError for those that cannot be registered, all in one.
    """
    problems = Problems()
    for value in list(vars(module).values()):
        if isinstance(value, Server):
            add(value)
        elif _is_registrant(value):
            with problems.noted():
                register(value)
    problems.raise_all()


def register(registrant: Registrant) -> None:
    """Let an object register its components; nothing happens if it has done so before."""
    if not any(registrant is each for each in registered.registrants):
        registered.registrants.append(registrant)
        registrant.__mcp_register__(default)


def _is_registrant(value: Any) -> bool:
    """Whether ``value`` has the method, bound: a class needs a class method for that.

    The classes are examined first, since some objects have every attribute that is read.
    """
    kind = type(value)
    owner = value if issubclass(kind, type) else kind
    is_declared = any("__mcp_register__" in vars(each) for each in (*owner.__mro__, *kind.__mro__))
    return is_declared and ismethod(value.__mcp_register__)


def add(server: Server) -> None:
    """Register a server; raises ImproperlyConfigured when another one has its name."""
    if registered.servers.setdefault(server.name, server) is not server:
        raise ImproperlyConfigured(
            f"Two MCP servers are named {server.name!r}. Give one of them another name."
        )
    server.extend()


def remember(server: Server) -> None:
    """Let ``find`` return this server, also if it is not registered, as in a test."""
    registered.remembered[server.name] = server


def find(name: str) -> Server | None:
    """Return the server of this name that was remembered last, else the registered one, or None."""
    return registered.remembered.get(name) or registered.servers.get(name)


def servers() -> tuple[Server, ...]:
    """Return every server, the default one first."""
    return tuple(registered.servers.values())


def server_or_default(server: Any, where: str) -> Server:
    """Return ``server``, or the default one for None; raises ConfigurationError for others.

    ``where`` names the declaration in the message.
    """
    return default if server is None else checked_server(server, where)


def mountable() -> tuple[Server, ...]:
    """Return the servers for HTTP: the default one only with components or authenticators."""
    is_unused = default.components.is_empty() and not conf.get().authenticators
    return tuple(server for server in servers() if server is not default or not is_unused)


def published() -> tuple[Server, ...]:
    """Return the servers with a published card, by SERVER_CARDS.

    Raises ImproperlyConfigured for the name of an unknown one.
    """
    server_cards = conf.get().server_cards
    if server_cards == "all":
        return tuple(server for server in mountable() if server.info.get("description"))
    try:
        return tuple(get(name) for name in server_cards)
    except LookupError as error:
        raise ImproperlyConfigured(f'DJANGO_MCP["SERVER_CARDS"]: {error}') from None


def get(name: str) -> Server:
    """Return the server of this name; raises LookupError, which lists the registered names."""
    try:
        return registered.servers[name]
    except KeyError:
        known = ", ".join(registered.servers)
        raise LookupError(f"There is no MCP server {name!r}; there are: {known}") from None


def check_declarations(server: Server) -> None:
    """Raise ConfigurationError for a component with code, or an option, that has no effect."""
    check_decorators(server)
    for component in server.components.registered():
        INSTALLED.check_read(component)


def check_decorators(server: Server) -> None:
    """Raise ConfigurationError for a decorator above ``@tool``, which the tool runs without."""
    for component in server.components.registered():
        handler = component.handler
        name = getattr(handler, "__name__", "")
        value = getattr(sys.modules.get(component.module), name, handler)
        if handler is None or not signature.replaces(value, handler):
            continue
        raise ConfigurationError(
            f"{component.source} registers {name}, which a decorator above the registration "
            f"replaces: calls of the {component.kind} bypass the decorator. Write the registration "
            f"as the first decorator or, instead of a decorator of views, "
            f"{signature.PERMISSIONS}"
        )


def make_ready(server: Server) -> None:
    if not server.is_configured:
        configure(server)


def configure(server: Server) -> Server:
    """Apply the site's settings to a server. The default server also has its name from them."""
    site = conf.get()
    options = ServerOptions(
        versions=site.protocol_versions,
        handler_timeout=site.handler_timeout,
        scopes=site.scopes,
        scope_hierarchy=site.scope_hierarchy,
        max_result_size=site.max_result_size,
        debug=django_settings.DEBUG,
    )
    check_declarations(server)
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
    """The path of the server's mount, whether it is configured or not."""
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
    return tuple(import_string(item)() if isinstance(item, str) else item for item in named)


CHARACTERS_OF_A_TOKEN = 4
"""Characters of JSON with English words in one token; models differ by about a fifth."""


def permission_of(component: Component) -> str:
    """The permission that a caller needs, or the function that decides; "" for none."""
    permission = component.permission
    if not callable(permission):
        return permission or ""
    if isinstance(permission, ViewPermission):
        return str(permission)
    module = getattr(permission, "__module__", "")
    return f"{module}.{getattr(permission, '__qualname__', repr(permission))}()"


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
        """The label of the app that registers the component, or ""."""
        app = apps.get_containing_app_config(self.component.module)
        return "" if app is None else app.label

    @property
    def permission(self) -> str:
        """The permission that a caller needs, or the function that decides; "" for none."""
        return permission_of(self.component)

    @property
    def search_text(self) -> str:
        """The text that the admin searches. Computed descriptions are not part of it."""
        item = self.component
        description = "" if callable(item.description) else str(item.description)
        return "\n".join((item.name, item.key, item.listed_title or "", description)).casefold()

    @property
    def is_switched_off(self) -> bool:
        """Whether it is hidden from all clients, as far as this process knows."""
        return self.server.components.is_switched_off(self.component.kind, self.component.key)

    @property
    def descriptor(self) -> dict[str, Any]:
        return self.server.components.descriptor(NEWEST, self.component)

    @property
    def tokens(self) -> int:
        """About how many tokens the component takes in a list that a model reads."""
        text = json.dumps(self.descriptor, ensure_ascii=False, separators=(",", ":"), default=str)
        return -(-len(text) // CHARACTERS_OF_A_TOKEN)

    def labelled_options(self) -> list[tuple[str, Any]]:
        """Return the options of extensions that have a label: the label, and the value."""
        options = OPTIONS.of(self.component.kind)
        return [
            (str(options[name].label), value)
            for name, value in self.component.options.items()
            if name in options and options[name].label is not None
        ]

    def facts(self, revision: Revision = NEWEST) -> dict[str, Any]:
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
            "switched_off": self.is_switched_off,
            **{label.lower(): value for label, value in self.labelled_options()},
            "listed": self.server.components.descriptor(revision, component),
        }


def entries(*chosen: Server) -> Iterator[Entry]:
    """Iterate over the components of these servers, or of all: kind by kind, in listed order."""
    for server in chosen or servers():
        for component in server.components.all():
            yield Entry(server, component)


def registered_entries(*chosen: Server) -> Iterator[Entry]:
    """Iterate over the same as ``entries``, without building components that are deferred."""
    for server in chosen or servers():
        for component in server.components.registered():
            yield Entry(server, component)
