"""Waiting for what no event announces: a condition is polled, with a time limit."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar, overload

T = TypeVar("T")

SECONDS = 180.0
"""The usual limit, long enough for a busy machine: only what never happens takes as long."""
PAUSE = 0.01


@overload
async def until(
    condition: Callable[[], Awaitable[T | None]],
    what: str = "",
    *,
    seconds: float = ...,
    pause: float = ...,
) -> T: ...
@overload
async def until(
    condition: Callable[[], T | None],
    what: str = "",
    *,
    seconds: float = ...,
    pause: float = ...,
) -> T: ...
async def until(
    condition: Callable[[], Any],
    what: str = "",
    *,
    seconds: float = SECONDS,
    pause: float = PAUSE,
) -> Any:
    """The first true value of a condition, which may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        value: Any = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            _fail(condition, what, seconds)
        await asyncio.sleep(pause)


def wait_until(
    condition: Callable[[], T | None],
    what: str = "",
    *,
    seconds: float = SECONDS,
    pause: float = PAUSE,
) -> T:
    """The first true value of a condition, where there is no event loop."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            _fail(condition, what, seconds)
        time.sleep(pause)
    return value


def _fail(condition: Callable[[], Any], what: str, seconds: float) -> NoReturn:
    """Say what did not happen: in words, or as the source of the condition."""
    raise TimeoutError(f"Not within {seconds:g} s: {what or _source(condition)}")


def _source(condition: Callable[[], Any]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)


async def happens(condition: Callable[[], Any], seconds: float = SECONDS) -> bool:
    """Whether a condition becomes true in time."""
    try:
        await until(condition, seconds=seconds)
    except TimeoutError:
        return False
    return True
