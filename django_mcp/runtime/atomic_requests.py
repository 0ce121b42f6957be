"""ATOMIC_REQUESTS for handlers: a transaction on each database that has this setting.

As around a view, an exception rolls it back, and an error that is returned does not.
``transaction.non_atomic_requests`` excludes a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from django.db import connections, transaction

from django_mcp.runtime.context_managers import within

T = TypeVar("T")


def aliases() -> tuple[str, ...]:
    """The databases with ATOMIC_REQUESTS."""
    databases = connections.settings.items()
    return tuple(alias for alias, options in databases if options.get("ATOMIC_REQUESTS"))


class AtomicRequests:
    """The transactions around the handlers of a site."""

    def call(self, handler: Any, function: Callable[..., T], /, *args: Any) -> T:
        """Return what ``function``, which calls the synchronous ``handler``, returns."""
        with _transactions(handler):
            return function(*args)

    async def wait_for(self, handler: Any, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Return the result of ``coroutine``, a call of the asynchronous ``handler``.

        Django refuses async views with ATOMIC_REQUESTS, because their ORM calls may run on any
        thread. Those of a handler run on the thread of its request, which has the transaction.
        """
        if not _aliases_of(handler):
            return await coroutine
        return await within(partial(_transactions, handler), coroutine)


def _transactions(handler: Any) -> ExitStack:
    with ExitStack() as stack:
        for alias in _aliases_of(handler):
            stack.enter_context(transaction.atomic(using=alias))
        return stack.pop_all()


def _aliases_of(handler: Any) -> tuple[str, ...]:
    excluded = getattr(handler, "_non_atomic_requests", ())
    return tuple(alias for alias in aliases() if alias not in excluded)
