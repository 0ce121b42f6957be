"""Databases to try things on: SQLite in a file, and the servers which this machine may have.

A server is looked for where the environment says (PGHOST, MYSQL_HOST, …), else on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_mcp import threads

SCRATCH = f"django_mcp_scratch_{os.getpid()}"

SERVERS: Mapping[str, Mapping[str, Any]] = {
    "postgresql": {
        "NAME": "postgres",
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", ""),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
    },
    "mysql": {
        "NAME": "mysql",
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "PORT": os.environ.get("MYSQL_PORT", ""),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PASSWORD", ""),
    },
}
DRIVERS = {"postgresql": "psycopg", "mysql": "MySQLdb"}

KINDS = ("sqlite3", *SERVERS)


@contextmanager
def scratch_database(kind: str, folder: Path, **options: Any) -> Iterator[str]:
    """The alias of a migrated database of this kind, which is gone afterwards.

    ``options`` are entries of its ``DATABASES``. Skips, and says why, where there is no server.
    """
    if kind in DRIVERS and not find_spec(DRIVERS[kind]):
        pytest.skip(f"{kind}: the driver {DRIVERS[kind]} is not installed")
    alias = f"scratch_{kind}"
    name = str(folder / "scratch.sqlite3") if kind == "sqlite3" else SCRATCH
    described = {"ENGINE": f"django.db.backends.{kind}", "NAME": name, "TEST": {"NAME": name}}
    connections.settings[alias] = {**described, **SERVERS.get(kind, {}), **options}
    connections.configure_settings(connections.settings)
    try:
        with _migrated(alias):
            yield alias
    finally:
        del connections[alias], connections.settings[alias]


@contextmanager
def _migrated(alias: str) -> Iterator[None]:
    connection = connections[alias]
    before = connection.settings_dict["NAME"]
    try:
        connection.ensure_connection()
    except OperationalError as error:
        pytest.skip(f"No server answers for {alias}: {error}")
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        threads.shutdown()  # Their connections would keep the database.
        connection.creation.destroy_test_db(before, verbosity=0)
