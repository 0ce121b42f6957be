"""Calls that run in an event loop and in threads: of every transport, and local ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async

from django_mcp.core.concurrency.loops import nothing
from django_mcp.core.frame.exchange import Exchange
from django_mcp.runtime import connections, pools, request_scope, rollback

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Principal
    from django_mcp.core.frame.transport import Transport
    from django_mcp.core.server.server import Server

T = TypeVar("T")

TIMED_OUT = "The call took too long"
NO_CLIENT = "There is no client to ask: this call was made by the site"


class LoopExchange(Exchange):
    """A call whose handler runs in the event loop, or in a thread.

    Transports to a client override how messages are sent. Without them it is a local call, of the
    site, of a page or of a task: notifications are passed to ``receive``, or to the call within
    which it is made; otherwise they are dropped.
    """

    server: Server
    may_start_tasks = True
    in_pool: Callable[..., Awaitable[Any]] = staticmethod(pools.run)  # type: ignore[arg-type]
    """Runs a synchronous handler in a thread."""
    outer: Exchange | None = None
    """The outer call of this one: its client receives the messages of both."""
    written_by_threads = 0
    """Messages that handlers in threads have sent."""
    receive_message: Callable[[dict[str, Any]], object] | None = None
    """Takes the notifications, from any thread."""

    def __init__(
        self,
        server: Server,
        principal: Principal,
        transport: Transport | None = None,
        session: Any = None,
    ) -> None:
        self.server = server
        self.principal = principal
        self.transport = transport
        self.session = session
        self.loop = asyncio.get_running_loop()

    @contextmanager
    def time_limit(self, seconds: float | None) -> Iterator[None]:
        """End the call, which the current task answers within this context, after so long."""
        self.task = asyncio.current_task()
        timer = None if seconds is None else self.loop.call_later(seconds, self.end, TIMED_OUT)
        try:
            yield
        finally:
            self.task = None  # They refer to each other.
            if timer is not None:
                timer.cancel()

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function in a thread of the pool."""
        request_scope.begin_handler()
        return self.in_pool(function, *args)

    def run_hook(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function in a thread which no handler occupies."""
        return pools.run_hook(function, *args)

    run_async = staticmethod(request_scope.run_async)
    """Await a coroutine, with the database connections of its request."""

    def run_queries(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a function where the ORM calls of an async handler run: it sees their writes."""
        return sync_to_async(function)(*args)

    run_with_rollback = staticmethod(rollback.run)
    """Run a synchronous handler; its writes before an input request are rolled back."""
    run_async_with_rollback = staticmethod(rollback.run_async)
    """Await a handler; its writes before an input request are rolled back."""

    def wait_for(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop from a handler's thread."""
        if self._is_here():
            coroutine.close()
            raise RuntimeError(
                "A synchronous call to the client would block the event loop: in an async "
                "handler, await the method whose name begins with 'a'."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def wait_for_client(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """``wait_for`` a response of the client; database connections are closed before."""
        if not self._is_here():
            connections.close_before_wait()
        return self.wait_for(coroutine)

    def write(self, message: dict[str, Any], /) -> None:
        if self.receive_message is not None:
            self.receive_message(message)
        elif self.outer is not None:
            self.outer.write(message)

    async def flush(self) -> None:
        if self.outer is not None:
            await self.outer.flush()
        else:
            await asyncio.sleep(0)

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        if self.outer is None:
            raise ConnectionError(NO_CLIENT)
        return await self.outer.send_request(method, params, timeout=timeout)

    def _wait_for_loop(self) -> None:
        """Block this thread until the event loop has done the work that this thread left to it.

        A handler may write many messages before the loop runs. It never waits for the client.
        """
        asyncio.run_coroutine_threadsafe(nothing(), self.loop).result()

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False
