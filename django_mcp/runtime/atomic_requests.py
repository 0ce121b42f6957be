"""ATOMIC_REQUESTS for handlers: a transaction on each database that has this setting.

As around a view, an exception rolls it back, and an error that is returned does not.
``transaction.non_atomic_requests`` excludes a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import connections, transaction

from django_mcp.runtime.context_managers import within

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.server.server import Server

T = TypeVar("T")


def aliases() -> tuple[str, ...]:
    """The databases with ATOMIC_REQUESTS."""
    databases = connections.settings.items()
    return tuple(alias for alias, options in databases if options.get("ATOMIC_REQUESTS"))


class Transactions(NamedTuple):
    """The transactions around a handler, on these databases."""

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
    remaining = tuple(alias for alias in aliases() if alias not in excluded)
    return Transactions(remaining) if remaining else None
