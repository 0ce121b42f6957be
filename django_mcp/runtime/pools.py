"""The pools of threads of a process, and running synchronous code in them.

===================== ==========================================================================
pool                  what runs there
===================== ==========================================================================
handlers              synchronous handlers
hooks                 synchronous hooks, permission functions and frame processors, which no slow
                      handler holds up
tasks                 synchronous handlers of tasks and of calls which may be continued as one, and
                      the ORM calls of tasks
requests              the ORM calls of asynchronous code before a handler begins, such as
                      authentication: see ``request_thread``
queries of handlers,  the ORM calls of asynchronous handlers, which nobody's authentication waits
queries of long calls for; those of calls which may be continued as a task are apart
stores, and one for   operations on stores, for which handlers may wait: if they shared their
each other resource   threads, handlers which occupy all of them would deadlock
===================== ==========================================================================

Each has as many threads as SYNC_THREAD_POOL_SIZE says, at most, and each thread a connection to
each database that it uses. A function that finds no thread in time fails. What was accepted does
not: ``tasks`` and ``queries of long calls`` have no limit of time. ``tasks`` has no limit of
threads either: how many tasks run is decided before (``fair_slots``), and one that waits for a
person keeps its thread, without a connection.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from os import register_at_fork
from typing import Any, ParamSpec, TypeGuard, TypeVar

from asgiref.sync import sync_to_async

from django_mcp import conf
from django_mcp.core.concurrency.loop_executor import LoopExecutor
from django_mcp.core.concurrency.loops import without_control_exceptions
from django_mcp.core.concurrency.shared_loop import SharedLoop
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.frame.transport import current_caller
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import ServerBusy
from django_mcp.runtime import connections, private
from django_mcp.runtime.store_operations import StoreOperations

P = ParamSpec("P")
T = TypeVar("T")

START_TIMEOUT = 10.0
"""Seconds that a function, or the first ORM call of a request, waits for a free thread. The
request is then rejected (503): less than SSE_PING_INTERVAL, when its stream would open."""

REQUESTS = "requests"
QUERIES_OF_HANDLERS = "queries of handlers"
QUERIES_OF_LONG_CALLS = "queries of long calls"
TASKS = "tasks"
PATIENT = frozenset({QUERIES_OF_LONG_CALLS, TASKS})
"""The pools for accepted work."""
MAX_TASK_THREADS = 10_000
"""Threads for tasks: far more than slots, and tasks that are aside."""

EXIT_GRACE = 1.0
"""Seconds that running functions have to finish when Python exits."""


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
    """Return the result of ``function``, which runs on a thread where it may block.

    It has the context variables of its caller. Cancelling the caller does not stop a function
    which has started: it runs to its end, and its connections are closed then.

    Raises ServerBusy if no thread is free for START_TIMEOUT: ``function`` is not called then.
    """
    return _run_in("handlers", function, *args, **kwargs)


def run_hook(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for hooks, permission functions and frame processors."""
    return _run_in("hooks", function, *args, **kwargs)


