"""Running a handler: cancellation, input requests, and the Frame it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from django_mcp.components.base import Completer, Component
from django_mcp.components.signature import is_async
from django_mcp.frame.client.multi_round_trip import InputRequired
from django_mcp.frame.frame import Frame
from django_mcp.protocol.errors import InvalidParams, McpError

Answer = tuple[dict[str, Any] | McpError, Frame]


def string_param(frame: Frame, name: str) -> str:
    """Return the parameter ``name``, a string; raises InvalidParams."""
    value = frame.message.params.get(name)
    if type(value) is not str:
        raise InvalidParams(f"params.{name} must be a string")
    return value


def object_param(frame: Frame, name: str) -> dict[str, Any]:
    """Return the parameter ``name``, an object, empty if it is missing; raises InvalidParams."""
    value = frame.message.params.get(name, {})
    if type(value) is not dict:
        raise InvalidParams(f"params.{name} must be an object")
    return value


Read = Callable[[Any], dict[str, Any]]
"""Converts a handler's return value into a result."""


class HookHandler(NamedTuple):
    """A hook of the server which runs as the handler of a component without one."""

    invoke: Callable[..., Any]
    is_async: bool
    requests_input: bool = False


Handler = Component | Completer | HookHandler


def handler_of(component: Component, hook: Callable[..., Any], *arguments: Any) -> Handler:
    """Return ``component``, or ``hook`` with ``arguments`` where it has no handler."""
    if component.invoke is not None:
        return component
    return HookHandler(partial(hook, *arguments), is_async(hook), component.requests_input)


async def call_hook(function: Callable[..., Any], *arguments: Any, frame: Frame) -> Frame:
    """Call a hook which may return a Frame; return that one, or ``frame``."""
    if is_async(function):
        returned = await function(*arguments, frame)
    else:
        returned = await frame.exchange.run(function, *arguments, frame)
    return returned if isinstance(returned, Frame) else frame


async def run(handler: Handler, frame: Frame, *arguments: Any, read: Read) -> Answer:
    """Run a handler; return its result and the Frame to keep.

    ``read`` runs where the handler runs: a lazy query which a synchronous handler returns is
    evaluated on the handler's thread. It is not called for an error which the handler returns.
    Raises what the handler raises, and Cancelled when the request was cancelled.
    """
    exchange, state = frame.exchange, frame.client.state
    invoke: Any = handler.invoke  # Never None: see handler_of.
    frame.cancellation.raise_if_requested()
    rolls_back = frame.client.is_multi_round_trip and handler.requests_input
    writes = state.writes
    try:
        if handler.is_async:
            run_async = exchange.run_handler_async if rolls_back else exchange.run_async
            answer = _read(await run_async(invoke(*arguments, frame)), frame, read)
        else:
            run_sync = exchange.run_handler if rolls_back else exchange.run
            # Not a closure: with sixteen callers, it costs 8 % of a synchronous call.
            answer = await run_sync(_invoke, invoke, arguments, frame, read)
    except InputRequired as required:
        if state.writes > writes and not rolls_back:
            raise RuntimeError(UNDECLARED) from required
        raise
    frame.cancellation.raise_if_requested()
    return answer


UNDECLARED = (
    "This handler wrote to the database before it requested input. It runs again when the client "
    "responds, and would write twice: declare requests_input=True where it is registered, so that "
    "such writes are rolled back"
)


def _invoke(
    invoke: Callable[..., Any], arguments: tuple[Any, ...], frame: Frame, read: Read
) -> Answer:
    return _read(invoke(*arguments, frame), frame, read)


def _read(returned: Any, frame: Frame, read: Read) -> Answer:
    """Return the result of a return value, which is a value, a Frame, or a tuple of both."""
    value, after = returned, frame
    if isinstance(returned, Frame):
        value, after = None, returned
    elif type(returned) is tuple and len(returned) == 2 and isinstance(returned[1], Frame):
        value, after = returned
    return (value if isinstance(value, McpError) else read(value)), after
