"""Checks of the project: its packages, settings, modules and databases."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.db import connections

from django_mcp import conf, registry, stores
from django_mcp.checks.base import Found, add, check, import_problem
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.server.server import Server

DISTRIBUTION = "django-mcp-channels"
FILE_LISTS = ("RECORD", "SOURCES.txt")


@check(requires_settings=False)
def check_names() -> Found:
    # The lists of files are searched as strings: ``packages_distributions`` parses them, which
    # takes longer than all other checks together.
    installed = [
        item
        for item in metadata.distributions()
        if any("django_mcp/__init__.py" in (item.read_text(name) or "") for name in FILE_LISTS)
    ]
    owners = {item.metadata["Name"].lower().replace("_", "-") for item in installed}
    for name in sorted(owners - {DISTRIBUTION}):
        yield Error(
            f"The distribution {name!r} also installs a package django_mcp, so that Python may "
            f"import it instead of {DISTRIBUTION}.",
            hint=f"Uninstall {name}, then install {DISTRIBUTION} again.",
            id="django_mcp.E001",
        )


@check(requires_settings=False)
def check_settings() -> Found:
    try:
        conf.get()
    except ImproperlyConfigured as error:
        yield Error(str(error), id="django_mcp.E002")


@check()
def check_dotted_paths() -> Found:
    site = conf.get()
    middleware = () if site.django_middleware == "all" else site.django_middleware
    paths_by_key = {
        "FRAME_PROCESSORS": site.frame_processors,
        "SERIALIZERS": (*site.serializers, *site.serializers.values()),
        "DJANGO_MIDDLEWARE": middleware,
        "REST_AUTH": [site.rest_auth] if site.rest_auth else [],
        "FIRST_MIDDLEWARE": site.first_middleware,
        "VIEW_MIDDLEWARE": site.view_middleware,
        "TENANT": () if site.tenant is None else (site.tenant,),
    }
    for key, paths in paths_by_key.items():
        for path in paths:
            if problem := import_problem(path):
                yield _not_importable(f'DJANGO_MCP["{key}"]', path, problem)
    for server in registry.servers():
        for path in server.view_middleware or ():
            if problem := import_problem(path):
                where = f"view_middleware of the MCP server {server.name!r}"
                yield _not_importable(where, path, problem)


def _not_importable(where: str, path: str, problem: str) -> Warning | Error:
    text = f"{where} names {path!r}, which cannot be imported: {problem}"
    return level_of_command()(text, id="django_mcp.E004")


@check()
def check_backends() -> Found:
    """Create the stores, which are otherwise created at the first use."""
    factories: list[Callable[[], object]] = [stores.sessions, stores.events]
    for create in factories:
        try:
            create()
        except ImproperlyConfigured as error:
            yield Error(str(error), id="django_mcp.E003")


@add
def check_modules(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    level = level_of_command()
    return [level(str(module), hint=HINT, id="django_mcp.E021") for module in registry.broken()]


HINT = "Correct it: until then, neither mount nor the commands of MCP servers work."
SERVING = ("check", "runserver", "testserver", "mcp_")
"""The beginnings of the names of commands that serve, or that are run to find errors."""


def level_of_command() -> type[Warning | Error]:
    """Return Warning while a command runs that does not serve, such as migrate, and else Error.

    An error of a module ``mcp`` would stop a command that may be needed to correct it.
    """
    command = "".join(sys.argv[1:2])
    does_not_serve = command in get_commands() and not command.startswith(SERVING)
    return Warning if does_not_serve else Error


@check(requires_components=False)
def check_components() -> Found:
    for server in registry.servers():
        try:
            registry.check_declarations(server)
        except ConfigurationError as error:
            yield cannot_be_built(server, error)


def cannot_be_built(server: Server, error: Exception) -> Warning | Error:
    return level_of_command()(
        f"The components of the MCP server {server.name!r} cannot be built: {error}",
        hint=HINT,
        id="django_mcp.E022",
    )


@check(requires_settings=False)
def check_connection_pools() -> Found:
    for alias, database in connections.settings.items():
        pool = database.get("OPTIONS", {}).get("pool")
        if not isinstance(pool, dict):
            continue
        most = pool.get("max_size")
        if most is None:
            most = pool.get("min_size", 4)  # As psycopg does.
        if most == 1:
            yield Warning(
                f"The connection pool of the database {alias!r} has one connection. A handler that "
                "has it cannot wait for a store, which needs another one.",
                hint="Set max_size to at least 2.",
                id="django_mcp.W015",
            )


@check(requires_settings=False, deploy=True)
def check_kept_connections() -> Found:
    """Find databases with connections that pile up under ASGI, as Django's documentation says."""
    if not getattr(settings, "ASGI_APPLICATION", None):
        return
    for alias, database in connections.settings.items():
        keeps = database.get("CONN_MAX_AGE", 0) != 0
        if keeps and not database.get("ENGINE", "").endswith("sqlite3"):
            yield Warning(
                f"The database {alias!r} has a CONN_MAX_AGE, and the site has an ASGI_APPLICATION. "
                "Under ASGI, each request of Django has a thread of its own, which leaves its "
                "connection open: after some hundred, the database accepts no more.",
                hint=(
                    "Set CONN_MAX_AGE to 0, or remove it and use a pool. Silence this check if "
                    "the site is served over WSGI only."
                ),
                id="django_mcp.W069",
            )


WEEK = 7 * 24 * 60 * 60


@check(requires_settings=False, deploy=True)
def check_time_zone() -> Found:
    """Find a site whose times in the database do not say which of two hours they mean.

    PostgreSQL converts each time from the zone of the connection, and returns local times, so that
    stores cannot write other ones there.
    """
    if settings.USE_TZ:
        return
    now = time.time()
    offsets = {time.localtime(now + number * WEEK).tm_gmtoff for number in range(54)}
    if len(offsets) > 1:
        yield Warning(
            f"USE_TZ is False, and the clocks of the TIME_ZONE {settings.TIME_ZONE!r} change. The "
            "database contains local times, of which one hour a year occurs twice: sessions, "
            "streams and tokens then end up to an hour early or late.",
            hint='Set USE_TZ to True, or TIME_ZONE to a zone without changes, such as "UTC".',
            id="django_mcp.W075",
        )
