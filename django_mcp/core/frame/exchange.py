"""The call in flight: who sent it, whether it was cancelled, and the way to its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from django_mcp.core.frame.cancellation import Cancellation
from django_mcp.core.protocol.errors import Cancelled

if TYPE_CHECKING:
    import asyncio

    from django_mcp.core.auth.base import Principal
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.frame.transport import Transport
    from django_mcp.core.protocol.errors import McpError
    from django_mcp.core.protocol.headers import RequestHeaders
    from django_mcp.core.protocol.subscriptions import Filter
    from django_mcp.core.server.extensions import Serve
    from django_mcp.core.server.server import Server

T = TypeVar("T")


def run_in_place(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine which never waits for anything, without an event loop."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result


class Exchange(Cancellation):
    """One message while it is answered. Each transport has its own subclass.

    This class is the exchange of a Frame made by hand: it runs functions in place and sends
    nothing. Nearly all values are attributes of the class, because few calls set them.
    """

    server: Server
    principal: Principal
    transport: Transport | None = None
    session: Any = None
    """The Django session of the browser cookie, or None."""

    encodes = False
    """Whether the result is sent as bytes, so that parts of it may be encoded early."""
    may_start_tasks = False
    """Whether a tool call may become a task: not within a task, nor in calls of the site."""
    is_task_run = False
    """Whether this is the run of a task, whose middleware ran when its client made the call."""
    may_listen = True
    """Whether the client may open a stream for messages that belong to none of its requests."""
    request_headers: RequestHeaders | None = None
    """The headers which repeat parts of the body, where transport and revision have them."""

    # While the call is in flight.
    task: asyncio.Task[Any] | None = None
    """The task that answers it, up to the end of its response."""
    ended_by: str | None = None
    """The reason if the server ended it early: the response is an error."""
    is_given_up = False
    """Whether its client has cancelled it, and needs no response."""
    counted_as: str | None = None
    """The key of its caller, once calls are counted by caller."""
    is_bound_here = False
    """Whether no other process could answer it, as on a connection."""

    # Once it is answered.
    error: McpError | None = None
    """The error in the response, if it is one."""
    outcome = "ok"
    """How the call ended: "ok", "error", "input_required", "challenged", "client_error",
    "server_error", "cancelled", or "task" if it goes on as one, which is a call of its own when it
    has ended."""
    error_text: str = ""
    """The text that the model reads of a tool's error."""
    exception: tuple[str, str] = ("", "")
    """An unexpected exception in a line, and its fingerprint: see ``failures.summarised``."""
    component_read: str | None = None
    """The key of the resource or template that ``resources/read`` has tried last: the one that has
    answered. None where the caller may know none."""
    opened: Frame | None = None
    """The Frame that ``initialize`` leaves, for whoever opens the session."""

    # Shared by all clients of one call.
    has_ended = False
    """Whether the call was answered or cancelled: nothing more is sent for it."""
    progress = -inf
    collected: Any = None
    """The input requests of the call so far, for a ``MultiRoundTripClient``."""

    def __reduce__(self) -> str:
        """Nothing of a call can be copied: a copy of its Frame is one made by hand."""
        return "NULL_EXCHANGE"

    def tick(self) -> None:
        """Look after the call. A timer or a task for each call would cost as much as its answer."""

    def tick_while_arriving(self) -> None:
        """Look after the call whose body has not arrived yet."""

    def end(self, reason: str) -> None:
        """Cancel the call, whose response is then an error."""
        if self.ended_by is None and not self.has_ended:
            self.ended_by = reason
            self.request(reason)
            self.abandon_requests(reason)
            if self.task is not None:
                self.task.cancel()

    def cancelled(self) -> Cancelled:
        """The error for a call that was ended, with the reason unless its client knows it."""
        return Cancelled(None if self.is_given_up else self.ended_by)

    def abandon_requests(self, reason: str) -> None:
        """Give up the requests of the call: its client cannot respond any more."""

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous function where it may block; clean up its database connections."""
        return _returned(function, args)

    def run_hook(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a function that is not a handler, such as a permission: it waits for no handler."""
        return _returned(function, args)

    def run_async(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Await ``coroutine``; clean up its database connections."""
        return coroutine

    def run_queries(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a function that queries the database for an async handler, on its connections."""
        return _returned(function, args)

    def run_with_rollback(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """``run``; database writes are rolled back if it ends with an input request."""
        return self.run(function, *args)

    def run_async_with_rollback(self, coroutine: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """``run_async``; database writes are rolled back if it ends with an input request."""
        return self.run_async(coroutine)

    def wait_for(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Block until ``coroutine`` is done; RuntimeError in the event loop's own thread."""
        return run_in_place(coroutine)

    def wait_for_client(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """``wait_for`` the client; database connections without a transaction are closed."""
        return run_in_place(coroutine)

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification on this request's stream; never blocks, from any thread."""

    async def flush(self) -> None:
        """Wait until the stream has room again."""

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Return the client's result; raises ClientError, TimeoutError and ConnectionError."""
        raise ConnectionError("This Frame was made by hand: it has no client")

    async def close_stream(self, retry: int, /) -> None:
        """Close the connection, if the client can resume it, after ``retry`` milliseconds."""

    def advise_retry(self, seconds: int, /) -> None:
        """Tell the client after how many seconds it may retry, where the transport can."""

    async def listen(self, frame: Frame, wanted: Filter | Serve, /) -> None:
        """Send notifications until the stream ends: those that match a filter, after its
        acknowledgement, or those of a function."""
        raise ConnectionError("This transport has no listen streams")


async def _returned(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    return function(*args)


NULL_EXCHANGE = Exchange()
"""The exchange of all Frames that were made by hand: nothing can be sent for them."""
NULL_EXCHANGE.has_ended = True
