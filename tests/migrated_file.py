"""A SQLite file with the tables of all installed apps.

The migrations take seconds, so the first process of a run that needs such a file applies them, and
all others copy its result. Tests may install further apps: there is a file for each set of apps.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connections, transaction
from pytest_django import DjangoDbBlocker


class Run:
    """What the processes of one run of pytest have in common; tests/conftest.py sets it."""

    folder: Path | None = None
    blocker: DjangoDbBlocker
    """Of pytest-django: tests may need the file without access to a database."""
    at_its_end = ExitStack()
    """What this process removes at its end."""


RUN = Run()


def copy(to: Path) -> Path:
    """Copy the file, which is made first where there is none, and return what was copied."""
    assert RUN.folder is not None
    made = RUN.folder / f"migrated-{key_of_apps()}.sqlite3"
    with (RUN.folder / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _migrate(made)
    shutil.copy(made, to)
    return made


def restore(alias: str, file: Path) -> None:
    """Give the tables of a copy of the file the rows that they had at first."""
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
        cursor.execute("ATTACH DATABASE %s AS migrated", [str(file)])
        try:
            with transaction.atomic(using=alias):
                _restore_rows(cursor)
        finally:
            cursor.execute("DETACH DATABASE migrated")
            cursor.execute("PRAGMA foreign_keys = ON")


def _restore_rows(cursor: Any) -> None:
    tables = "SELECT name FROM migrated.sqlite_master WHERE type = 'table' AND sql NOT NULL"
    cursor.execute(f"{tables} AND name NOT LIKE 'sqlite_%%'", [])
    for (table,) in cursor.fetchall():
        differs = (
            f'SELECT EXISTS(SELECT * FROM main."{table}" EXCEPT SELECT * FROM migrated."{table}")'
            f' OR EXISTS(SELECT * FROM migrated."{table}" EXCEPT SELECT * FROM main."{table}")'
        )
        cursor.execute(differs)
        if cursor.fetchone()[0]:
            cursor.execute(f'DELETE FROM main."{table}"')
            cursor.execute(f'INSERT INTO main."{table}" SELECT * FROM migrated."{table}"')


def key_of_apps() -> str:
    """What differs between two sets of installed apps."""
    return hashlib.sha256(repr(settings.INSTALLED_APPS).encode()).hexdigest()[:16]


def _migrate(file: Path) -> None:
    alias = f"migrated_{os.getpid()}"
    unfinished = file.with_suffix(".unfinished")
    with RUN.blocker.unblock(), configured(alias, "sqlite3"):
        connections.settings[alias]["NAME"] = str(unfinished)
        call_command("migrate", database=alias, verbosity=0, interactive=False, run_syncdb=True)
        connections[alias].close()
    unfinished.rename(file)


@contextmanager
def configured(alias: str, kind: str, **options: Any) -> Iterator[None]:
    """Add an entry to DATABASES."""
    described = {"ENGINE": f"django.db.backends.{kind}", "NAME": alias, "TEST": {"NAME": alias}}
    connections.settings[alias] = {**described, **options}
    connections.configure_settings(connections.settings)
    try:
        yield
    finally:
        with suppress(AttributeError):  # Nothing has connected.
            del connections[alias]
        del connections.settings[alias]
