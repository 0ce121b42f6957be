"""The database connections of the threads that this package looks after.

Django closes old connections when a request of its own handler starts and ends. MCP messages do
not pass through that handler, so ``call`` and ``RequestThread`` close them: by CONN_MAX_AGE, as
Django does. A kept connection stays with its thread: the next request there uses it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp.runtime.store_operations import close_if_broken

logger = logging.getLogger("django_mcp")

P = ParamSpec("P")
T = TypeVar("T")


RECENT = 0.05
"""Seconds that a checked connection is taken to be neither too old nor closed."""


class _Thread(threading.local):
    """The state of the current thread."""

    is_looked_after = False
    """Whether it belongs to a pool, so that nobody else needs its connections."""
    pins = 0
    """How many functions depend on what was set on the connections."""
    may_have_connections = False
    """To look whether there are any takes 2 µs."""
    closed_at = 0.0
    """When ``close_old`` has looked at them, by the monotonic clock."""


_thread = _Thread()


def call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` as Django calls a view: close old connections before and after."""
    _thread.is_looked_after = True
    close_expired()
    try:
        return function(*args, **kwargs)
    finally:
        close_old()


def close_expired() -> None:
    """Close kept connections which are too old, or which the server has closed meanwhile.

    Within RECENT after ``close_old``, it does nothing: looking takes 10 µs.
    """
    if _thread.may_have_connections and monotonic() - _thread.closed_at > RECENT:
        for connection in connections.all(initialized_only=True):
            try:
                connection.close_if_unusable_or_obsolete()
                close_if_broken(connection)
            except Exception:
                # Whoever uses it next is told. It must not fail a request that does not use it.
                _note_broken(connection)


def close_old() -> None:
    """Close the connections as Django does at the end of a request: by CONN_MAX_AGE.

    Those in a transaction, which nobody will end, are closed in any case. A closed connection is
    forgotten: the next request on this thread finds nothing of its state.
    """
    if not _thread.may_have_connections:
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not is_in_transaction(connection):
            try:
                connection.close_if_unusable_or_obsolete()
                if connection.connection is not None:
                    continue
            except Exception:
                _note_broken(connection)  # It is closed and forgotten next.
        _close(connection)
    _thread.closed_at = monotonic()


def close_old_unless_in_transaction() -> bool:
    """``close_old``, unless a transaction is open; return whether it was done."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and is_in_transaction(connection):
            return False
    close_old()
    return True


def close_all() -> None:
    """Close the connections of this thread, which ends."""
    if _thread.may_have_connections:
        for connection in connections.all(initialized_only=True):
            _close(connection)


def close_unused() -> None:
    """Close the connections of this thread, except those in a transaction, such as a test's.

    For a thread that nobody uses again.
    """
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not is_in_transaction(connection):
            try:
                connection.close()
            except Exception:
                _note_broken(connection)


@contextmanager
def kept() -> Iterator[None]:
    """Keep the connections of this thread open within this context, also while it waits."""
    _thread.pins += 1
    try:
        yield
    finally:
        _thread.pins -= 1


def close_before_wait() -> None:
    """Close the connections of the synchronous handler on this thread, which waits for its client.

    Those in a transaction stay open, and so do those within ``kept``, and those which belong to a
    test or to middleware.
    """
    if _thread.is_looked_after and _thread.may_have_connections and not _thread.pins:
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None and not is_in_transaction(connection):
                connection.close()


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether an open connection has a transaction, which closing it would roll back."""
    return connection.in_atomic_block or not connection.autocommit


def _close(connection: BaseDatabaseWrapper) -> None:
    try:
        connection.close()
    except Exception:
        _note_broken(connection)  # One that is broken cannot be closed, and is forgotten.
    del connections[connection.alias]


def _note_broken(connection: BaseDatabaseWrapper) -> None:
    """Log the error of a connection at the level DEBUG; to be called from within ``except``."""
    logger.debug("The connection to %r is broken", connection.alias, exc_info=True)


def _record(**_: Any) -> None:
    _thread.may_have_connections = True


connection_created.connect(_record, dispatch_uid="django_mcp.connections")
