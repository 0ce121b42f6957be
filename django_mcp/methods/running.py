"""Running a handler, as all methods do it: cancellation looked at, the Frame taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.protocol.errors import InvalidParams, McpError

if TYPE_CHECKING:
    from django_mcp.frame import Frame

    Answer = tuple[dict[str, Any] | McpError, Frame]


def params_of(frame: Frame) -> Mapping[str, Any]:
    """The raw parameters of the request."""
    assert frame.request is not None
    return frame.request.params


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


class Handler(Protocol):
    """What can be run: a component or a completer."""

    @property
    def is_async(self) -> bool:
        """Whether what ``invoke`` returns is awaitable."""
        ...

    @property
    def invoke(self) -> Callable[..., Any] | None:
        """Called with the checked arguments and the Frame."""
        ...


async def run(
    handler: Handler, frame: Frame, *arguments: Any, read: Callable[[Any], dict[str, Any]]
) -> Answer:
    """What the handler returned, read into a result, and the Frame to keep.

    ``read`` sees the value where the handler ran: a lazy query which a synchronous handler
    returns is fetched on its own thread. An error which the handler returns is not read.
    Raises what the handler raises, and Cancelled when nobody waits any more.
    """
    frame.cancellation.raise_if_requested()
    invoke = handler.invoke
    assert invoke is not None
    if handler.is_async:
        answer = conclude(await invoke(*arguments, frame), frame, read)
    else:
        assert frame.exchange is not None
        answer = await frame.exchange.run(_attempt, invoke, arguments, frame, read)
    frame.cancellation.raise_if_requested()
    return answer


def _attempt(
    invoke: Callable[..., Any],
    arguments: tuple[Any, ...],
    frame: Frame,
    read: Callable[[Any], dict[str, Any]],
) -> Answer:
    return conclude(invoke(*arguments, frame), frame, read)


def conclude(returned: Any, frame: Frame, read: Callable[[Any], dict[str, Any]]) -> Answer:
    """The answer which is in what a handler returned: a value, an error, a Frame, or both."""
    value, after = split(returned, frame)
    return (value if isinstance(value, McpError) else read(value)), after


def split(returned: Any, frame: Frame) -> tuple[Any, Frame]:
    """A handler's value and Frame: it may return either alone, or both."""
    if is_frame(returned):
        return None, returned
    if type(returned) is tuple and len(returned) == 2 and is_frame(returned[1]):
        return returned
    return returned, frame


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a Frame, which this floor knows by its mark alone."""
    return getattr(type(value), "__mcp_frame__", False)
