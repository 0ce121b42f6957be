"""The thread of one request for its ORM calls, which is one of a limited number.

asgiref promises that the thread-sensitive calls of a request run on one thread, since transactions
belong to threads. A request therefore has its thread from its first call to its end. In between
it may rest, while it waits for its client: its next call may then run on another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.runtime.pools.daemon_pool import DaemonPool
from django_mcp.runtime.store_operations import close_if_broken

P = ParamSpec("P")
T = TypeVar("T")
Call = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Calls = SimpleQueue[Call | None]
"""The calls of a request, for the thread which it has. None ends the thread."""


class RequestThreads(DaemonPool):
    """At most ``size`` threads, each of which serves one request at a time."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(size, name)
        self.lent: dict[RequestThread, None] = {}
        """Requests which need their thread only if they make another call."""
        self.serving: set[RequestThread] = set()

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, timeout: float | None = None
    ) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        for thread in tuple(self.serving):
            thread.abandon()
        super().shutdown(wait, timeout=timeout)

    def leave(self) -> None:
        _close_all()

    def recall(self) -> None:
        """Take one thread back, if one is lent."""
        with suppress(KeyError):
            while self.lent.popitem()[0].rest() is None:
                pass

    def _watch(self, max_wait: float) -> None:
        super()._watch(max_wait)
        self.recall()


class RequestThread(Executor):
    """Runs the calls of one request, one after the other. Any thread may use it."""

    def __init__(self, pool: RequestThreads) -> None:
        self.pins = 0
        """How many handlers need all of their calls on the same thread."""
        self._pool = pool
        self._lock = threading.Lock()
        self._calls: Calls | None = None
        """None while the request has no thread."""
        self._serving: Future[None] | None = None
        self._unfinished = 0
        self._is_over = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self._pool.lent.pop(self, None)
        with self._lock:
            begins = self._calls is None
            if self._calls is None:
                self._calls = SimpleQueue()
            future, calls = self._add(self._calls, function, *args, **kwargs), self._calls
        if begins:
            self._begin(calls)
        return future

    def lend(self) -> None:
        """Let others have the thread, if they need one before this request makes a call."""
        if self._calls is None or self.pins:
            return
        if any(map(_is_pooled, connections.settings.values())):
            self.rest()  # Others may wait for its connection.
        else:
            self._pool.lent[self] = None
            if self._pool.is_busy:
                self._pool.recall()

    def rest(self) -> Future[bool] | None:
        """Close the connections and give the thread back, unless there is a transaction."""
        with self._lock:
            if self._calls is None or self._unfinished or self.pins:
                return None
            return self._add(self._calls, _close_outside_transactions)

    def end(self) -> Future[None] | None:
        """Close old connections and give the thread back, because the request is over.

        Nobody waits for that while a call still runs, because its request was cancelled.
        """
        self._pool.lent.pop(self, None)
        with self._lock:
            self._is_over = True
            serving, was_cancelled = self._serving, self._unfinished > 0
            if self._calls is None:
                return None
        if serving is not None and serving.cancel():
            return None  # It still waited for a thread.
        closing = self.submit(_close_old)
        return None if was_cancelled else closing

    def abandon(self) -> None:
        """End the thread, because the process ends."""
        with self._lock:
            if self._calls is not None:
                self._calls.put(None)

    def _add(
        self, calls: Calls, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        future: Future[T] = Future()
        self._unfinished += 1
        calls.put((future, function, args, kwargs))
        return future

    def _begin(self, calls: Calls) -> None:
        try:
            self._serving = serving = self._pool.submit(self._serve, calls)
        except RuntimeError as error:  # The pool was shut down.
            self._fail(calls, error)
        else:
            serving.add_done_callback(lambda ended: self._check_begun(calls, ended))

    def _check_begun(self, calls: Calls, ended: Future[None]) -> None:
        """Fail the calls if no thread was free in time."""
        if ended.cancelled():
            self._fail(calls, None)
        elif (error := ended.exception()) is not None:
            self._fail(calls, error)

    def _fail(self, calls: Calls, error: BaseException | None) -> None:
        with self._lock:
            self._calls = None
            failed = _all(calls)
            self._unfinished -= len(failed)
        for future, *_ in failed:
            if error is None:
                future.cancel()
            elif future.set_running_or_notify_cancel():
                future.set_exception(error)

    def _serve(self, calls: Calls) -> None:
        self._pool.serving.add(self)
        try:
            _check_kept()
            while (call := calls.get()) is not None:
                if self._run(*call):
                    break
                del call  # It refers to arguments and result.
        finally:
            self._pool.serving.discard(self)
            _close_old()

    def _run(
        self,
        future: Future[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> bool:
        """Run one call; return whether the request needs its thread no more."""
        result, error = None, None
        is_wanted = future.set_running_or_notify_cancel()
        if is_wanted:
            try:
                result = function(*args, **kwargs)
            except BaseException as raised:
                error = raised
        ends = self._ends(function, result)
        if error is not None:
            future.set_exception(error)
            del future, error  # The traceback of the error refers to this frame.
        elif is_wanted:
            future.set_result(result)
        return ends

    def _ends(self, function: Callable[..., Any], result: Any) -> bool:
        with self._lock:
            self._unfinished -= 1
            rests = function is _close_outside_transactions and result is True
            # A task that outlives its request has a thread for each of its calls.
            ends = (rests or self._is_over) and not self._unfinished
            if ends:
                self._calls = None
            return ends


def _all(calls: Calls) -> list[Call]:
    found = []
    with suppress(Empty):
        while True:
            if (call := calls.get_nowait()) is not None:
                found.append(call)
    return found


def _is_pooled(database: dict[str, Any]) -> bool:
    return bool(database.get("OPTIONS", {}).get("pool"))


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether an open connection has a transaction, which closing it would roll back."""
    return connection.in_atomic_block or not connection.autocommit


def _close_outside_transactions() -> bool:
    opened = connections.all(initialized_only=True)
    if any(each.connection is not None and is_in_transaction(each) for each in opened):
        return False
    return _close_all()


def _close_all() -> bool:
    """Close the connections, and forget them: the next request has none of their state."""
    for connection in connections.all(initialized_only=True):
        _close(connection)
    return True


def _check_kept() -> None:
    """Close connections of an earlier request which are too old, or which the server has closed."""
    for connection in connections.all(initialized_only=True):
        with suppress(Exception):
            connection.close_if_unusable_or_obsolete()
            close_if_broken(connection)


def _close_old() -> None:
    """Close the connections as Django does at the end of a request: by CONN_MAX_AGE.

    Those in a transaction, which a cancelled request has left, are closed in any case.
    """
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not is_in_transaction(connection):
            with suppress(Exception):
                connection.close_if_unusable_or_obsolete()
                if connection.connection is not None:
                    continue
        _close(connection)


def _close(connection: BaseDatabaseWrapper) -> None:
    with suppress(Exception):  # One that is broken cannot be closed.
        connection.close()
    del connections[connection.alias]
