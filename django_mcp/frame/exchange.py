"""The interface to the transport: what dispatch needs to answer one message.

It runs functions on threads and writes to the client. Each transport implements it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.protocol.headers import RequestHeaders
    from django_mcp.protocol.subscriptions import Filter

T = TypeVar("T")


class Exchange(Protocol):
    """The connection to the client of one message, and the threads for its handler."""

    encodes: bool
    """Whether the result is sent as bytes, so that parts of it may be encoded early."""
    may_start_tasks: bool
    """Whether a tool call may become a task: not within a task, nor in calls of the site."""
    is_task_run: bool
    """Whether this is the run of a task, whose middleware ran when its client made the call."""

    @property
    def may_listen(self) -> bool:
        """Whether the client may open a stream for what belongs to none of its requests."""

    @property
    def request_headers(self) -> RequestHeaders | None:
        """The headers which repeat parts of the body, where transport and revision have them."""

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function where it may block; clean up its database connections."""

    def run_hook(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """``run`` for what is no handler, and must not wait for one: a permission function."""

    def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Await ``coroutine``; clean up its database connections."""

    def run_handler(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """``run``; database writes are rolled back if it ends with an input request."""

    def run_handler_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """``run_async``; database writes are rolled back if it ends with an input request."""

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Block until ``coroutine`` is done; RuntimeError in the event loop's own thread."""

    def wait_for_client(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """``wait`` for the client; database connections without a transaction are closed."""

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification on this request's stream; never blocks, from any thread."""

    async def flush(self) -> None:
        """Wait until the stream has room again."""

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Return the client's result; raises ClientError, TimeoutError and ConnectionError."""

    async def close_stream(self, retry: int, /) -> None:
        """Close the connection, if the client can resume it, after ``retry`` milliseconds."""

    def advise_retry(self, seconds: int, /) -> None:
        """Tell the client after how many seconds it may retry, where the transport can."""

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Acknowledge, then send the notifications that match ``wanted`` until the stream ends."""


def run_in_place(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine which never waits for anything, without an event loop."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result


class NullExchange:
    """The exchange of a Frame made by hand: it runs functions in place and sends nothing."""

    encodes = False
    may_start_tasks = False
    is_task_run = False
    may_listen = True
    request_headers: RequestHeaders | None = None

    async def run(self, function: Callable[..., T], /, *args: Any) -> T:
        return function(*args)

    async def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        return await coroutine

    run_hook = run
    run_handler = run
    run_handler_async = run_async
    wait = staticmethod(run_in_place)
    wait_for_client = staticmethod(run_in_place)

    def write(self, message: dict[str, Any], /) -> None:
        """Drop ``message``."""

    async def flush(self) -> None:
        """Return at once."""

    async def send_request(self, *args: Any, **options: Any) -> Any:
        raise ConnectionError("This Frame was made by hand: it has no client")

    listen = send_request

    async def close_stream(self, retry: int, /) -> None:
        """Do nothing: there is no stream."""

    def advise_retry(self, seconds: int, /) -> None:
        """Do nothing: there is no client."""

    def __reduce__(self) -> str:
        return "NULL_EXCHANGE"


NULL_EXCHANGE = NullExchange()
