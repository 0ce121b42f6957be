"""Synchronous context managers around a coroutine, on the thread of its request.

``sync_to_async`` copies the context variables for each call, and a manager may reset what it has
set only in the context where it has set it. It has one of its own here, from which the coroutine
takes over what is set at the beginning, and which takes over from the coroutine before the end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar, Token, copy_context
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

T = TypeVar("T")

_MISSING = object()


async def within(
    open_manager: Callable[[], AbstractContextManager[Any]], coroutine: Coroutine[Any, Any, T], /
) -> T:
    """Return the result of ``coroutine`` within a manager, which may use the database."""
    context = copy_context()
    try:
        manager = await sync_to_async(context.run)(_enter, open_manager)
    except BaseException:
        coroutine.close()
        raise
    tokens = _set(_differences(context, copy_context()))
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
    return result


def _enter(
    open_manager: Callable[[], AbstractContextManager[Any]],
) -> AbstractContextManager[Any]:
    manager = open_manager()
    manager.__enter__()
    return manager


async def _exit(manager: AbstractContextManager[Any], context: Context, *error: Any) -> None:
    context.run(_set, _differences(copy_context(), context))
    # A cancellation must not leave a transaction open.
    await asyncio.shield(sync_to_async(context.run)(manager.__exit__, *error))


def _differences(of: Context, to: Context) -> list[tuple[ContextVar[Any], Any]]:
    return [(variable, value) for variable, value in of.items() if _is_other(to, variable, value)]


def _is_other(context: Context, variable: ContextVar[Any], value: Any) -> bool:
    return context.get(variable, _MISSING) is not value


def _set(values: Iterable[tuple[ContextVar[Any], Any]]) -> list[tuple[ContextVar[Any], Token[Any]]]:
    return [(variable, variable.set(value)) for variable, value in values]
