"""Undoing what a handler wrote to the database before it had to ask.

A handler that asks by rounds ends with its question and runs again from the top when the
answer is there; without this, whatever it writes first would be written twice. Only the
question undoes: what is written before any other error stays, as it does in a session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp.frame.client.multi_round_trip import InputRequired
from django_mcp.runtime import threads

T = TypeVar("T")


def run(function: Callable[..., T], /, *args: Any) -> Coroutine[Any, Any, T]:
    """``threads.run``, where a question undoes what ``function`` wrote."""
    return threads.run(_run, function, *args)


def _run(function: Callable[..., T], /, *args: Any) -> T:
    attempt = HandlerTransaction()
    token = _current.set(attempt)
    try:
        attempt.begin()
        return function(*args)
    except InputRequired:
        attempt.is_undone = True
        raise
    finally:
        attempt.end()
        _current.reset(token)


def run_async(coroutine: Coroutine[Any, Any, T], /) -> Coroutine[Any, Any, T]:
    """The result of ``coroutine``, where a question undoes what it wrote by the async ORM.

    It has a thread for its database calls to itself, since transactions belong to threads.
    """
    return threads.run_async(_run_async(coroutine))


async def _run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    attempt = HandlerTransaction()
    token = _current.set(attempt)
    await sync_to_async(attempt.begin)()
    try:
        return await coroutine
    except InputRequired:
        attempt.is_undone = True
        raise
    finally:
        await sync_to_async(attempt.end)()
        _current.reset(token)


class HandlerTransaction:
    """One run of a handler: a transaction on every database that it uses.

    One that is connected already is begun at once, another as soon as it is connected: a
    handler which uses no database costs no database anything.
    """

    def __init__(self) -> None:
        self.is_undone = False
        self._thread: int | None = None
        """The thread on which it uses databases, as long as it runs."""
        self._begun: list[tuple[BaseDatabaseWrapper, transaction.Atomic, bool]] = []

    @property
    def is_here(self) -> bool:
        """Whether this thread connects for the handler.

        What a handler sets in motion inherits its context, and with it the attempt: a store
        that keeps an announcement, for one, on a thread whose connection nobody would end.
        """
        return self._thread == threading.get_ident()

    def begin(self) -> None:
        """Begin a transaction on each database that this thread is connected to."""
        self._thread = threading.get_ident()
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None:
                # One that does not work any more is for the handler to notice, if it uses it.
                with suppress(Exception):
                    self.begin_on(connection)

    def begin_on(self, connection: BaseDatabaseWrapper) -> None:
        """Begin a transaction, or a savepoint where there is one."""
        is_outermost = not connection.in_atomic_block
        block = transaction.atomic(using=connection.alias)
        block.__enter__()
        self._begun.append((connection, block, is_outermost))

    def end(self) -> None:
        """Commit, or after a question roll back."""
        self._thread = None
        for connection, block, is_outermost in reversed(self._begun):
            if is_outermost:
                # A block which connected the database saw a transaction that it did not
                # begin, and took it for one that somebody else ends.
                connection.commit_on_exit = True
            if self.is_undone:
                transaction.set_rollback(True, using=connection.alias)
            block.__exit__(None, None, None)


def _begin_on_new(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    attempt = _current.get()
    if attempt is not None and attempt.is_here:
        attempt.begin_on(connection)


_current: ContextVar[HandlerTransaction | None] = ContextVar("django_mcp.attempt", default=None)

connection_created.connect(_begin_on_new, dispatch_uid="django_mcp.undo")
