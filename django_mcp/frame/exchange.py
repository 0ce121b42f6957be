"""What a transport lends to the conversation for the time of one message.

The conversation knows no event loop's details, no sockets and no database: where it needs
them, it asks the exchange. Each transport has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.headers import RequestHeaders
    from django_mcp.protocol.subscriptions import Filter

T = TypeVar("T")


class Exchange(Protocol):
    """One message's way back to its client, and the thread to run its handler in."""

    encodes: bool
    """Whether an answer leaves as bytes, so that parts of it may be bytes already."""

    request_headers: RequestHeaders | None
    """The headers which repeat parts of the body, where transport and revision have them."""

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function where it may block, and care for what it leaves open."""
        ...

    def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """The result of ``coroutine``, caring for what it leaves open."""
        ...

    def run_handler(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """``run``, undoing what ``function`` wrote to the database if it ends with a question."""
        ...

    def run_handler_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """The result of ``coroutine``, undoing what it wrote if it ends with a question."""
        ...

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop and block until it is done.

        Raises RuntimeError in the event loop's own thread, where it would wait for itself.
        """
        ...

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification on this request's stream; never blocks, from any thread."""
        ...

    async def flush(self) -> None:
        """Wait until the stream has room again."""
        ...

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Send a request on this request's stream and return the result that answers it.

        Raises ClientRefused when the client answers with an error, TimeoutError when it does not
        answer, and ConnectionError when it can no longer be reached.
        """
        ...

    async def close_stream(self, retry: int, /) -> None:
        """Let go of the connection; the client comes back for the rest in ``retry`` milliseconds.

        Nothing happens where transport or revision have no way to come back.
        """
        ...

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Announce on this request's stream what ``wanted`` lets pass, until it is to end.

        It is first acknowledged, and nothing is sent before.
        """
        ...


class NullExchange:
    """The exchange of a Frame made by hand: it runs functions in place and sends nothing."""

    encodes = False
    request_headers: RequestHeaders | None = None

    async def run(self, function: Callable[..., T], /, *args: Any) -> T:
        """Call ``function`` on this thread."""
        return function(*args)

    async def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Await ``coroutine``."""
        return await coroutine

    run_handler = run
    run_handler_async = run_async

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` in an event loop of its own."""
        return asyncio.run(coroutine)

    def write(self, message: dict[str, Any], /) -> None:
        """Drop ``message``."""

    async def flush(self) -> None:
        """Return at once."""

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Raise ConnectionError."""
        raise ConnectionError("This Frame was made by hand: it has no client")

    async def close_stream(self, retry: int, /) -> None:
        """Do nothing: there is no stream."""

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Raise ConnectionError."""
        raise ConnectionError("This Frame was made by hand: it has no client")

    def __reduce__(self) -> str:
        return "NULL_EXCHANGE"


NULL_EXCHANGE = NullExchange()
