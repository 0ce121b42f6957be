"""Findings within this project, where ``mcp_doctor`` examines one of its own servers.

A client cannot see them, or sees them only when a user has logged in.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.cache import caches
from django.core.cache.backends.base import InvalidCacheBackendError
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, router
from django.db.migrations.executor import MigrationExecutor

from django_mcp import conf, registry
from django_mcp.checks import serving
from django_mcp.core.protocol import origins
from django_mcp.management.findings.base import (
    Answer,
    Finding,
    failure,
    is_local,
    note,
    ok,
    split,
    warning,
)
from django_mcp.management.findings.endpoint import challenge
from django_mcp.transports.http.paths import Paths

CHECKS = "django_mcp"
"""The tag of the system checks of this package."""
NEEDED_APPS = frozenset({"auth", "contenttypes", "oauth2_provider", "sessions"})
"""Apps of others with tables that a login needs."""
STORES_APP = "django_mcp"
"""The app with the tables of the stores."""
OF_LOGINS = frozenset({"django_mcp.W012", "django_mcp.W068"})
"""The warnings of checks that say why a client never asks its user to log in."""
NO_APPLICATION = "django_mcp.W021"
"""The warning about an application that cannot be imported: nothing is served."""
PROBE_KEY = "django_mcp.doctor"
PROBE_SECONDS = 5


def is_own(url: str) -> bool:
    """Whether ``url`` belongs, as far as settings say, to a server of this project."""
    paths = Paths({registry.path(server): server for server in registry.mountable()})
    base = urlsplit(conf.get().base_url or "")
    path = split(url).path.removeprefix(base.path.rstrip("/"))
    if paths.find(path) is None:
        return False
    if base.netloc:
        return is_local(url) or base.netloc == split(url).netloc
    return origins.host_allowed(split(url).netloc, conf.allowed_hosts())


def of_project() -> Iterator[Finding]:
    """Yield what system checks, databases and caches say."""
    problems = [*of_checks(), *of_databases(), *of_caches()]
    yield from problems or [ok("System checks, tables and caches")]


def of_mount() -> Iterator[Finding]:
    """Yield which applications mount the servers, and which do not although another one does."""
    mounts = serving.mounting()
    mounted = " and ".join(path for path, is_mounted in mounts.values() if is_mounted)
    for interface, (path, is_mounted) in mounts.items():
        if is_mounted:
            yield ok(f"{path} mounts the MCP servers, for {interface} servers")
        else:
            yield note(
                f"{path} does not mount the MCP servers, so that {interface} servers answer 404: "
                f"{mounted or 'no other application'} does.",
                serving.HINTS[interface],
            )


def of_checks() -> Iterator[Finding]:
    """Yield the errors that ``manage.py check`` prints for this package, and missing logins."""
    for message in checks.run_checks(tags=[CHECKS]):
        if message.is_silenced():
            continue
        text = f"{message.id}: {message.msg}"
        if message.level >= checks.ERROR or message.id == NO_APPLICATION:
            yield failure(text, message.hint or "")
        elif message.id in OF_LOGINS or str(message.id).startswith("django_mcp_oauth."):
            yield warning(text, message.hint or "")


def of_databases() -> Iterator[Finding]:
    """Yield databases that do not answer, and those without the tables that a login needs."""
    for alias in connections:
        try:
            missing = sorted(apps_without_tables(alias))
        except ImproperlyConfigured:
            continue  # Only a name, without an engine.
        except DatabaseError as error:
            yield failure(
                f"The database {alias!r} does not answer: {type(error).__name__}.",
                "Start it, or correct DATABASES.",
            )
        else:
            if missing:
                labels = ", ".join(missing)
                yield failure(
                    f"Migrations of {labels} are not applied to the database {alias!r}.",
                    "Run manage.py migrate.",
                )


def apps_without_tables(alias: str) -> set[str]:
    """Return the labels of the apps that need tables, and have migrations that are not applied."""
    executor = MigrationExecutor(connections[alias])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    labels = {migration.app_label for migration, _ in plan}
    needed = {label for label in labels if label in NEEDED_APPS or label.startswith("django_mcp")}
    return {label for label in needed if alias in aliases_of(label)}


def aliases_of(label: str) -> set[str]:
    """Return the databases that the tables of an app are read from, and written to."""
    models = [*apps.get_app_config(label).get_models()]
    choices = (router.db_for_read, router.db_for_write)
    aliases = {choose(model) for choose in choices for model in models}
    if label == STORES_APP:
        # The stores may have a database of their own without a router.
        options = [backend.options for backend in conf.get().stores.values()]
        aliases |= {given["using"] for given in options if given.get("using")}
    return aliases


def of_caches() -> Iterator[Finding]:
    """Yield the caches that do not answer and that this package uses."""
    for alias in sorted(used_caches()):
        try:
            caches[alias].set(PROBE_KEY, "1", PROBE_SECONDS)
            caches[alias].get(PROBE_KEY)
        except InvalidCacheBackendError as error:
            yield failure(f"The cache {alias!r} cannot be used: {error}", "Correct CACHES.")
        except Exception as error:  # Each backend has exceptions of its own.
            yield failure(
                f"The cache {alias!r} does not answer: {type(error).__name__}.",
                "Start it, or correct CACHES: registrations and documents of clients are in it.",
            )


def used_caches() -> set[str]:
    """Return the aliases of the caches of the stores, and of the authorization server."""
    backends = conf.get().stores.values()
    used = {
        backend.options.get("alias", "default")
        for backend in backends
        if backend.path.startswith("django_mcp.stores.cache.")
    }
    return used | {"default"} if apps.is_installed("django_mcp.contrib.oauth") else used


def of_authorization_header(answer: Answer) -> Iterator[Finding]:
    """Yield whether the answer to a token that nobody issued shows that the token arrived."""
    has_arrived = answer.status >= 500 or (challenge(answer) or {}).get("error")
    if answer.status == 401 and not has_arrived:
        yield failure(
            "The Authorization header does not arrive: a token is answered as no token is.",
            "Let the proxy, and whatever else is in front of the site, pass the header on.",
        )


def settings_module() -> str:
    """Return the name of the settings, for the heading."""
    return str(getattr(settings, "SETTINGS_MODULE", "") or "settings")
