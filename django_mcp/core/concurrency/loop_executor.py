"""Running functions for event loops on the threads of a pool, with the futures of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar

from django_mcp.core.concurrency.loops import CONTROL
from django_mcp.core.concurrency.thread_pool import ThreadPool

P = ParamSpec("P")
T = TypeVar("T")


class LoopExecutor(Executor):
    """An executor for ``loop.run_in_executor`` with futures of the running loop.

    A loop copies a future of ``concurrent.futures`` into one of its own. That costs two locks, four
    callbacks and a sixth of a synchronous call. A future of its own is not copied:
    ``asyncio.wrap_future`` returns it unchanged.
    """

    def __init__(self, pool: ThreadPool, caller: Callable[[], Hashable] | None = None) -> None:
        """``caller`` returns the caller that the current code runs for."""
        self._pool = pool
        self._caller = caller

    def submit(  # type: ignore[override]
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Return the future of the result; to be called on the thread of an event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        caller = None if self._caller is None else self._caller()
        self._pool.add((LoopOutcome(loop, future), function, args, kwargs), caller)
        return future


class LoopOutcome:
    """Passes a result from a thread to the event loop, which may have been closed meanwhile."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._future = future

    def set_running_or_notify_cancel(self) -> bool:
        return not self._future.cancelled()

    def set_result(self, result: Any, /) -> None:
        self._pass_on(_set_result, result)

    def set_exception(self, error: BaseException, /) -> None:
        self._pass_on(_set_exception, error)

    def cancel(self) -> None:
        self._pass_on(asyncio.Future.cancel)

    def _pass_on(self, finish: Callable[..., object], *value: Any) -> None:
        """Call ``finish`` with the future in the event loop, unless the loop was closed."""
        try:
            self._loop.call_soon_threadsafe(finish, self._future, *value)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


def _set_result(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():  # It may have been cancelled.
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, CONTROL):  # A future cannot hold it: see there.
        replacement = RuntimeError(f"A function raised {type(error).__name__}")
        replacement.__cause__ = error
        error = replacement
    future.set_exception(error)
