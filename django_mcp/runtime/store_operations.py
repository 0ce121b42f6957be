"""The time limit of operations on stores, which run on threads.

An operation that waits for a server which hangs cannot be cancelled. Whoever waits for it is
answered in time, and its thread gets free because the connection it waits on is shut down. While
operations are late, only one at a time tries the server, and all others fail at once: so no
request waits in vain, and the one after the server's return works.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp.core.protocol.errors import ServerBusy

T = TypeVar("T")

MAX_LATE = 3
"""Operations in a row that may be late before others fail at once."""


class StoreUnavailable(ServerBusy):
    """A store does not answer, or not in time. The same request may succeed soon."""

    default_message = "A store of this server does not answer"
    retry_after = 2


def _unavailable(error: ServerBusy) -> StoreUnavailable:
    """The error of an operation that found no free thread, or was late."""
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable()


class _Operation:
    """One operation, with the ``connections`` of its thread."""

    __slots__ = ("connections", "is_over", "source")

    def __init__(self) -> None:
        self.connections: Iterable[BaseDatabaseWrapper] = ()
        self.is_over = False
        self.source: Future[Any] | None = None


class StoreOperations:
    """The operations which run on the threads of one pool, for all event loops."""

    def __init__(self, pool: Executor, size: int) -> None:
        self._pool = pool
        self._size = size
        self._guard = threading.Lock()
        self._hanging: set[_Operation] = set()
        """Late operations that still occupy their threads."""
        self._late = 0
        """How many in a row were late."""
        self._probe: _Operation | None = None
        """The one operation that tries a server which does not answer."""

    async def run(self, function: Callable[[], T], limit: float) -> T:
        """The result of ``function``.

        Raises StoreUnavailable after ``limit`` seconds, or if no thread was free for it.
        """
        operation = self._begin()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()
        try:
            source = operation.source = self._pool.submit(self._call, operation, function)
            timer = loop.call_later(limit, self._expire, operation, waiting)
            source.add_done_callback(partial(_pass_on, loop, waiting))
            try:
                return await waiting
            finally:
                # If nobody waits any more, a thread that hangs has to get free all the same.
                if not waiting.cancelled() or source.cancel():
                    timer.cancel()
        except ServerBusy as error:
            raise _unavailable(error) from None
        finally:
            self._end(operation)

    def call(self, function: Callable[[], T], limit: float) -> T:
        """``run`` for synchronous code, which waits on its own thread."""
        operation = self._begin()
        try:
            source: Future[T] = self._pool.submit(self._call, operation, function)
            operation.source = source
            return source.result(limit)
        except ServerBusy as error:
            raise _unavailable(error) from None
        except TimeoutError:
            if source.done():
                raise
            self._give_up(operation)
            raise StoreUnavailable from None
        finally:
            self._end(operation)

    def _begin(self) -> _Operation:
        operation = _Operation()
        if self._late >= MAX_LATE or self._hanging:
            with self._guard:
                is_full = len(self._hanging) >= self._size
                if is_full or (self._late >= MAX_LATE and self._probe is not None):
                    raise StoreUnavailable
                if self._late >= MAX_LATE:
                    self._probe = operation
        return operation

    def _end(self, operation: _Operation) -> None:
        if self._probe is operation:
            self._probe = None

    def _call(self, operation: _Operation, function: Callable[[], T]) -> T:
        operation.connections = _here.connections.values()
        try:
            return function()
        finally:
            with self._guard:
                operation.is_over = True
                if operation in self._hanging:
                    self._hanging.discard(operation)
                else:
                    self._late = 0

    def _expire(self, operation: _Operation, waiting: asyncio.Future[Any]) -> None:
        if self._give_up(operation) and not waiting.done():
            waiting.set_exception(StoreUnavailable())

    def _give_up(self, operation: _Operation) -> bool:
        """Count an operation as late; False if it is over, and its result is on the way."""
        assert operation.source is not None
        if not operation.source.cancel():
            with self._guard:
                if operation.is_over:
                    return False
                self._hanging.add(operation)
                self._late += 1
            for connection in tuple(operation.connections):
                _shut_down(connection)
        return True


def _pass_on(
    loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[Any], source: Future[Any]
) -> None:
    with suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(_copy, source, waiting)


def _copy(source: Future[Any], waiting: asyncio.Future[Any]) -> None:
    if waiting.done():
        return
    if source.cancelled():
        waiting.cancel()
    elif (error := source.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(source.result())


def _without_socket(connection: BaseDatabaseWrapper) -> tuple[type[Exception], ...]:
    """Errors of a connection that is closed, or has no socket that the driver shows.

    For a closed one, ``psycopg`` raises an error of its own, which is not an OSError.
    """
    driver: Any = connection
    return (AttributeError, OSError, ValueError, driver.Database.Error)


def _shut_down(connection: BaseDatabaseWrapper) -> None:
    """Shut the socket of a connection down, so that a thread which waits for it gets an error."""
    with suppress(*_without_socket(connection)):
        raw: Any = connection.connection
        with socket.socket(fileno=os.dup(raw.fileno())) as shared:
            raw.fileno()  # Raises if it was closed meanwhile: then its number may be another's.
            shared.shutdown(socket.SHUT_RDWR)


def close_if_broken(connection: BaseDatabaseWrapper) -> None:
    """Close an idle connection that its server has closed, because it was restarted.

    An idle connection has nothing else to read. Looking takes 2 µs, a query 20 to 50 µs.
    """
    raw: Any = connection.connection
    if raw is None:
        return
    try:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLIN)
        has_news = bool(poll.poll(0))
    except _without_socket(connection):
        return
    if has_news and not connection.in_atomic_block and not connection.is_usable():
        connection.close()


class _Here(threading.local):
    """The connections that were opened on the current thread, by alias."""

    def __init__(self) -> None:
        self.connections: dict[str, BaseDatabaseWrapper] = {}


_here = _Here()


def _record(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    _here.connections[connection.alias] = connection


connection_created.connect(_record, dispatch_uid="django_mcp.store_operations")
