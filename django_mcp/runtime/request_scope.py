"""The work for one request, whose asynchronous code has a thread of its own for its ORM calls.

asgiref has one thread for all thread-sensitive calls of a process. Without a scope, every ORM call
of every request would wait for it, and its connections would never be closed.
"""

# A scope, and what moves it:
#
# | state | its ORM calls | next, and what moves it |
# |---|---|---|
# | entered | there was none, and there is no thread | used: the first ORM call |
# | used | run on one thread, of the pool for requests | handling: ``begin_handler`` |
# | handling | run on one thread, of the pool for handlers | over: the ``leave`` that closes it |
# | over | each has a thread for itself alone | nobody |
#
# ``release`` takes the thread away in each state, and the next ORM call takes one again; the states
# of the thread are in ``request_thread``. With middleware of Django, asgiref makes the thread of
# the request, and ``release_thread`` ends it.
#
# The rules:
#
# 1. The scope is the value of a context variable of asgiref, which tasks copy. A task that was
#    created for a request therefore uses the thread of this request, also after its end.
# 2. Either the request or one task closes the scope. ``hand_over`` leaves it to a task, once; the
#    ``leave`` of the request then resets the variable, and closes nothing.
# 3. The request calls ``leave`` in the context of its ``enter``: the variable is reset by a token.
# 4. All scopes without middleware are equal, for the table of asgiref. So no other table may have a
#    scope as its key.
# 5. A thread that somebody else made (a test, the middleware of Django) is never released, and its
#    connections are not closed here.
# 6. A thread is not released within a transaction or ``on_one_thread``, nor while a call runs:
#    transactions, and what was set on a connection, belong to threads.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Token
from typing import Any, ParamSpec, Protocol, TypeVar

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections as django_connections

from django_mcp import conf
from django_mcp.core.concurrency.loops import result_of
from django_mcp.runtime import connections, pools, private
from django_mcp.runtime.request_thread import RequestThread

P = ParamSpec("P")
T = TypeVar("T")


BUSY_AFTER = 0.05
"""Seconds after which a thread that has not begun a function runs another one."""


class Scope(Protocol):
    """The work for one request."""

    def release(self) -> Future[bool] | None:
        """Give the thread back, if nothing depends on it; the next ORM call takes one again."""

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        """End the work; return a coroutine that closes its connections, or None without any."""


def enter() -> Scope:
    """Begin the work for one request, whose ORM calls have a thread of their own.

    The ORM calls of an authenticator, a permission check or a handler never wait for ORM calls of
    another request. The connections that they open are closed at the end.

    There is no thread before the first ORM call. ``async with`` on the context of asgiref would
    take 2.6 µs more, 3 % of a stateless call. On the hot path it is called instead of ``run``,
    whose coroutine takes 1 µs.
    """
    if pools.is_thread_sensitive():
        return _OF_TEST
    site = conf.get()
    has_middleware = site.django_middleware or site.first_middleware
    scope: _RequestScope
    if not private.KNOWS_CONTEXTS:
        scope = _PublicScope()
    else:
        scope = _MiddlewareScope() if has_middleware else _RequestScope()
    scope.token = _asgiref_context.set(scope)
    return scope


def hand_over() -> Scope:
    """Return the scope of this request, for one task which is created here and leaves it."""
    if pools.is_in_middleware_thread():
        return _OF_MIDDLEWARE
    scope = current()
    if scope is None:
        return enter()
    scope.is_handed_over = True
    return _HandedOver(scope)


def current() -> _RequestScope | None:
    """The scope of this request, if it has one of its own."""
    context = _asgiref_context.get(None)
    return context if isinstance(context, _RequestScope) else None


