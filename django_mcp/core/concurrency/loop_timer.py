"""A coroutine function that is called again and again on an event loop.

It is no task that sleeps, so that an event loop ends without cancelling anything in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any
from weakref import WeakSet

Loop = asyncio.AbstractEventLoop


class LoopTimer:
    """Calls ``work`` with pauses in between, as long as the event loop runs that started it.

    ``pause`` returns the seconds until the next call: at random, so that workers which start
    together do not act together. ``context`` makes the context of each call.
    """

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        pause: Callable[[], float],
        context: Callable[[], Context],
    ) -> None:
        self._work = work
        self._pause = pause
        self._context = context
        self._loops: WeakSet[Loop] = WeakSet()
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Begin on the running event loop; a second call changes nothing."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            self._schedule(loop)

    def _schedule(self, loop: Loop) -> None:
        loop.call_later(self._pause(), self._begin, loop)

    def _begin(self, loop: Loop) -> None:
        task = loop.create_task(self._work(), context=self._context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(self._continue, loop))

    def _continue(self, loop: Loop, _: asyncio.Task[object]) -> None:
        if not loop.is_closed():
            self._schedule(loop)
