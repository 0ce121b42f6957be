"""Which errors of databases are about a concurrent writer."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError

from django_mcp.stores.retries import ConcurrentUpdate, is_conflict


class DriverError(Exception):
    """As those of drivers, which give codes by attributes of their own."""

    def __init__(self, *args: Any, **codes: Any) -> None:
        super().__init__(*args)
        vars(self).update(codes)


POSTGRESQL_AWAY = 'connection to server at "db.clockwork.internal", port 5432 failed'
MARIADB_BLOCKED = "Host '10.0.0.7' is blocked because of many connection errors"
MYSQL_LOCKED = "Access denied for user 'shop'@'db'. Account is locked."


@pytest.mark.parametrize(
    ("driver_error", "expected"),
    [
        (DriverError("could not serialize access", sqlstate="40001"), True),
        (DriverError("deadlock detected", pgcode="40P01"), True),
        (DriverError("canceling statement due to lock timeout", sqlstate="55P03"), True),
        (DriverError("the database system is starting up", sqlstate="57P03"), False),
        (DriverError('role "deadlock detected" is not permitted', sqlstate="28000"), False),
        (DriverError(POSTGRESQL_AWAY, sqlstate=None), False),
        (DriverError('could not translate host name "deadlock"', pgcode=None), False),
        (DriverError(1020, "Record has changed; try restarting transaction"), True),
        (DriverError(1205, "Lock wait timeout exceeded"), True),
        (DriverError(1213, "Deadlock found when trying to get lock"), True),
        (DriverError(3572, "Statement aborted because lock(s) could not be acquired"), True),
        (DriverError(1129, MARIADB_BLOCKED), False),
        (DriverError(3118, MYSQL_LOCKED), False),
        (DriverError("locked", sqlite_errorcode=sqlite3.SQLITE_BUSY), True),
        (DriverError("locked", sqlite_errorcode=sqlite3.SQLITE_BUSY_SNAPSHOT), True),
        (DriverError("locked", sqlite_errorcode=sqlite3.SQLITE_LOCKED), True),
        (DriverError("unable to open block.db", sqlite_errorcode=sqlite3.SQLITE_CANTOPEN), False),
        (DriverError("database is locked"), True),
        (DriverError("database table is locked: django_mcp_session"), True),
        (DriverError("ORA-00060: deadlock detected while waiting for resource"), True),
        (DriverError("ORA-08177: can't serialize access for this transaction"), True),
        (DriverError("cannot deserialize the answer of the server"), False),
        (DriverError(), False),
    ],
)
def test_conflict_is_told_by_code_or_phrase(driver_error: Exception, expected: bool) -> None:
    error = OperationalError(*driver_error.args)
    error.__cause__ = driver_error
    assert is_conflict(error) is expected


def test_other_errors_than_operational_ones_are_conflicts_by_their_class() -> None:
    assert is_conflict(ConcurrentUpdate())
    assert not is_conflict(IntegrityError("database is locked"))
