"""Starting coroutines, and awaiting what somebody else has started."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def nothing() -> None:
    """Return at once: a coroutine where there is nothing to wait for."""


async def result_of(awaitable: Awaitable[T], /) -> T:
    """Await ``awaitable``, for functions that take a coroutine function, not a coroutine."""
    return await awaitable


def start_task(
    coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None = None
) -> asyncio.Task[T]:
    """Create a task on the running loop; from Python 3.12 on, it begins at once.

    ``loop`` is the running loop, where the caller has it. A coroutine that never waits has ended
    when this returns, without an iteration of the loop: an ASGI server takes most messages at once.
    On Python 3.11, and on a loop that makes its tasks itself, it begins with the next iteration.
    """
    loop = loop or asyncio.get_running_loop()
    if sys.version_info >= (3, 12) and loop.get_task_factory() is None:  # pragma: no cover
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)
