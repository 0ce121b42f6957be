"""Undoing what a handler wrote to the database before it had to ask.

A handler that asks by rounds ends with its question and runs again from the top when the
answer is there; without this, whatever it writes first would be written twice. Only the
question undoes: what is written before any other error stays, as it does in a session.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from django_mcp import threads
from django_mcp.rounds import InputRequired

T = TypeVar("T")


async def run(function: Callable[..., T], /, *args: Any) -> T:
    """``threads.run``, where a question undoes what ``function`` wrote."""
    return await threads.run(_attempt, function, *args)


def _attempt(function: Callable[..., T], /, *args: Any) -> T:
    with _transactions():
        try:
            return function(*args)
        except BaseException as error:
            failure = error
            _note(error)
    raise failure


async def run_async(coroutine: Coroutine[Any, Any, T], /) -> T:
    """The result of ``coroutine``, where a question undoes what it wrote by the async ORM.

    It has a thread for its database calls to itself, since transactions belong to threads.
    """
    async with threads.own_connections():
        transactions = _transactions()
        await sync_to_async(transactions.__enter__)()
        try:
            return await coroutine
        except InputRequired as error:
            await sync_to_async(_note)(error)
            raise
        finally:
            await sync_to_async(transactions.__exit__)(None, None, None)


@contextmanager
def _transactions() -> Iterator[None]:
    """A transaction on every database."""
    with ExitStack() as stack:
        for alias in connections:
            stack.enter_context(transaction.atomic(using=alias))
        yield


def _note(error: BaseException) -> None:
    """Let the transactions of this thread end as ``error`` wants it: a question undoes them."""
    if isinstance(error, InputRequired):
        for alias in connections:
            transaction.set_rollback(True, using=alias)
