"""Database servers that tests use if they are available; and SQLite in a file.

The environment variables PGHOST, MYSQL_HOST and so on name the servers; the default is this
machine. With DRIVERS_REQUIRED, tests fail without a driver, and are skipped without a server.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_mcp.runtime import threads

SCRATCH = (f"django_mcp_scratch_{os.getpid()}_{number}" for number in count())

SERVERS: Mapping[str, Mapping[str, Any]] = {
    "postgresql": {
        "NAME": "postgres",
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
    },
    "mysql": {
        "NAME": "mysql",
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "PORT": os.environ.get("MYSQL_PORT", "3306"),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PASSWORD", ""),
    },
}
DRIVERS = {"postgresql": "psycopg", "mysql": "MySQLdb"}

KINDS = ("sqlite3", *SERVERS)


def why_not(driver: str, host: str, port: int) -> str | None:
    """Return why a server cannot be used, or None if it can."""
    if not find_spec(driver):
        required = os.environ.get("DRIVERS_REQUIRED")
        return None if required else f"the driver {driver} is not installed"
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return f"no server listens at {host}:{port}"
    return None


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
    name = str(folder / "scratch.sqlite3") if kind == "sqlite3" else alias
    described = {"ENGINE": f"django.db.backends.{kind}", "NAME": name, "TEST": {"NAME": name}}
    connections.settings[alias] = {**described, **SERVERS.get(kind, {}), **options}
    connections.configure_settings(connections.settings)
    try:
        with _migrated(alias):
            yield alias
    finally:
        del connections.settings[alias], connections[alias]


@contextmanager
def _migrated(alias: str) -> Iterator[None]:
    connection = connections[alias]
    before = connection.settings_dict["NAME"]
    try:
        connection.ensure_connection()
    except OperationalError as error:
        pytest.skip(f"The server does not let us in: {error}")
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        threads.shutdown()  # Open connections would block the deletion of the database.
        connection.creation.destroy_test_db(before, verbosity=0)
