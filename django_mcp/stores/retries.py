"""Doing an operation of the database again after a conflict with a concurrent writer."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.db import OperationalError, connections

from django_mcp.stores.base import AsyncMethod, StoreBusy, on_thread, write_timeout

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

CONFLICTS = frozenset(
    {
        "40001",  # SQLSTATE: a serialization failure,
        "40P01",  # a deadlock,
        "55P03",  # a lock that is not available.
        1020,  # MySQL and MariaDB: the record has changed since it was read,
        1205,  # the wait for a lock has timed out,
        1213,  # a deadlock,
        3572,  # a lock is not available at once.
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    }
)
"""Codes of the errors of databases about concurrent writers."""

PHRASES = (
    "database is locked",
    "table is locked",
    "deadlock detected",
    "deadlock found",
    "lock timeout",
    "lock wait timeout",
    "restarting transaction",
    "serialize access",
)
"""Parts of the messages about them, for drivers without a code. Other messages name hosts and
accounts: a word such as ``lock`` may be a part of those."""


class ConcurrentUpdate(Exception):
    """The row has changed since it was read."""


def is_conflict(error: Exception) -> bool:
    """Whether ``error`` is about a concurrent writer, so that another attempt may succeed."""
    if not isinstance(error, OperationalError):
        return isinstance(error, ConcurrentUpdate)
    code = _code_of(error.__cause__ or error)
    if code is not None:
        return code in CONFLICTS
    text = str(error).lower()
    return any(phrase in text for phrase in PHRASES)


def _code_of(error: BaseException) -> str | int | None:
    """The code that a driver gives to an error, if it does."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is not None:
        return str(state)
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    if extended is not None:
        return extended & 0xFF  # The rest says more of the same error.
    first = error.args[0] if error.args else None
    return first if isinstance(first, int) else None


def retried_on_thread(method: Callable[Concatenate[S, P], T]) -> AsyncMethod[S, P, T]:
    """Run a method on a thread for stores, again while other writers are in conflict."""

    @on_thread
    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _until_free(lambda: method(self, *args, **kwargs))

    return run


def retried(function: Callable[[], T], *, using: str) -> T:
    """Return the result of ``function``, and call it again after a conflict with other writers.

    Not within a transaction, which has ended then: its own owner has to begin again. Raises
    StoreBusy if the conflicts do not end in time.
    """
    return function() if connections[using].in_atomic_block else _until_free(function)


def _until_free(function: Callable[[], T]) -> T:
    """Call a function until no other writer is in conflict; raises StoreBusy after a while."""
    deadline = time.monotonic() + write_timeout()
    while True:
        try:
            return function()
        except (ConcurrentUpdate, OperationalError) as error:
            if not is_conflict(error):
                raise
            if time.monotonic() > deadline:
                raise StoreBusy from error
        time.sleep(random.uniform(0.001, 0.02))  # So that not all retry at once.


def _call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


run_retried = retried_on_thread(_call)
"""Runs a function on a thread for stores, again after a conflict: one that has no effect then."""
