"""Where synchronous code runs, and the care of the database connections it leaves behind.

Django looks after connections when one of its own requests starts and ends. Our messages never
meet its request handler: so ``run`` does it for synchronous code, ``run_async`` for
asynchronous code.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from os import register_at_fork
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_mcp import conf

P = ParamSpec("P")
T = TypeVar("T")


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
    """What ``function`` returns, called on a thread where it may block.

    It sees the context variables of its caller, and what Django keeps by their means, such as
    the active language. Cancelling the caller does not stop a function which has begun: it runs
    to its end, and its connections are looked after then.

    One hop to another thread and back: 40 µs for one caller, 20 µs each for sixteen. A bare
    ``run_in_executor`` takes 10 µs less, but loses the active language, and ``async_to_sync``
    in a handler would not find the way back to this event loop.
    """
    return _bridge()(function, *args, **kwargs)


def run_in_store_pool(
    function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]:
    """``run`` for the stores, on threads which no handler occupies.

    A handler may wait for them: until an announcement is kept, or until the client's answer
    arrives by a request whose session has to be loaded. If they shared its threads, handlers
    which occupy all of them would wait for each other.

    What a store does there calls nothing asynchronous, so that it need not find the way back to
    this event loop, and the hop takes half the time of asgiref's.
    """
    site = conf.get()
    if site.sync_execution == "threads" and not _is_sensitive.get():
        return _run_in_pool(
            _pool("stores", site.sync_thread_pool_size), partial(function, *args, **kwargs)
        )
    return _thread_sensitive_bridge(function, *args, **kwargs)


async def _run_in_pool(pool: _Pool, function: Callable[[], T]) -> T:
    there = partial(copy_context().run, _with_connection_care, function)
    result: T = await asyncio.get_running_loop().run_in_executor(pool, there)
    return result


@contextmanager
def thread_sensitive() -> Iterator[None]:
    """Within it, ``run`` behaves as with ``SYNC_EXECUTION = "thread_sensitive"``.

    For tests: under Django's TestCase the thread that is used then is the test's own, which
    alone can see what the test has written.
    """
    token = _is_sensitive.set(True)
    try:
        yield
    finally:
        _is_sensitive.reset(token)


def shutdown() -> None:
    """Wait for what runs, end the threads and close their connections; ``run`` makes new ones.

    It blocks: in the event loop's own thread it would wait for functions that wait for it.
    """
    for key in list(_pools):
        _pools.pop(key).close()


async def run_async(coroutine: Coroutine[Any, Any, T], /) -> T:
    """The result of ``coroutine``, whose ORM calls have a thread and connections of their own.

    Otherwise all of them would queue up for the one thread that asgiref has for the process,
    and nobody would ever close what they open there. Django does the same for each of its own
    requests, by ``async with ThreadSensitiveContext()``. Here the context is entered by hand and
    only left properly when somebody used it, for that takes 1 µs instead of 3 to 11.
    """
    if _is_sensitive.get() or _context_of_asgiref.get(None) is not None:
        return await coroutine
    context = ThreadSensitiveContext()
    context.token = _context_of_asgiref.set(context)
    try:
        return await coroutine
    finally:
        # asgiref makes the thread when it is first needed. Where synchronous code waits
        # for us there is none: asgiref uses that code's thread, which is not ours to tidy.
        if _threads_of_asgiref and context in _threads_of_asgiref:
            await sync_to_async(connections.close_all)()
            await context.__aexit__(None, None, None)  # type: ignore[no-untyped-call]
        else:
            _context_of_asgiref.reset(context.token)


class _Pool(ThreadPoolExecutor):
    """Threads for synchronous code, and the connections that they keep open between calls."""

    def __init__(self, size: int) -> None:
        super().__init__(size, thread_name_prefix="django-mcp", initializer=self._enter)
        self.connections: set[BaseDatabaseWrapper] = set()
        self.bridge: Bridge = sync_to_async(
            _with_connection_care, thread_sensitive=False, executor=self
        )

    def _enter(self) -> None:
        _here.pool = self
        _here.may_have_connections = False

    def close(self) -> None:
        self.shutdown()
        for connection in self.connections:
            connection.inc_thread_sharing()  # Its own thread is gone.
            connection.close()


class _Here(threading.local):
    """What is known of the current thread. Of one that is not ours, we know nothing."""

    pool: _Pool | None = None
    may_have_connections = True


Bridge = Callable[..., Coroutine[Any, Any, Any]]


def _with_connection_care(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` as Django calls a view: connections are looked after on both sides."""
    if _is_sensitive.get():
        # A test's connections are the test's, which may not even allow itself to use them.
        return function(*args, **kwargs)
    begun = _begun_transactions()
    _close_old_connections(begun)
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        # A future that is given a StopIteration never ends, and a SystemExit would leave it
        # only to end the event loop, and with it everybody else's calls.
        raise RuntimeError(f"{function!r} raised {type(error).__name__}") from error
    finally:
        _close_old_connections(begun)


def _begun_transactions() -> Sequence[BaseDatabaseWrapper]:
    """The connections in the transaction of somebody who waits for us, such as a TestCase."""
    if not _here.may_have_connections:
        return ()
    return [each for each in connections.all(initialized_only=True) if each.in_atomic_block]


def _close_old_connections(begun: Sequence[BaseDatabaseWrapper]) -> None:
    """Django's ``close_old_connections``, which does not know that transactions can be begun."""
    if _here.may_have_connections:
        for connection in connections.all(initialized_only=True):
            if connection not in begun:
                connection.close_if_unusable_or_obsolete()


def _note_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    _here.may_have_connections = True
    if _here.pool is not None:
        _here.pool.connections.add(connection)


def _bridge() -> Bridge:
    site = conf.get()
    if site.sync_execution == "threads" and not _is_sensitive.get():
        return _pool("handlers", site.sync_thread_pool_size).bridge
    return _thread_sensitive_bridge


def _pool(purpose: str, size: int) -> _Pool:
    key = (purpose, size)
    return _pools.get(key) or _pools.setdefault(key, _Pool(size))


_here = _Here()
_context_of_asgiref = SyncToAsync.thread_sensitive_context
_threads_of_asgiref = SyncToAsync.context_to_thread_executor
_pools: dict[tuple[str, int], _Pool] = {}
_is_sensitive = ContextVar("django_mcp.thread_sensitive", default=False)
_thread_sensitive_bridge: Bridge = sync_to_async(_with_connection_care, thread_sensitive=True)

connection_created.connect(_note_connection, dispatch_uid="django_mcp.threads")
register_at_fork(after_in_child=_pools.clear)  # The threads stayed behind in the parent.
