"""Synchronous context managers around a handler: ``around_call`` and ATOMIC_REQUESTS.

Around a coroutine, they run on the thread of its request, which keeps it from their beginning to
their end, also while the coroutine waits for its client. ``sync_to_async`` copies the context
variables for each call, and a manager may reset a variable only in the context where it has set it.
It has a context of its own here: the coroutine takes over its changes at the beginning, and it
takes over the coroutine's before the end.

The values of asgiref's ``Local``, such as the active language, belong to a thread besides. Whatever
takes a context to another thread has to move them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, ExitStack
from contextvars import Context, ContextVar, Token, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections as django_connections
from django.db import transaction

from django_mcp.runtime import connections, private, request_scope

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server

T = TypeVar("T")

_MISSING = object()


def move_locals() -> None:
    """Move the values of asgiref's ``Local`` to this thread: others do not see them."""
    private.restore_context(copy_context())


class AroundCall(NamedTuple):
    """The hook ``around_call`` of a server, around its handlers."""

    server: Server

    def call(self, frame: Frame, function: Callable[..., T], /, *args: Any) -> T:
        """Call ``function`` within it."""
        with connections.kept(), self.server.around_call(frame):
            return function(*args)
        raise RuntimeError("around_call suppressed the exception of a handler")

    def wait_for(
        self, frame: Frame, coroutine: Coroutine[Any, Any, T], /
    ) -> Coroutine[Any, Any, T]:
        """Await ``coroutine`` within it."""
        return within(partial(self.server.around_call, frame), coroutine)


def around_call(server: Server, handler: Any) -> AroundCall | None:
    """The hook around each handler of a server; None without it."""
    return AroundCall(server) if server.has_hook("around_call") else None


class Transactions(NamedTuple):
    """A transaction around a handler, on each of these databases, as ATOMIC_REQUESTS demands.

    As around a view, an exception rolls it back, and an error that is returned does not.
    ``transaction.non_atomic_requests`` excludes a handler.
    """

    aliases: tuple[str, ...]

    def call(self, frame: Frame, function: Callable[..., T], /, *args: Any) -> T:
        """Return what ``function``, which calls a synchronous handler, returns."""
        with self._begin():
            return function(*args)

    def wait_for(
        self, frame: Frame, coroutine: Coroutine[Any, Any, T], /
    ) -> Coroutine[Any, Any, T]:
        """Return the result of ``coroutine``, a call of an asynchronous handler.

        Django refuses async views with ATOMIC_REQUESTS, because their ORM calls may run on any
        thread. Queries of a handler run on the thread of its request, which has the transaction.
        """
        return within(self._begin, coroutine)

    def _begin(self) -> ExitStack:
        with ExitStack() as stack:
            for alias in self.aliases:
                stack.enter_context(transaction.atomic(using=alias))
            return stack.pop_all()


def transactions(server: Server, handler: Any) -> Transactions | None:
    """The transactions around a handler, for ATOMIC_REQUESTS; None if it is excluded."""
    excluded = getattr(handler, "_non_atomic_requests", ())
    databases = django_connections.settings.items()
    aliases = [alias for alias, options in databases if options.get("ATOMIC_REQUESTS")]
    remaining = tuple(alias for alias in aliases if alias not in excluded)
    return Transactions(remaining) if remaining else None


async def within(
    open_manager: Callable[[], AbstractContextManager[Any]], coroutine: Coroutine[Any, Any, T], /
) -> T:
    """Return the result of ``coroutine`` within a manager, which may use the database.

    What the manager sets on its connection, such as the schema of a tenant, is on this thread: so
    the request keeps it, and no other request has it meanwhile.
    """
    with request_scope.on_one_thread():
        return await _within(open_manager, coroutine)


async def _within(
    open_manager: Callable[[], AbstractContextManager[Any]], coroutine: Coroutine[Any, Any, T], /
) -> T:
    context = copy_context()
    entering = asyncio.ensure_future(sync_to_async(context.run)(_enter, open_manager))
    try:
        manager, before = await asyncio.shield(entering)
    except BaseException as error:
        coroutine.close()
        if isinstance(error, asyncio.CancelledError):
            # Its thread goes on to enter it.
            await asyncio.shield(_exit_late(entering, context, *sys.exc_info()))
        raise
    # Only changes of the manager: the coroutine may go on, and so have its Locals moved to,
    # another thread than the one that waited for the manager.
    tokens = _set(_differences(context, before))
    move_locals()
    try:
        result = await coroutine
    except BaseException:
        await _exit(manager, context, *sys.exc_info())
        raise
    else:
        await _exit(manager, context, None, None, None)
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)
        move_locals()
    return result


def _enter(
    open_manager: Callable[[], AbstractContextManager[Any]],
) -> tuple[AbstractContextManager[Any], Context]:
    """Enter a manager; return it, and the context as it was before."""
    move_locals()
    before = copy_context()
    manager = open_manager()
    manager.__enter__()
    return manager, before


async def _exit_late(
    entering: asyncio.Future[tuple[AbstractContextManager[Any], Context]],
    context: Context,
    *error: Any,
) -> None:
    """Exit a manager whose call was cancelled, as soon as it is entered."""
    await asyncio.wait([entering])
    if not entering.cancelled() and entering.exception() is None:
        manager, _ = entering.result()
        await _exit(manager, context, *error)


async def _exit(manager: AbstractContextManager[Any], context: Context, *error: Any) -> None:
    context.run(_set, _differences(copy_context(), context))
    # A cancellation must not leave a transaction open.
    await asyncio.shield(sync_to_async(context.run)(_leave, manager, *error))


def _leave(manager: AbstractContextManager[Any], *error: Any) -> None:
    move_locals()
    manager.__exit__(*error)


def _differences(of: Context, to: Context) -> list[tuple[ContextVar[Any], Any]]:
    """Return the variables that have another value in the first context than in the second."""
    return [(each, value) for each, value in of.items() if to.get(each, _MISSING) is not value]


def _set(values: Iterable[tuple[ContextVar[Any], Any]]) -> list[tuple[ContextVar[Any], Token[Any]]]:
    return [(variable, variable.set(value)) for variable, value in values]
