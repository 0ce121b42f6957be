"""Database servers and Redis, which tests use if they are available; and SQLite in a file.

The environment variables DATABASE_URL (PostgreSQL), MYSQL_URL and REDIS_URL name the servers, or
PGHOST, MYSQL_HOST and so on; the default is this machine. With DRIVERS_REQUIRED, tests fail without
a driver, and with SERVICES_REQUIRED without a server; otherwise they are skipped.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError, connections

from django_mcp.runtime import pools
from tests import migrated_file
from tests.migrated_file import RUN

SCRATCH = (f"django_mcp_scratch_{os.getpid()}_{number}" for number in count())


def _server(url: str, prefix: str, **defaults: str) -> Mapping[str, Any]:
    """An entry of DATABASES, of the variable ``url``, or else of those with a prefix."""
    given = urlsplit(os.environ.get(url, ""))
    parts = {
        "HOST": given.hostname or "",
        "PORT": str(given.port or ""),
        "USER": given.username or "",
        "PASSWORD": given.password or "",
    }
    return {
        "NAME": defaults["NAME"],
        **{
            key: value or os.environ.get(f"{prefix}{key}", defaults.get(key, ""))
            for key, value in parts.items()
        },
    }


SERVERS: Mapping[str, Mapping[str, Any]] = {
    "postgresql": _server(
        "DATABASE_URL", "PG", NAME="postgres", HOST="127.0.0.1", PORT="5432", USER="postgres"
    ),
    "mysql": _server(
        "MYSQL_URL", "MYSQL_", NAME="mysql", HOST="127.0.0.1", PORT="3306", USER="root"
    ),
}
DRIVERS = {"postgresql": "psycopg", "mysql": "MySQLdb"}

KINDS = (
    "sqlite3",
    "postgresql",
    pytest.param("mysql", marks=pytest.mark.nightly),
)
"""Databases as parameters of a test."""

IS_REQUIRED = os.environ.get("SERVICES_REQUIRED") == "1"

REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")


def why_not(driver: str, host: str, port: int) -> str | None:
    """Return why a server cannot be used, or None if it can."""
    if not find_spec(driver):
        required = os.environ.get("DRIVERS_REQUIRED")
        return None if required else f"the driver {driver} is not installed"
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        # What is required is used, and fails.
        return None if IS_REQUIRED else f"no server listens at {host}:{port}"
    return None


def available(*kinds: Any) -> list[Any]:
    """The databases that can be used here, of some or all kinds, as parameters of a fixture."""
    return [kind for kind in kinds or KINDS if not why_not_database(name_of(kind))]


def name_of(kind: Any) -> str:
    """The name of a kind, which is a parameter with marks or a name."""
    return kind if isinstance(kind, str) else str(kind.values[0])


def skip(reason: str) -> NoReturn:
    """Skip the test, or let it fail if services are required."""
    if IS_REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def why_not_redis(driver: str) -> str | None:
    """Return why Redis cannot be used with this package, or None."""
    found = urlsplit(REDIS_URL)
    return why_not(driver, found.hostname or "127.0.0.1", found.port or 6379)


def why_not_database(kind: str) -> str | None:
    """Return why a kind of database cannot be used, or None if it can."""
    server = SERVERS.get(kind)
    if server is None:
        return None
    return why_not(DRIVERS[kind], server["HOST"], int(server["PORT"]))


@contextmanager
def scratch_database(kind: str, folder: Path, **options: Any) -> Iterator[str]:
    """Yield the alias of a migrated database of this kind, and delete it afterwards.

    ``options`` are entries of its ``DATABASES``. Skips the test if the login fails.
    """
    alias = next(SCRATCH)
    if kind == "sqlite3":
        file = folder / "scratch.sqlite3"
        migrated_file.copy(file)
        database = _copied(alias, str(file))
    else:
        database = _migrated(alias)
        if kind == "postgresql":
            options = {"TEST": _copied_from_template(alias), **options}
    with migrated_file.configured(alias, kind, **{**SERVERS.get(kind, {}), **options}), database:
        yield alias


@contextmanager
def _copied(alias: str, file: str) -> Iterator[None]:
    connections.settings[alias]["NAME"] = file
    try:
        yield
    finally:
        pools.shutdown()
        connections[alias].close()
        Path(file).unlink()


def _copied_from_template(alias: str) -> Mapping[str, Any]:
    """The entry of a database that PostgreSQL copies from one whose migrations are applied once."""
    apps = migrated_file.key_of_apps()
    if apps not in TEMPLATES:
        template = next(SCRATCH)
        RUN.at_its_end.enter_context(_template(template))
        TEMPLATES[apps] = template
    return {"NAME": alias, "TEMPLATE": TEMPLATES[apps], "MIGRATE": False}


@contextmanager
def _template(name: str) -> Iterator[None]:
    """A migrated database, which is in DATABASES only while it is made and deleted.

    Otherwise, tests of everything in DATABASES would find it.
    """
    with ExitStack() as migrated:
        with migrated_file.configured(name, "postgresql", **SERVERS["postgresql"]):
            migrated.enter_context(_migrated(name))
            connections[name].close()
            entry = connections.settings[name]
        yield
        with migrated_file.configured(name, "postgresql", **entry):
            migrated.close()


TEMPLATES: dict[str, str] = {}
"""Names of migrated databases by the installed apps; they stay until the end of the run."""


@contextmanager
def _migrated(alias: str) -> Iterator[None]:
    connection = connections[alias]
    before = connection.settings_dict["NAME"]
    try:
        connection.ensure_connection()
    except OperationalError as error:
        skip(f"The server does not let us in: {error}")
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        pools.shutdown()  # Open connections would block the deletion of the database.
        connection.creation.destroy_test_db(before, verbosity=0)


STRICT_OPTIONS = {
    "postgresql": {"isolation_level": 4},  # psycopg.IsolationLevel.SERIALIZABLE
    "mysql": {
        "isolation_level": "repeatable read",
        "init_command": "SET sql_auto_is_null = 0 /*M!100618 , innodb_snapshot_isolation = 1 */",
    },
}
