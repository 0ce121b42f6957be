"""The threads of synchronous code, and its database connections.

Django closes old connections when a request of its own handler starts and ends. MCP messages do
not pass through that handler: ``run``, ``run_hook`` and ``in_scope`` close them.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from functools import partial
from os import register_at_fork
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp import conf
from django_mcp.concurrency.coroutines import result_of
from django_mcp.protocol.errors import ServerBusy
from django_mcp.runtime.pools.daemon_pool import DaemonPool
from django_mcp.runtime.pools.loop_executor import LoopExecutor
from django_mcp.runtime.pools.request_thread import RequestThread, RequestThreads, is_in_transaction
from django_mcp.runtime.store_operations import StoreOperations, close_if_broken

P = ParamSpec("P")
T = TypeVar("T")


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
    """Return the result of ``function``, which runs on a thread where it may block.

    It has the context variables of its caller. Cancelling the caller does not stop a function
    which has started: it runs to its end, and its connections are closed then.

    Running on another thread takes 40 µs for one caller, 20 µs each for sixteen. A bare
    ``run_in_executor`` takes 10 µs less, but loses the active language, and ``async_to_sync``
    in a handler could not return to this event loop.

    Raises ServerBusy if no thread is free for SYNC_START_TIMEOUT: ``function`` is not called then.
    """
    _begin_handler(_asgiref_context.get(None))
    return _run_in("handlers", function, *args, **kwargs)


def run_hook(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for hooks, permission functions and frame processors.

    They have threads of their own, so that no slow handler holds them up.
    """
    return _run_in("hooks", function, *args, **kwargs)


