"""The base of the exchanges of all transports: it runs handlers in an event loop and in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.concurrency.coroutines import nothing
from django_mcp.runtime import connections, pools, request_scope, rollback

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.headers import RequestHeaders
    from django_mcp.protocol.subscriptions import Filter

T = TypeVar("T")


class LoopExchange:
    """The part of an Exchange which runs handlers.

    It rejects, or ignores, what only some transports can do; they override those methods.
    """

    encodes = False
    may_start_tasks = True
    is_task_run = False
    may_listen = True

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    @property
    def request_headers(self) -> RequestHeaders | None:
        """None: only stateless requests over HTTP repeat their body in headers."""
        return None

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function in a thread of the pool."""
        request_scope.begin_handler()
        return pools.run(function, *args)

    def run_hook(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function in a thread which no handler occupies."""
        return pools.run_hook(function, *args)

    run_async = staticmethod(request_scope.run_handler)
    """Await a coroutine, with the database connections of its request."""
    run_handler = staticmethod(rollback.run)
    """Run a synchronous handler; its writes before an input request are rolled back."""
    run_handler_async = staticmethod(rollback.run_async)
    """Await a handler; its writes before an input request are rolled back."""

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop from a handler's thread."""
        if self._is_here():
            coroutine.close()
            raise RuntimeError(
                "A synchronous call to the client would block the event loop: in an async "
                "handler, await the method whose name begins with 'a'."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def wait_for_client(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """``wait`` for a response of the client; database connections are closed before."""
        if not self._is_here():
            connections.close_before_wait()
        return self.wait(coroutine)

    def _wait_for_loop(self) -> None:
        """Block this thread until the event loop has done what this thread left to it.

        A handler may write many messages before the loop runs. It never waits for the client.
        """
        asyncio.run_coroutine_threadsafe(nothing(), self.loop).result()

    async def close_stream(self, retry: int, /) -> None:
        """Do nothing: a stream which cannot be resumed stays open."""

    def advise_retry(self, seconds: int, /) -> None:
        """Do nothing: only HTTP has a header for it."""

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Raise ConnectionError: this transport has no streams."""
        raise ConnectionError("This transport has no listen streams")

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False
