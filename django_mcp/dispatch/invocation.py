"""Running a handler, as all methods do it: cancellation looked at, the Frame taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.components.asking import calls_client
from django_mcp.components.signature import is_async
from django_mcp.frame.client.multi_round_trip import InputRequired
from django_mcp.protocol.errors import InvalidParams, McpError

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame

    Answer = tuple[dict[str, Any] | McpError, Frame]


def params_of(frame: Frame) -> Mapping[str, Any]:
    """The raw parameters of the request."""
    return frame.message.params


def string_param(frame: Frame, name: str) -> str:
    """The parameter ``name``, a string; raises InvalidParams."""
    value = params_of(frame).get(name)
    if type(value) is not str:
        raise InvalidParams(f"params.{name} must be a string")
    return value


def object_param(frame: Frame, name: str) -> dict[str, Any]:
    """The parameter ``name``, an object, empty when it is missing; raises InvalidParams."""
    value = params_of(frame).get(name, {})
    if type(value) is not dict:
        raise InvalidParams(f"params.{name} must be an object")
    return value


Read = Callable[[Any], dict[str, Any]]
"""Reads what a handler returned into a result."""


class Handler(Protocol):
    """What can be run: a component or a completer."""

    @property
    def is_async(self) -> bool:
        """Whether what ``invoke`` returns is awaitable."""
        ...

    @property
    def requests_input(self) -> bool:
        """Whether it may ask the client something."""
        ...

    @property
    def invoke(self) -> Callable[..., Any] | None:
        """Called with the checked arguments and the Frame."""
        ...


@dataclass(frozen=True, slots=True)
class HookHandler:
    """A hook of the server, run as the handler of a component which has none of its own."""

    function: Callable[..., Any]
    invoke: Callable[..., Any]
    """Calls it with what a handler would be given."""

    @property
    def is_async(self) -> bool:
        """Whether it is async."""
        return is_async(self.function)

    @property
    def requests_input(self) -> bool:
        """Whether its code asks the client something."""
        return calls_client(self.function)


async def call_hook(function: Callable[..., Any], *arguments: Any, frame: Frame) -> Frame:
    """Call a hook which may return a Frame: that one, or the one which it was given."""
    if is_async(function):
        returned = await function(*arguments, frame)
    else:
        returned = await frame.exchange.run(function, *arguments, frame)
    return returned if is_frame(returned) else frame


async def run(handler: Handler, frame: Frame, *arguments: Any, read: Read) -> Answer:
    """What the handler returned, read into a result, and the Frame to keep.

    ``read`` sees the value where the handler ran: a lazy query which a synchronous handler
    returns is fetched on its own thread. An error which the handler returns is not read.
    Raises what the handler raises, and Cancelled when nobody waits any more.
    """
    exchange, invoke = frame.exchange, handler.invoke
    assert exchange is not None
    assert invoke is not None
    frame.cancellation.raise_if_requested()
    rolls_back = frame.client.is_multi_round_trip and handler.requests_input
    try:
        if handler.is_async:
            run_async = exchange.run_handler_async if rolls_back else exchange.run_async
            answer = read_return_value(await run_async(invoke(*arguments, frame)), frame, read)
        else:
            run_it = exchange.run_handler if rolls_back else exchange.run
            answer = await run_it(_attempt, invoke, arguments, frame, read)
    except InputRequired as question:
        if rolls_back:
            raise
        raise RuntimeError(UNDECLARED) from question
    frame.cancellation.raise_if_requested()
    return answer


UNDECLARED = (
    "This handler asked the client, which its code does not show: say requests_input=True where it "
    "is registered, so that what it wrote before its question can be undone"
)


def _attempt(
    invoke: Callable[..., Any],
    arguments: tuple[Any, ...],
    frame: Frame,
    read: Read,
) -> Answer:
    return read_return_value(invoke(*arguments, frame), frame, read)


def read_return_value(returned: Any, frame: Frame, read: Read) -> Answer:
    """The answer which is in what a handler returned: a value, an error, a Frame, or both."""
    value, after = split_frame(returned, frame)
    return (value if isinstance(value, McpError) else read(value)), after


def split_frame(returned: Any, frame: Frame) -> tuple[Any, Frame]:
    """A handler's value and Frame: it may return either alone, or both."""
    if is_frame(returned):
        return None, returned
    if type(returned) is tuple and len(returned) == 2 and is_frame(returned[1]):
        return returned
    return returned, frame


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a Frame, which this floor knows by its mark alone."""
    return getattr(type(value), "__mcp_frame__", False)