async def run(
    function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of an asynchronous function which does all the work for one request."""
    scope = enter()
    try:
        return await function(*args, **kwargs)
    finally:
        if (closing := scope.leave()) is not None:
            await closing


def run_async(coroutine: Coroutine[Any, Any, T], /) -> Coroutine[Any, Any, T]:
    """Return the result of ``coroutine``, whose ORM calls have the thread of their request.

    Without a request, they have one of their own.
    """
    scope = _asgiref_context.get(None)
    if isinstance(scope, _RequestScope):
        scope.begin_handler()
    elif scope is None and not pools.is_thread_sensitive():
        return run(result_of, coroutine)
    return coroutine


def begin_handler() -> None:
    """Give back the thread which the request has used before, for instance for a permission check.

    Nothing of that depends on it, and the handler may run for long without an ORM call.
    """
    scope = current()
    if scope is not None:
        scope.begin_handler()


def use_pool(purpose: str) -> None:
    """Take the threads for the ORM calls of this work from the pool for a purpose."""
    scope = current()
    thread = None if scope is None else scope.take_thread()
    if thread is not None:
        thread.purpose = purpose


async def release_thread() -> None:
    """Give the thread of this request back, because it is about to wait for long.

    Nothing happens in a transaction, within ``on_one_thread``, or while an ORM call runs.
    """
    scope = current()
    if scope is None or pools.is_in_middleware_thread():
        return
    if isinstance(scope, _MiddlewareScope):
        await scope.end_unneeded_thread()
    elif (released := scope.release()) is not None:
        await _until_closed(released)


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep the thread of this request within this context, as a transaction does."""
    scope = current()
    if scope is None:
        yield
        return
    scope.pins += 1
    try:
        yield
    finally:
        scope.pins -= 1


@contextmanager
def on_waiting_thread() -> Iterator[None]:
    """Let tasks which are created in this context share the thread that waits for it.

    Synchronous middleware waits on the thread of the request. asgiref finds it in the task that
    the middleware waits for, but not in those which that one creates: they would wait for it.
    """
    executor = private.waiting_executor()
    if executor is None or not private.KNOWS_CONTEXTS:
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


class _RequestScope(ThreadSensitiveContext):
    """The context of asgiref for one request.

    asgiref looks in a table for the executor of a context. To be there, each request would need an
    entry, an executor and a lock, also if it makes no ORM call. So the contexts of all requests are
    equal, and have one entry: ``_ThreadsOfRequests`` finds the request by the context of the call.
    """

    token: Token[ThreadSensitiveContext]
    is_handed_over = False
    has_handler = False
    """Whether a handler has begun, whose calls may depend on each other."""
    is_over = False
    pins = 0
    """How many handlers need all of their ORM calls on the same thread."""
    thread: RequestThread | None = None
    """The thread, from the first ORM call."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(_RequestScope)

    def take_thread(self) -> RequestThread | None:
        """The thread for the ORM calls, which is made unless there is one."""
        if self.thread is None:
            thread = RequestThread()
            if self.has_handler:
                thread.purpose = pools.QUERIES_OF_HANDLERS
            if self.is_over:  # A task has outlived the request.
                thread.end()
            # Another thread may have made one meanwhile.
            vars(self).setdefault("thread", thread)
        return self.thread

    def begin_handler(self) -> None:
        """Give the thread back, where the first handler of the request begins.

        The ORM calls of the handler have threads of their own.
        """
        if not self.has_handler:
            self.has_handler = True
            if self.thread is not None:
                if self.thread.purpose == pools.REQUESTS:
                    self.thread.purpose = pools.QUERIES_OF_HANDLERS
                self.release()

    def release(self) -> Future[bool] | None:
        return None if self.thread is None or self.pins else self.thread.release()

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        _asgiref_context.reset(self.token)
        return None if self.is_handed_over else self.close()

    def close(self) -> Coroutine[Any, Any, Any] | None:
        self.is_over = True
        closing = None if self.thread is None else self.thread.end()
        return None if closing is None else _until_closed(closing)


class _MiddlewareScope(_RequestScope):
    """The context of a request with middleware of Django.

    The middleware occupies its thread as long as it waits for the response, so the request has one
    of its own, which asgiref makes.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def take_thread(self) -> None:
        """Leave the thread to asgiref."""

    def close(self) -> Coroutine[Any, Any, Any] | None:
        return _end_thread(self) if self in _asgiref_threads else None

    async def end_unneeded_thread(self) -> None:
        """End the thread, unless something depends on it."""
        thread = _asgiref_threads.get(self)
        if thread is None or self.pins:
            return
        closing = thread.submit(connections.close_old_unless_in_transaction)
        await asyncio.wait([asyncio.wrap_future(closing)], timeout=BUSY_AFTER)
        if closing.cancel():
            return  # An ORM call runs. It may be what waits for the client.
        is_free = await _until_closed(closing)
        # Meanwhile another task of the request may have begun a handler, or have ended the thread.
        if is_free and not self.pins and _asgiref_threads.get(self) is thread:
            await _end_thread(self)


class _PublicScope(_MiddlewareScope):
    """The context of a request where the tables of asgiref are unknown.

    asgiref makes its thread. Whether there is one is unknown, so closing its connections takes one.
    """

    def __init__(self) -> None:
        super().__init__()
        context: Any = ThreadSensitiveContext()
        with suppress(StopIteration):  # It waits for nothing.
            context.__aenter__().send(None)
        self._context = context

    async def close(self) -> None:
        await sync_to_async(django_connections.close_all)()
        # A task that goes on with the work has a context of its own.
        with suppress(ValueError):
            await self._context.__aexit__(None, None, None)


class _ThreadsOfRequests(Executor):
    """Runs the ORM calls of each request on the thread of the request."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        scope = current()
        assert scope is not None
        thread = scope.take_thread()
        assert thread is not None
        return thread.submit(function, *args, **kwargs)


class _HandedOver:
    """The scope of a request, for the task which goes on with its work."""

    def __init__(self, scope: _RequestScope) -> None:
        self._scope = scope
        self.release = scope.release

    def leave(self) -> Coroutine[Any, Any, Any] | None:
        return self._scope.close()


class _ForeignScope:
    """The thread and its connections belong to somebody else, whose end closes them."""

    def release(self) -> None:
        """Keep the thread."""

    def leave(self) -> None:
        """Close nothing."""


_OF_TEST = _ForeignScope()
_OF_MIDDLEWARE = _ForeignScope()


async def _until_closed(closing: Future[T]) -> T:
    # A cancellation ends the wait, and leaves the connections to the thread.
    return await asyncio.shield(asyncio.wrap_future(closing))


async def _end_thread(scope: _RequestScope) -> None:
    thread = _asgiref_threads.pop(scope)
    assert isinstance(thread, ThreadPoolExecutor)
    closing = thread.submit(django_connections.close_all)
    thread.shutdown(wait=False)
    await _until_closed(closing)


_asgiref_context = private.context_of_threads
_asgiref_threads = private.threads_of_contexts
_ALL_REQUESTS = _RequestScope()
"""The key of their entry, which is kept: the table has weak references."""
_asgiref_threads[_ALL_REQUESTS] = _ThreadsOfRequests()
