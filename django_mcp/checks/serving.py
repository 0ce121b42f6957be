"""Checks of what serves the site: the ASGI application, paths, hosts and proxies."""

from __future__ import annotations

from django.conf import settings
from django.core.checks import Error, Warning
from django.core.management import get_commands
from django.utils.module_loading import import_string

from django_mcp import conf, registry
from django_mcp.checks.base import Found, check
from django_mcp.server.server import Server

WSGI_ONLY = ("django.core", "django.contrib.staticfiles")
"""Apps whose ``runserver`` is a WSGI server, which cannot serve MCP."""


def _has_components() -> bool:
    return any(not server.components.is_empty() for server in registry.servers())


@check()
def check_runserver() -> Found:
    if not settings.DEBUG or not _has_components():
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


@check()
def check_mount() -> Found:
    path = getattr(settings, "ASGI_APPLICATION", None)
    if not path or not _has_components() or registry.broken():
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
    missing = [server for server in registry.mountable() if not registry.is_mounted(server, "ASGI")]
    if missing:
        names = ", ".join(repr(registry.path(server)) for server in missing)
        yield Warning(
            f"{path} answers 404 at {names}: it does not mount the MCP servers.",
            hint=(
                "In that module: from django_mcp.routing import mount, and "
                "application = mount(get_asgi_application()). Silence this check for a site that "
                "uses stdio alone."
            ),
            id="django_mcp.W022",
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
                "check if the ASGI server has the certificate itself."
            ),
            id="django_mcp.W013",
        )
