"""Beginning a coroutine at once, with a task only for one that has to wait.

What is handed to a server is nearly always taken at once, and then a task, a future to wait for
it and two rounds of the event loop would be for nothing: 10 µs for each event of a stream. Python
has this from 3.12 on, as eager tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any


def begin(
    beginning: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run ``beginning`` up to its first wait: the task which goes on with it, or None at its end.

    Up to there it runs in the task of whoever begins it, whom its errors reach.
    """
    try:
        awaited = beginning.send(None)
    except StopIteration:
        return None
    return loop.create_task(_go_on(beginning, awaited))


async def _go_on(begun: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _rest(begun, awaited)


@coroutine
def _rest(begun: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Hand what ``begun`` waits for to the event loop, and back to it what comes of that."""
    step: Callable[[Any], Any]
    while True:
        try:
            came = yield awaited
        except BaseException as error:
            step, came = begun.throw, error
        else:
            step = begun.send
        try:
            awaited = step(came)
        except StopIteration:
            return