def run_task(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, at once, for handlers of tasks: their caller has a slot for them."""
    return _run_in(TASKS, function, *args, **kwargs)


def _run_in(
    purpose: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    if _is_in_middleware_thread.get() or _is_thread_sensitive.get():
        return _thread_sensitive_bridge(function, *args, **kwargs)
    return _pool(purpose).bridge(function, *args, **kwargs)


async def run_here(
    loop: SharedLoop, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Like ``run``, on this thread of a WSGI server, which runs ``loop`` meanwhile.

    Others may run the loop meanwhile. asgiref finds the loop there, and not after it, since the
    thread serves Django's own pages as well.
    """
    call = partial(loop.outside, _call, function, *args, **kwargs)
    result: T = private.call_for_loop(loop, loop.process_id, call)
    return result


def may_run_here(loop: asyncio.AbstractEventLoop) -> TypeGuard[SharedLoop]:
    """Whether ``run_here`` works: a thread that waits for this loop runs it, and no test does."""
    return (
        isinstance(loop, SharedLoop)
        and private.KNOWS_THREADS
        and loop.is_lent_here()
        and not _is_in_middleware_thread.get()
        and not _is_thread_sensitive.get()
    )


def run_in_store_pool(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for the stores.

    A store calls nothing asynchronous there, so that asgiref is not needed to return to this
    event loop; without it, the hop takes half the time.

    Raises StoreUnavailable after STORE_TIMEOUT, or at once while others are late.
    """
    return run_in_threads_of("stores", partial(function, *args, **kwargs))


def run_in_threads_of(resource: str, function: Callable[[], T], /) -> Coroutine[Any, Any, T]:
    """``run_in_store_pool`` with threads for one resource: one that hangs holds up no other."""
    if _is_thread_sensitive.get():
        return _thread_sensitive_bridge(function)
    in_context = partial(copy_context().run, _call, function)
    return _pool(resource).operations.run(in_context, conf.get().store_timeout)


def call_in_store_pool(function: Callable[[], T]) -> T:
    """``run_in_store_pool`` for synchronous code, which waits for the result.

    The function then sees what other transactions committed, whatever its caller has begun.
    """
    if _is_thread_sensitive.get():
        return function()
    in_context = partial(copy_context().run, _call, function)
    return _pool("stores").operations.call(in_context, conf.get().store_timeout)


def for_queries(purpose: str) -> ThreadPool:
    """The pool for ORM calls of asynchronous code, whose threads each serve one request a time."""
    return _pool(purpose).threads


@contextmanager
def thread_sensitive() -> Iterator[None]:
    """Run all synchronous code on asgiref's thread-sensitive thread within this context.

    Under Django's TestCase, only this thread sees the rows that the test has written. Its
    connections belong to the test, and are left alone.
    """
    token = _is_thread_sensitive.set(True)
    try:
        yield
    finally:
        _is_thread_sensitive.reset(token)


@contextmanager
def on_this_thread() -> Iterator[None]:
    """``thread_sensitive`` for synchronous code, which waits on this thread for asynchronous code.

    Where that runs on a loop that serves clients, the background tasks that it starts outlive it.
    They have the threads of all others: nobody runs anything on this thread for them.
    """
    is_for_call = not _is_thread_sensitive.get() and private.has_loop()
    token = _is_for_call.set(is_for_call or _is_for_call.get())
    try:
        with thread_sensitive():
            yield
    finally:
        _is_for_call.reset(token)


@contextmanager
def in_middleware_thread() -> Iterator[None]:
    """Run handlers and hooks on the thread of Django's middleware, with its connections.

    There they find changes of the middleware, for instance the schema of a tenant. The end of
    the request closes the connections, and nothing before it.
    """
    token = _is_in_middleware_thread.set(True)
    try:
        yield
    finally:
        _is_in_middleware_thread.reset(token)


def is_in_middleware_thread() -> bool:
    return _is_in_middleware_thread.get()


def context_of_nobody() -> Context:
    """Return a context for work that is done for somebody else than the current caller.

    It has no variable of the current call (its client, its transaction, its language), but the
    execution mode of a test, and of a loop that ends with the call.
    """
    context = Context()
    if _is_thread_sensitive.get() and not _is_for_call.get():
        context.run(_is_thread_sensitive.set, True)
    return context


def shutdown() -> None:
    """Wait for running functions, end the threads and close their connections.

    On the thread of an event loop, it deadlocks with functions that wait for this loop.
    """
    for key in list(_pools):
        _pools.pop(key).shutdown()


def _shutdown_at_exit() -> None:
    """Let running functions finish, such as a store's; Python does not wait for them longer."""
    until = time.monotonic() + EXIT_GRACE
    for pool in _pools.values():
        pool.shutdown(timeout=max(until - time.monotonic(), 0))


class _Pool:
    """The threads for one purpose, and the ways to them."""

    def __init__(self, purpose: str, size: int) -> None:
        self.threads = ThreadPool(
            MAX_TASK_THREADS if purpose == TASKS else size,
            "django-mcp",
            max_wait=None if purpose in PATIENT else START_TIMEOUT,
            keep=size,
            not_started=ServerBusy,
            leave=connections.close_all,
        )
        self.bridge = private.bridge(_call, LoopExecutor(self.threads, current_caller))
        self.operations = StoreOperations(self.threads, size)

    def shutdown(self, timeout: float | None = None) -> None:
        END_WORK.get()(self.threads)
        self.threads.shutdown(timeout=timeout)


END_WORK: Port[Callable[[ThreadPool], None]] = Port(
    "ends the work of threads", default=lambda threads: None
)
"""Called with a pool that ends: it ends the work on its threads."""


def _pool(purpose: str) -> _Pool:
    """Return the pool for a purpose, of the size in the settings; tests may change it."""
    size = conf.get().sync_thread_pool_size
    key = (purpose, size)
    return _pools.get(key) or _pools.setdefault(key, _Pool(purpose, size))


def _call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return connections.call(without_control_exceptions, function, *args, **kwargs)


_pools: dict[tuple[str, int], _Pool] = {}
_is_thread_sensitive = ContextVar("django_mcp.thread_sensitive", default=False)
is_thread_sensitive = _is_thread_sensitive.get
"""Whether handlers and hooks run on the thread of asgiref, as in a test with a transaction."""
_is_for_call = ContextVar("django_mcp.thread_sensitive_call", default=False)
"""Whether only the current call is thread-sensitive, and not what goes on after it."""
_is_in_middleware_thread = ContextVar("django_mcp.is_in_middleware_thread", default=False)
_thread_sensitive_bridge: private.Bridge = sync_to_async(
    without_control_exceptions, thread_sensitive=True
)

atexit.register(_shutdown_at_exit)
register_at_fork(after_in_child=_pools.clear)  # The threads exist only in the parent.
