"""Checks of the site's serving: the applications, paths, hosts and proxies."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.utils.module_loading import import_string

from django_mcp import conf, registry
from django_mcp.checks.base import Found, check
from django_mcp.core.server import card
from django_mcp.core.server.server import Server
from django_mcp.registry import Interface

logger = logging.getLogger("django_mcp")

WSGI_ONLY = ("django.core", "django.contrib.staticfiles")
"""Apps with a ``runserver`` that is a WSGI server."""
SETTINGS: Mapping[Interface, str] = {"WSGI": "WSGI_APPLICATION", "ASGI": "ASGI_APPLICATION"}
HINTS: Mapping[Interface, str] = {
    "WSGI": (
        "In wsgi.py: from django_mcp.routing import mount, and "
        "application = mount(get_wsgi_application())."
    ),
    "ASGI": (
        "In asgi.py: from django_mcp.routing import mount, and "
        "application = mount(get_asgi_application())."
    ),
}


def _applications() -> dict[Interface, str]:
    """The dotted paths in the settings. For ASGI, also the path of the file beside ``wsgi.py``.

    ``startproject`` makes both files, but only one of the settings.
    """
    paths: dict[Interface, str] = {}
    for interface, name in SETTINGS.items():
        path = getattr(settings, name, None)
        if path:
            paths[interface] = path
    module, _, name = paths.get("WSGI", "").rpartition(".")
    beside = module.removesuffix("wsgi") + "asgi"
    if "ASGI" not in paths and module.endswith(".wsgi") and _mounts(f"{beside}.{name}"):
        paths["ASGI"] = f"{beside}.{name}"
    return paths


def _mounts(path: str) -> bool:
    """Whether an application, which may not exist, mounts a server.

    No setting names it: an exception of its import is logged, and is not an error of the site.
    """
    try:
        import_string(path)
    except ImportError:
        return False
    except Exception:
        logger.warning("%s cannot be imported", path, exc_info=True)
        return False
    return any(registry.is_mounted(server, "ASGI") for server in registry.mountable())


@check()
def check_mount() -> Found:
    has_components = any(not server.components.is_empty() for server in registry.servers())
    if not has_components or registry.broken():
        return
    applications = _applications()
    errors = _import(applications)
    missing = [server for server in registry.mountable() if not _is_mounted(server, applications)]
    if errors:
        yield from errors
    elif missing and applications:
        yield _not_mounted(missing, applications)
    elif settings.DEBUG:
        yield from _of_runserver(applications)


@check()
def check_registered() -> Found:
    for server in registry.unregistered():
        source = next(iter(server.components.registered())).source
        yield Warning(
            f"The Server {server.name!r}, with a component in {source}, is not registered: no "
            "mcp.py has it as an attribute, so that it is neither mounted nor checked.",
            hint="In the mcp.py of an app, import the server itself from its module. If it is not "
            "to be served over HTTP, silence this check.",
            id="django_mcp.W073",
        )


def mounting() -> dict[Interface, tuple[str, bool]]:
    """The applications of this project by their interface, and whether each mounts all servers.

    Those that cannot be imported are not among them: ``check_mount`` has their errors.
    """
    servers = registry.mountable()
    return {
        interface: (path, all(_is_mounted(server, [interface]) for server in servers))
        for interface, path in _applications().items()
        if not any(_import_errors(interface, path))
    }


def _import(applications: Mapping[Interface, str]) -> list[CheckMessage]:
    """Import the applications, which mount their servers then; return the errors."""
    messages = (_import_errors(interface, path) for interface, path in applications.items())
    return [*chain.from_iterable(messages)]


def _import_errors(interface: Interface, path: str) -> Found:
    try:
        import_string(path)
    except Exception as error:
        yield Warning(
            f"{SETTINGS[interface]} is {path!r}, which cannot be imported: "
            f"{type(error).__name__}: {error}",
            hint=f"Without it, no {interface} server can serve the site.",
            id="django_mcp.W021",
        )


def _is_mounted(server: Server, applications: Iterable[Interface]) -> bool:
    return any(registry.is_mounted(server, interface) for interface in applications)


def _not_mounted(servers: Sequence[Server], applications: Mapping[Interface, str]) -> Warning:
    paths = " and ".join(applications.values())
    if len(applications) == 1:
        text = f"{paths} answers 404 at {_paths_of(servers)}: it does not mount the MCP servers."
    else:
        text = f"{paths} answer 404 at {_paths_of(servers)}: neither mounts the MCP servers."
    hints = " ".join(HINTS[interface] for interface in applications)
    return Warning(
        text,
        hint=f"{hints} Silence this check for a site that uses stdio alone.",
        id="django_mcp.W022",
    )


def _paths_of(servers: Sequence[Server]) -> str:
    return ", ".join(repr(registry.path(server)) for server in servers)


def _of_runserver(applications: Mapping[Interface, str]) -> Found:
    """Yield a warning if ``runserver`` serves the application that was not mounted."""
    interface: Interface = "WSGI" if get_commands()["runserver"] in WSGI_ONLY else "ASGI"
    name = SETTINGS[interface]
    if not getattr(settings, name, None):
        yield Warning(
            f"{name} is not set, so that runserver does not serve the MCP servers.",
            hint=f'Set it to the dotted path of your application: "my_site.{interface.lower()}.'
            'application".',
            id="django_mcp.W002",
        )
        return
    missing = [server for server in registry.mountable() if not _is_mounted(server, [interface])]
    if missing:
        others = " and ".join(path for other, path in applications.items() if other != interface)
        yield Warning(
            f"runserver serves {applications[interface]}, which answers 404 at "
            f"{_paths_of(missing)}: only {others} mounts the MCP servers.",
            hint=HINTS[interface],
            id="django_mcp.W001",
        )


@check()
def check_http_sse() -> Found:
    if not conf.get().http_sse:
        return
    # check_mount reports its errors.
    _ = _import(_applications())
    servers = registry.mountable()
    has_asgi = any(_is_mounted(server, ["ASGI"]) for server in servers)
    has_wsgi = any(_is_mounted(server, ["WSGI"]) for server in servers)
    if has_wsgi and not has_asgi:
        yield Error(
            'DJANGO_MCP["HTTP_SSE"] is True, but the servers are mounted in a WSGI application, '
            "which does not serve HTTP+SSE: each of its streams would occupy a thread for hours.",
            hint="Set it to False, or mount the servers in an ASGI application.",
            id="django_mcp.E010",
        )


@check()
def check_paths() -> Found:
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


@check()
def check_server_cards() -> Found:
    try:
        published = registry.published()
    except ImproperlyConfigured as error:
        yield Error(
            str(error),
            hint='List the names of servers, or write "all".',
            id="django_mcp.E028",
        )
        return
    for server in published:
        for problem in card.problems(server):
            yield Warning(
                f"The MCP server {server.name!r} has no server card: {problem}.",
                hint="Correct it on the Server, or, for the default server, with "
                "default.describe(…) of django_mcp.registry. To publish no card of it, leave the "
                'server out of DJANGO_MCP["SERVER_CARDS"].',
                id="django_mcp.W074",
            )


@check(deploy=True)
def check_allowed_hosts() -> Found:
    if "*" in settings.ALLOWED_HOSTS and registry.mountable():
        yield Warning(
            'ALLOWED_HOSTS contains "*", so that MCP servers answer for every host name: a page of '
            "another site can reach them by DNS rebinding.",
            hint="List the host names of the site in ALLOWED_HOSTS.",
            id="django_mcp.W010",
        )


@check(deploy=True)
def check_proxy_header() -> Found:
    site = conf.get()
    is_https = (site.base_url or "").startswith("https://")
    if is_https and not settings.SECURE_PROXY_SSL_HEADER and registry.mountable():
        yield Warning(
            'DJANGO_MCP["BASE_URL"] is a https URL, but SECURE_PROXY_SSL_HEADER is not set: behind '
            "a proxy, Django takes requests for http, and so do the URLs that it builds.",
            hint=(
                "Set SECURE_PROXY_SSL_HEADER to the header that the proxy sets, or silence this "
                "check if the server has the certificate itself."
            ),
            id="django_mcp.W013",
        )
