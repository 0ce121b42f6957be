"""Undocumented parts of asgiref and Django that this package uses.

It is used here, and in ``core.private``, and nowhere else: see there. Where a name is gone,
something public takes its place, which does the same and takes longer.
``tests/runtime/test_private.py`` runs both, and names the parts that a new release has removed.

Tried with asgiref 3.8 to 3.13, and with Django 5.2 to 6.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import iscoroutinefunction
from os import getpid
from typing import Any
from weakref import WeakKeyDictionary

from asgiref import sync
from asgiref.sync import AsyncToSync, SyncToAsync, async_to_sync, sync_to_async
from django.db.models import Model
from django.db.models.query import ModelIterable
from django.http import HttpRequest, HttpResponseBase

Bridge = Callable[..., Coroutine[Any, Any, Any]]
"""Calls a function with the arguments on another thread."""

# asgiref: running a synchronous function for a coroutine.

_facts_of_thread: Any = getattr(SyncToAsync, "threadlocal", None)
"""Where ``async_to_sync`` looks for the event loop of the coroutine, by thread."""


def _set_all(context: Context) -> None:
    """Set the variables of a context in the current one."""
    for variable, value in context.items():
        if variable.get(None) is not value:
            variable.set(value)


restore_context: Callable[[Context], None] = getattr(sync, "_restore_context", _set_all)
"""Set the variables of a context in the current one; a ``Local`` moves to the current thread."""

KNOWS_THREADS = _facts_of_thread is not None


def bridge(function: Callable[..., Any], executor: Any) -> Bridge:
    """Return an async function that calls ``function`` on a thread of ``executor``.

    It has the context variables of its caller, who has those that it has set. ``async_to_sync``
    in it returns to the event loop of its caller; a cancellation of the caller cancels what runs
    there. A synchronous call has a fifth fewer calls of functions than with ``sync_to_async``.
    """
    if KNOWS_THREADS:
        return partial(_call_on_thread, executor, function)
    return sync_to_async(function, thread_sensitive=False, executor=executor)


async def _call_on_thread(
    executor: Executor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """``executor`` returns futures of the running event loop."""
    loop = asyncio.get_running_loop()
    context = copy_context()
    inner: list[asyncio.Task[Any]] = []
    submitted: Any = executor.submit(
        context.run, _on_thread, loop, context, inner, function, args, kwargs
    )
    try:
        return await submitted
    except asyncio.CancelledError:
        for task in tuple(inner):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        raise
    finally:
        restore_context(context)


def _on_thread(
    loop: asyncio.AbstractEventLoop,
    context: Context,
    inner: list[asyncio.Task[Any]],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call ``function`` in ``context``; ``inner`` is where asgiref puts the task of a coroutine."""
    facts = _facts_of_thread
    facts.main_event_loop = loop
    facts.main_event_loop_pid = getpid()
    facts.task_context = inner
    restore_context(context)
    return function(*args, **kwargs)


def has_loop() -> bool:
    """Whether a loop that runs already waits for this thread: ``async_to_sync`` returns to it.

    Otherwise ``async_to_sync`` makes one, which ends with its coroutine.
    """
    if not KNOWS_THREADS:
        return async_to_sync(_has_other_tasks)()
    facts = _facts_of_thread.__dict__
    loop = facts.get("main_event_loop")
    is_of_process = facts.get("main_event_loop_pid") == getpid()
    return loop is not None and is_of_process and not loop.is_closed()


async def _has_other_tasks() -> bool:
    """Whether the loop has more to do than this; then something waits for the calling thread."""
    return len(asyncio.all_tasks()) > 1


def call_for_loop(
    loop: asyncio.AbstractEventLoop, process_id: int, function: Callable[..., Any], /, *args: Any
) -> Any:
    """Call ``function``: ``async_to_sync`` returns to ``loop`` within it, and not after it.

    Only where ``KNOWS_THREADS``.
    """
    facts = _facts_of_thread.__dict__
    before = dict(facts)
    facts.update(main_event_loop=loop, main_event_loop_pid=process_id)
    try:
        return function(*args)
    finally:
        facts.clear()
        facts.update(before)


# asgiref: the threads of contexts.

KNOWS_CONTEXTS = hasattr(SyncToAsync, "thread_sensitive_context") and hasattr(
    SyncToAsync, "context_to_thread_executor"
)
context_of_threads: ContextVar[Any] = getattr(
    SyncToAsync, "thread_sensitive_context", ContextVar("django_mcp.request_scope")
)
"""The ``ThreadSensitiveContext`` that the current code is in."""
threads_of_contexts: MutableMapping[Any, Executor] = getattr(
    SyncToAsync, "context_to_thread_executor", WeakKeyDictionary()
)


def waiting_executor() -> Executor | None:
    """The executor of the thread that waits for this coroutine in ``async_to_sync``."""
    return getattr(getattr(AsyncToSync, "executors", None), "current", None)


# Django.


def is_evaluated(query: Any) -> bool:
    """Whether a QuerySet has its rows, as far as it is known: to evaluate it again is harmless."""
    return getattr(query, "_result_cache", None) is not None


def has_model_rows(query: Any) -> bool:
    """Whether the rows of a QuerySet are models; it may evaluate it."""
    kind = getattr(query, "_iterable_class", None)
    if kind is None:
        return any(isinstance(row, Model) for row in query)
    return issubclass(kind, ModelIterable)


def close_resources(response: HttpResponseBase) -> None:
    """Close the resources of a response, without the signal that an HTTP request is over.

    Otherwise with it: receivers close connections that the next query opens again.
    """
    closers = getattr(response, "_resource_closers", None)
    if closers is None:
        response.close()
        return
    for close in closers:
        close()


def view_within_middleware(handler: Any, *, is_async: bool) -> Callable[..., Any]:
    """The innermost function of a ``BaseHandler``: its view, with the hooks around views."""
    if is_async:
        return getattr(handler, "_get_response_async", None) or partial(_respond_async, handler)
    return getattr(handler, "_get_response", None) or partial(_respond, handler)


def _respond(handler: Any, request: HttpRequest) -> Any:
    view, args, kwargs = handler.resolve_request(request)
    for before_view in handler._view_middleware:
        response = before_view(request, view, args, kwargs)
        if response is not None:
            return response
    try:
        response = handler.make_view_atomic(view)(request, *args, **kwargs)
        handler.check_response(response, view)
        if callable(getattr(response, "render", None)):
            for before_render in handler._template_response_middleware:
                response = before_render(request, response)
            response = response.render()
    except Exception as error:
        response = handler.process_exception_by_middleware(error, request)
        if response is None:
            raise
    return response


async def _respond_async(handler: Any, request: HttpRequest) -> Any:
    view, args, kwargs = handler.resolve_request(request)
    for before_view in handler._view_middleware:
        response = await before_view(request, view, args, kwargs)
        if response is not None:
            return response
    try:
        if iscoroutinefunction(view):
            response = await view(request, *args, **kwargs)
        else:
            atomic = handler.make_view_atomic(view)
            response = await sync_to_async(atomic)(request, *args, **kwargs)
        handler.check_response(response, view)
        if callable(getattr(response, "render", None)):
            for before_render in handler._template_response_middleware:
                response = await before_render(request, response)
            response = await sync_to_async(response.render)()
    except Exception as error:
        response = await sync_to_async(handler.process_exception_by_middleware)(error, request)
        if response is None:
            raise
    return response
