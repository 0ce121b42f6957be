"""What the exchanges of all transports have in common: an event loop, and threads beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.runtime import rollback, threads

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.subscriptions import Filter

T = TypeVar("T")


class LoopExchange:
    """The part of an Exchange which runs handlers, and refuses what a transport cannot do."""

    encodes = False

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function in a thread of the pool."""
        return threads.run(function, *args)

    def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Await ``coroutine``, with database connections of its own."""
        return threads.run_async(coroutine)

    def run_handler(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run it as ``run`` does; a question undoes what it wrote."""
        return rollback.run(function, *args)

    def run_handler_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Await ``coroutine``; a question undoes what it wrote."""
        return rollback.run_async(coroutine)

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop from a handler's thread."""
        if self._is_here():
            coroutine.close()
            raise RuntimeError(
                "A synchronous call to the client would block the event loop: in an async "
                "handler, await the method whose name begins with 'a'."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def close_stream(self, retry: int, /) -> None:
        """There is no way to come back here, so the stream stays open."""

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Nobody can be told anything later on here."""
        raise ConnectionError("This client cannot listen over this transport")

    def _is_here(self) -> bool:
        """Whether this is the thread of the event loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False