def run_task(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for handlers of tasks, which may run for hours and hold up no other handler."""
    return _run_in("tasks", function, *args, **kwargs)


def run_long_call(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for handlers which may be continued as a task."""
    return _run_in("long calls", function, *args, **kwargs)


def _run_in(
    purpose: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    if _is_in_request_thread.get():
        return _request_thread_bridge(function, *args, **kwargs)
    site = conf.get()
    if site.sync_execution == "threads" and not _is_sensitive.get():
        pool = _pool(purpose, site.sync_thread_pool_size)
        pool.max_wait = site.sync_start_timeout
        return pool.bridge(function, *args, **kwargs)
    return _thread_sensitive_bridge(function, *args, **kwargs)


def run_in_store_pool(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """Like ``run``, for the stores, on threads of their own.

    A handler may wait for a store, for instance until a notification is stored. If they shared
    their threads, handlers which occupy all of them would deadlock.

    A store calls nothing asynchronous there, so that asgiref is not needed to return to this
    event loop; without it, the hop takes half the time.

    Raises StoreUnavailable after STORE_TIMEOUT, or at once while others are late.
    """
    return run_in_threads_of("stores", partial(function, *args, **kwargs))


def run_in_threads_of(resource: str, function: Callable[[], T], /) -> Coroutine[Any, Any, T]:
    """``run_in_store_pool`` with threads for one resource: one that hangs holds up no other."""
    site = conf.get()
    if site.sync_execution == "threads" and not _is_sensitive.get():
        pool = _pool(resource, site.sync_thread_pool_size)
        in_context = partial(copy_context().run, _call, function)
        return pool.operations.run(in_context, site.store_timeout)
    return _thread_sensitive_bridge(function)


def call_in_store_pool(function: Callable[[], T]) -> T:
    """``run_in_store_pool`` for synchronous code, which waits for the result.

    The function then sees what other transactions committed, whatever its caller has begun.
    """
    site = conf.get()
    if site.sync_execution == "threads" and not _is_sensitive.get():
        pool = _pool("stores", site.sync_thread_pool_size)
        in_context = partial(copy_context().run, _call, function)
        return pool.operations.call(in_context, site.store_timeout)
    return function()


@contextmanager
def thread_sensitive() -> Iterator[None]:
    """Use ``SYNC_EXECUTION = "thread_sensitive"`` within this context.

    Under Django's TestCase, only this thread sees the rows that the test has written.
    """
    token = _is_sensitive.set(True)
    try:
        yield
    finally:
        _is_sensitive.reset(token)


@contextmanager
def in_request_thread() -> Iterator[None]:
    """Run handlers and hooks on the thread of their request, with its database connections.

    There they find what Django's middleware has set, for instance the schema of a tenant.
    """
    token = _is_in_request_thread.set(True)
    try:
        yield
    finally:
        _is_in_request_thread.reset(token)


def is_in_request_thread() -> bool:
    return _is_in_request_thread.get()


@contextmanager
def on_waiting_thread() -> Iterator[None]:
    """Let tasks which are created in this context share the thread that waits for it.

    Synchronous middleware waits on the thread of the request. asgiref finds it in the task that
    the middleware waits for, but not in those which that one creates: they would wait for it.
    """
    executor = getattr(AsyncToSync.executors, "current", None)
    if executor is None:
        yield
        return
    context = ThreadSensitiveContext()
    _asgiref_threads[context] = executor
    token = _asgiref_context.set(context)
    try:
        yield
    finally:
        _asgiref_context.reset(token)
        _asgiref_threads.pop(context, None)


def shutdown() -> None:
    """Wait for running functions, end the threads and close their connections.

    On the thread of an event loop, it deadlocks with functions that wait for this loop.
    """
    for key in list(_pools):
        _pools.pop(key).close()
    for size in list(_request_threads):
        _request_threads.pop(size).shutdown()


def _end_at_exit() -> None:
    """Let running functions finish, such as a store's; Python does not wait for them longer."""
    until = time.monotonic() + EXIT_GRACE
    for pool in (*_pools.values(), *_request_threads.values()):
        pool.shutdown(timeout=max(until - time.monotonic(), 0))


EXIT_GRACE = 1.0
"""Seconds in which running functions may finish when Python exits."""


def run_async(coroutine: Coroutine[Any, Any, T], /) -> Coroutine[Any, Any, T]:
    """Return the result of ``coroutine``, whose ORM calls have the thread of their request.

    Without a request, they have one of their own (see ``in_scope``).
    """
    scope = _asgiref_context.get(None)
    if scope is not None or _is_sensitive.get():
        if scope is not None:
            _begin_handler(scope)
        return coroutine
    return in_scope(result_of, coroutine)


async def in_scope(
    function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of an asynchronous function which does all the work for one request."""
    scope = enter_scope()
    try:
        return await function(*args, **kwargs)
    finally:
        if (closing := scope.leave()) is not None:
            await closing


def enter_scope() -> Scope:
    """Begin the work for one request, whose ORM calls have a thread of their own.

    That of an authenticator, a permission check or a handler never waits for those of another
    request. The connections which they open there are closed at the end. Without a thread of
    their own, all calls of the process would share the one thread of asgiref, and the connections
    of that thread would never be closed.

    Nothing is created before the first ORM call. ``async with`` on the context of asgiref, and a
    list of opened connections, would take 2.6 µs more, 3 % of a stateless call. On the hot path
    it is called instead of ``in_scope``, whose coroutine takes 1 µs.
    """
    if _is_sensitive.get():
        return _THREAD_OF_TEST
    if conf.get().sync_execution == "thread_sensitive":
        return _SHARED_THREAD
    scope = _OwnThread()
    scope.token = _asgiref_context.set(scope)
    return scope


def hand_over_scope() -> Scope:
    """Return the scope of this request, for one task which is created here and leaves it."""
    if _is_in_request_thread.get():
        return _THREAD_OF_REQUEST
    scope = _asgiref_context.get(None)
    if not isinstance(scope, _OwnThread):
        return enter_scope()
    scope.is_handed_over = True
    return _HandedOver(scope)


class Scope(Protocol):
    @property
    def is_used(self) -> bool:
        """Whether it may have a thread to lend."""

    def lend(self) -> None:
        """Let others have the thread until the next ORM call; what was done there is done."""

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        """End the work; return what closes its connections, or None if there are none."""


class _OwnThread(ThreadSensitiveContext):
    """The thread for the ORM calls of one request, of which this module takes care."""

    token: Token[ThreadSensitiveContext]
    is_handed_over = False
    is_used = False
    """Whether asgiref has looked for the thread. Under ``async_to_sync`` it does not: the calls
    run on the thread of the waiting code, whose connections stay open."""
    has_handler = False
    """Whether a handler has begun, whose calls may depend on each other."""
    thread: RequestThread | None = None

    def __bool__(self) -> bool:
        # asgiref asks this before it looks for the thread of a context, and only then. Middleware
        # occupies its thread as long as it waits for the response, and so has one of its own.
        self.is_used = True
        if self.thread is None and not conf.get().django_middleware:
            self.thread = _asgiref_threads[self] = RequestThread(_pool_for_requests())
        return True

    def lend(self) -> None:
        if self.thread is not None:
            self.thread.lend()

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        _asgiref_context.reset(self.token)
        return self.close() if self.is_used and not self.is_handed_over else None

    def close(self) -> Coroutine[Any, Any, Any] | None:
        if self.thread is None:
            return _end_thread(self) if self in _asgiref_threads else None
        return _until_closed(self.thread.end())


class _HandedOver:
    """The scope of a request, for the task which goes on with its work."""

    is_used = True

    def __init__(self, scope: _OwnThread) -> None:
        self._scope = scope
        self.lend = scope.lend

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        return self._scope.close() if self._scope.is_used else None


class _SharedThread:
    """All ORM calls of the process run on one thread."""

    is_used = False

    def lend(self) -> None:
        """Do nothing: all have the thread."""

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        # The bridge closes old connections.
        is_connected = _Thread.is_shared_thread_connected
        return _thread_sensitive_bridge(lambda: None) if is_connected else None


class _ForeignThread:
    """The connections belong to a test, or to the request, whose end closes them."""

    is_used = False

    def lend(self) -> None:
        """Do nothing: the thread belongs to somebody else."""

    def leave(self) -> None:
        """Close nothing."""


_SHARED_THREAD, _THREAD_OF_TEST, _THREAD_OF_REQUEST = (
    _SharedThread(),
    _ForeignThread(),
    _ForeignThread(),
)


async def release_thread() -> None:
    """Close the connections of this request, because it is about to wait for long.

    Its next ORM call opens others. Nothing happens in a transaction, or while an ORM call runs.
    """
    scope = _asgiref_context.get(None)
    if not isinstance(scope, _OwnThread) or _is_in_request_thread.get():
        return
    if scope.thread is not None:
        closing = _until_closed(scope.thread.rest())
        if closing is not None:
            await closing
    elif scope in _asgiref_threads:
        await _end_thread(scope)


def release_connections() -> None:
    """``release_thread`` for the synchronous handler on this thread."""
    is_ours = _thread.pool is not None and _thread.may_have_connections
    if is_ours and not _is_sensitive.get():
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None and not is_in_transaction(connection):
                connection.close()


def scope() -> Scope | None:
    """The scope of this request, if it has one of its own."""
    found = _asgiref_context.get(None)
    return found if isinstance(found, _OwnThread) else None


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep the thread of this request within this context, as a transaction does."""
    found = _asgiref_context.get(None)
    thread = found.thread if isinstance(found, _OwnThread) and found else None
    if thread is None:
        yield
        return
    thread.pins += 1
    try:
        yield
    finally:
        thread.pins -= 1


def _begin_handler(scope: ThreadSensitiveContext | None) -> None:
    """Lend the thread which the request has used before, for instance for a permission check."""
    if isinstance(scope, _OwnThread) and not scope.has_handler:
        scope.has_handler = True
        scope.lend()


def _until_closed(closing: Future[Any] | None) -> Coroutine[Any, Any, Any] | None:
    return None if closing is None else _await_closing(closing)


async def _await_closing(closing: Future[Any]) -> None:
    # A cancellation ends the wait, and leaves the connections to the thread.
    await asyncio.shield(asyncio.wrap_future(closing))


async def _end_thread(scope: _OwnThread) -> None:
    thread = _asgiref_threads.pop(scope)
    assert isinstance(thread, ThreadPoolExecutor)
    closing = thread.submit(connections.close_all)
    thread.shutdown(wait=False)
    await _await_closing(closing)


def context_of_nobody() -> Context:
    """Return a context for work that is done for somebody else than the current caller.

    It has no variable of the current call (its client, its transaction, its language), but the
    execution mode of a test.
    """
    context = Context()
    if _is_sensitive.get():
        context.run(_is_sensitive.set, True)
    return context


class _Pool(DaemonPool):
    not_started = ServerBusy

    def __init__(self, size: int) -> None:
        super().__init__(size, "django-mcp")
        self.connections: set[BaseDatabaseWrapper] = set()  # They stay open between calls.
        # asgiref only passes it to the event loop.
        executor = cast(ThreadPoolExecutor, LoopExecutor(self))
        self.bridge: Bridge = sync_to_async(_call, thread_sensitive=False, executor=executor)
        self.operations = StoreOperations(self, size)

    def enter(self) -> None:
        _thread.pool = self
        _thread.may_have_connections = False

    def close(self) -> None:
        self.shutdown()
        for connection in self.connections:
            connection.inc_thread_sharing()  # Its own thread has ended.
            connection.close()


class _Thread(threading.local):
    """The state of the current thread; the defaults are those of a thread outside the pools."""

    is_shared_thread_connected = False
    """Whether a connection was opened on any thread outside the pools."""
    pool: _Pool | None = None
    may_have_connections = True


Bridge = Callable[..., Coroutine[Any, Any, Any]]


def _call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` as Django calls a view: close old connections before and after."""
    if _is_sensitive.get():
        # The connections belong to the test, which may not even be allowed to use them.
        return function(*args, **kwargs)
    in_transaction = _connections_in_transaction()
    _close_old_connections(in_transaction, is_before=True)
    try:
        return _call_only(function, *args, **kwargs)
    finally:
        _close_old_connections(in_transaction)


def _call_only(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        # A future cannot hold a StopIteration, and a SystemExit would stop the event loop.
        raise RuntimeError(f"{function!r} raised {type(error).__name__}") from error


def _connections_in_transaction() -> Sequence[BaseDatabaseWrapper]:
    """The connections in a transaction of code which waits for this call, such as a TestCase."""
    if not _thread.may_have_connections:
        return ()
    return [each for each in connections.all(initialized_only=True) if each.in_atomic_block]


def _close_old_connections(
    excluded: Sequence[BaseDatabaseWrapper], *, is_before: bool = False
) -> None:
    """Like Django's ``close_old_connections``, which would also close those in a transaction.

    Before a call, those which the server has closed meanwhile are closed too.
    """
    if _thread.may_have_connections:
        for connection in connections.all(initialized_only=True):
            if connection not in excluded:
                connection.close_if_unusable_or_obsolete()
                if is_before:
                    close_if_broken(connection)


def _record_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    _thread.may_have_connections = True
    if _thread.pool is None:
        _Thread.is_shared_thread_connected = True
    else:
        _thread.pool.connections.add(connection)


def _pool(purpose: str, size: int) -> _Pool:
    key = (purpose, size)
    return _pools.get(key) or _pools.setdefault(key, _Pool(size))


def _pool_for_requests() -> RequestThreads:
    site = conf.get()
    size = site.async_orm_threads
    pool = _request_threads.get(size)
    if pool is None:
        pool = _request_threads.setdefault(size, RequestThreads(size, "django-mcp-orm"))
        pool.not_started = ServerBusy
    pool.max_wait = site.sync_start_timeout
    return pool


_thread = _Thread()
_asgiref_context = SyncToAsync.thread_sensitive_context
_asgiref_threads = SyncToAsync.context_to_thread_executor
_pools: dict[tuple[str, int], _Pool] = {}
_request_threads: dict[int, RequestThreads] = {}
_is_sensitive = ContextVar("django_mcp.thread_sensitive", default=False)
_is_in_request_thread = ContextVar("django_mcp.is_in_request_thread", default=False)
_thread_sensitive_bridge: Bridge = sync_to_async(_call, thread_sensitive=True)
# The end of the request closes its connections, and nothing before it.
_request_thread_bridge: Bridge = sync_to_async(_call_only, thread_sensitive=True)

connection_created.connect(_record_connection, dispatch_uid="django_mcp.threads")
atexit.register(_end_at_exit)
# The threads exist only in the parent.
register_at_fork(after_in_child=_pools.clear)
register_at_fork(after_in_child=_request_threads.clear)
