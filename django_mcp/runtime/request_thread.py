"""The thread of one request for its ORM calls, which is one of a limited number.

asgiref promises that the thread-sensitive calls of a request run on one thread, since transactions
belong to threads. A request therefore has a thread from its first call to its end. It gives the
thread back where a handler begins, because nothing of the authentication depends on the thread, and
before the handler waits for its client: otherwise a few long calls would delay the authentication
of all others. The next call may then run on another thread, of a pool for handlers (``purpose``),
so that authentication never waits for a handler. The connections stay with the thread, by
CONN_MAX_AGE.

========= ======================================= ===============================================
state     the calls of the request                next, and what moves it
========= ======================================= ===============================================
without   are all done                            waiting: ``submit``
waiting   wait for a thread of the pool           serving: the pool; without: the pool, if no
                                                  thread is free in time, and ``end``
serving   run on a thread, one after the other;   without: the thread itself, after ``release`` or
          it waits for the next                   ``end``, if no call is left; waiting: the same,
                                                  if calls are left and ``purpose`` has changed
========= ======================================= ===============================================

After ``end``, each call of a task that outlives its request has a thread for itself alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.frame.transport import current_caller
from django_mcp.runtime import connections, pools

P = ParamSpec("P")
T = TypeVar("T")
Call = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Calls = SimpleQueue[Call | None]
"""The calls that wait for the thread of a request. None ends the work of the thread."""


class RequestThread(Executor):
    """Runs the calls of one request, one after the other. Any thread may use it."""

    purpose = pools.REQUESTS
    """The pool of the thread that is taken next."""
    _calls: Calls | None = None
    """None in the state *without*."""
    _serving: Future[None] | None = None
    _unfinished = 0
    _is_over = False

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with self._lock:
            calls = self._calls
            needs_thread = calls is None
            if calls is None:
                calls = self._calls = SimpleQueue()
            future = self._add(calls, function, *args, **kwargs)
        if needs_thread:
            self._begin(calls, current_caller())
        return future

    def release(self) -> Future[bool] | None:
        """Give the thread back, unless there is a transaction, or a call runs."""
        with self._lock:
            if self._calls is None or self._unfinished:
                return None
            return self._add(self._calls, connections.close_old_unless_in_transaction)

    def end(self) -> Future[None] | None:
        """Close old connections and give the thread back, because the request is over.

        Nobody waits for that while a call still runs, because its request was cancelled.
        """
        with self._lock:
            self._is_over = True
            serving = self._serving
            was_cancelled = self._unfinished > 0
            if self._calls is None:
                return None
        if serving is not None and serving.cancel():
            return None  # It still waited for a thread.
        closing = self.submit(connections.close_old)
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

    def _begin(self, calls: Calls, caller: Hashable) -> None:
        purpose = self.purpose
        pool = pools.for_queries(purpose)
        serving: Future[None] = Future()
        self._serving = serving
        serving.add_done_callback(lambda ended: self._check_begun(calls, ended))
        try:
            pool.add((serving, self._serve, (pool, purpose, calls, caller), {}), caller)
        except Exception as error:  # No thread can be started, or the pool was shut down.
            self._fail(calls, error)

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

    def _serve(self, pool: ThreadPool, purpose: str, calls: Calls, caller: Hashable) -> None:
        _pool_of[self] = pool
        has_ended = False
        try:
            connections.close_expired()
            while (call := calls.get()) is not None:
                if self._run(purpose, *call):
                    has_ended = True
                    break
                del call  # It refers to arguments and result.
        finally:
            _pool_of.pop(self, None)
            connections.close_old()
        if has_ended and self._calls is calls:
            self._begin(calls, caller)  # Some are left, for a thread of another pool.

    def _run(
        self,
        purpose: str,
        future: Future[Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> bool:
        """Run one call; return whether the request needs its thread no more."""
        result: Any = None
        error: BaseException | None = None
        is_wanted = future.set_running_or_notify_cancel()
        if is_wanted:
            try:
                result = function(*args, **kwargs)
            except BaseException as raised:
                error = raised
        is_last = self._is_last(purpose, function, result)
        if error is not None:
            future.set_exception(error)
            del future, error  # The traceback of the error refers to this frame.
        elif is_wanted:
            future.set_result(result)
        return is_last

    def _is_last(self, purpose: str, function: Callable[..., Any], result: Any) -> bool:
        with self._lock:
            self._unfinished -= 1
            is_released = function is connections.close_old_unless_in_transaction and result is True
            # A task that outlives its request has a thread for each of its calls.
            is_last = (is_released or self._is_over) and not self._unfinished
            if is_last:
                self._calls = None
            return is_last or (is_released and purpose != self.purpose)


def _all(calls: Calls) -> list[Call]:
    """Take all calls that wait."""
    waiting = []
    with suppress(Empty):
        while True:
            call = calls.get_nowait()
            if call is not None:
                waiting.append(call)
    return waiting


def abandon_all(pool: ThreadPool) -> None:
    """End the work of all requests that have a thread of a pool."""
    # Threads remove themselves meanwhile.
    for thread in list(_pool_of):
        if _pool_of.get(thread) is pool:
            thread.abandon()


_pool_of: dict[RequestThread, ThreadPool] = {}
"""The requests that have a thread, and its pool."""
