"""Rolling back the database writes of a handler that requests input by multi round-trips.

Such a handler ends with its input request and runs again from the top when the client responds, so
that its first writes would be made twice. Where the handler declares ``requests_input``, they are
rolled back. Writes before another exception are kept, as in a session. But what Django marks for
rollback is lost: after a database error outside of an ``atomic`` block of the handler, or after
``close``, everything is rolled back, and a handler that goes on as if nothing had happened fails.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp.core.frame.client.multi_round_trip import InputRequired, unwrapped
from django_mcp.runtime import pools, request_scope

T = TypeVar("T")


def run(function: Callable[..., T], /, *args: Any) -> Coroutine[Any, Any, T]:
    """``pools.run``; an input request rolls back what ``function`` wrote."""
    request_scope.begin_handler()
    return pools.run(call, function, *args)


def call(function: Callable[..., T], /, *args: Any) -> T:
    """``run`` on the current thread."""
    handler = HandlerTransaction()
    token = _current.set(handler)
    try:
        handler.begin()
        return function(*args)
    except BaseException as error:
        handler.fail(error)
        raise
    finally:
        _current.reset(token)
        handler.end()


def run_async(coroutine: Coroutine[Any, Any, T], /) -> Coroutine[Any, Any, T]:
    """``run_async`` of ``request_scope``; an input request rolls back writes of the ORM.

    Its database calls have a thread of their own, since transactions belong to threads.
    """
    return request_scope.run_async(_run_async(coroutine))


async def _run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    handler = HandlerTransaction()
    with request_scope.on_one_thread():
        token = _current.set(handler)
        try:
            await sync_to_async(handler.begin)()
            return await coroutine
        except BaseException as error:
            coroutine.close()  # It has not begun if the call was cancelled before.
            handler.fail(error)
            raise
        finally:
            _current.reset(token)
            # A cancellation must not leave a transaction open.
            await asyncio.shield(sync_to_async(handler.end)())


ROLLED_BACK = (
    "The writes of this call were rolled back, because a database error was caught outside of "
    "atomic(), or the connection was closed: use atomic() within the try block"
)


class HandlerTransaction:
    """A transaction on every database that one run of a handler uses.

    It begins at once where a connection is open, and otherwise when one is opened: a handler
    which uses no database has no cost.
    """

    def __init__(self) -> None:
        self._rolls_back = False
        self._has_failed = False
        self._thread: int | None = None
        self._begun: list[tuple[BaseDatabaseWrapper, transaction.Atomic, bool]] = []

    @property
    def is_on_this_thread(self) -> bool:
        # Threads that the handler starts inherit its context and this object, but nobody would
        # end a transaction on their connections.
        return self._thread == threading.get_ident()

    def begin(self) -> None:
        self._thread = threading.get_ident()
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None:
                # A connection that is broken, or that a test forbids, raises again when the handler
                # uses it, if it does: a handler without a database must not fail here.
                with suppress(Exception):
                    self.begin_on(connection)

    def begin_on(self, connection: BaseDatabaseWrapper) -> None:
        if connection.in_atomic_block and connection.needs_rollback:
            return  # An outer transaction, whose error came before: nothing can be written.
        is_outermost = not connection.in_atomic_block
        block = transaction.atomic(using=connection.alias)
        block.__enter__()
        self._begun.append((connection, block, is_outermost))

    def fail(self, error: BaseException) -> None:
        """Note the exception of the handler: an input request rolls back."""
        self._has_failed = True
        self._rolls_back = isinstance(unwrapped(error), InputRequired)

    def end(self) -> None:
        """End every transaction; then raise the first error, such as a failed commit."""
        self._thread = None
        errors: list[Exception] = []
        is_marked = any(connection.needs_rollback for connection, _, _ in self._begun)
        if is_marked and not self._has_failed:
            # On all databases: a model that repeats the call must not write twice on one of them.
            errors.append(transaction.TransactionManagementError(ROLLED_BACK))
            self._rolls_back = True
        for connection, block, is_outermost in reversed(self._begun):
            if is_outermost:
                # An atomic block of the handler which opened the connection found a transaction
                # that it had not begun, and left the commit to somebody else.
                connection.commit_on_exit = True
            try:
                if self._rolls_back:
                    transaction.set_rollback(True, using=connection.alias)
                block.__exit__(None, None, None)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _on_new_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if (handler := _current.get()) is not None and handler.is_on_this_thread:
        handler.begin_on(connection)


_current: ContextVar[HandlerTransaction | None] = ContextVar("django_mcp.handler", default=None)

connection_created.connect(_on_new_connection, dispatch_uid="django_mcp.rollback")
