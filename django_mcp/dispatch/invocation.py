"""Running a handler: cancellation, input requests, exceptions, and the Frame it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

from django_mcp.components.base import (
    Completer,
    Component,
    InvalidOutput,
    UnserializableResult,
)
from django_mcp.components.schemas import InputSchema
from django_mcp.components.signature import is_async
from django_mcp.concurrency.interrupts import is_interrupted_by_user
from django_mcp.concurrency.loop_executor import LoopExecutor
from django_mcp.concurrency.thread_pool import ThreadPool
from django_mcp.frame.client.base import current
from django_mcp.frame.client.multi_round_trip import InputRequired, unwrapped
from django_mcp.frame.frame import Frame
from django_mcp.frame.transport import current_caller
from django_mcp.protocol.errors import InvalidParams, Json, McpError
from django_mcp.protocol.limits import MAX_IDENTIFIER, too_long
from django_mcp.server import failures

Answer = tuple[dict[str, Any] | McpError, Frame]


def string_param(params: Json, name: str, most: int = MAX_IDENTIFIER) -> str:
    """Return the parameter ``name``, a string of at most ``most`` characters.

    Raises InvalidParams.
    """
    value = params.get(name)
    if type(value) is not str:
        raise InvalidParams(f"params.{name} must be a string")
    if len(value) > most:
        raise InvalidParams(too_long(f"params.{name}", most))
    return value


def object_param(params: Json, name: str) -> dict[str, Any]:
    """Return the parameter ``name``, an object, empty if it is missing; raises InvalidParams."""
    value = params.get(name, {})
    if type(value) is not dict:
        raise InvalidParams(f"params.{name} must be an object")
    return value


async def validate_large(schema: InputSchema, arguments: dict[str, Any]) -> Any:
    """Validate arguments in a thread; raises InvalidArguments.

    There is one thread, so that whoever sends large arguments waits for others who do, in turn.
    """
    validate = schema.validate_large or schema.validate
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_VALIDATION, copy_context().run, validate, arguments)


_VALIDATION = LoopExecutor(ThreadPool(1, "django-mcp-validation"), current_caller)

Read = Callable[[Any], dict[str, Any]]
"""Converts a handler's return value into a result."""


class HookHandler(NamedTuple):
    """A hook of the server which runs as the handler of a component without one."""

    invoke: Callable[..., Any]
    is_async: bool
    requests_input: bool = False


Handler = Component | Completer | HookHandler


class Transactions(Protocol):
    """The database transactions around the handlers of a site."""

    def call(self, handler: Any, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call ``function``, which calls the function ``handler``, in its transactions."""

    def wait_for(
        self, handler: Any, coroutine: Coroutine[Any, Any, Any], /
    ) -> Coroutine[Any, Any, Any]:
        """Await ``coroutine``, a call of the function ``handler``, in its transactions."""


TRANSACTIONS: list[Transactions] = []
"""At most one. Empty where no database has ATOMIC_REQUESTS."""


def function_of(handler: Handler) -> Any:
    """The function as it was registered, with the attributes that decorators gave it."""
    return getattr(handler, "handler", None) or getattr(handler, "function", handler.invoke)


def handler_of(component: Component, hook: Callable[..., Any], *arguments: Any) -> Handler:
    """Return ``component``, or ``hook`` with ``arguments`` where it has no handler."""
    if component.invoke is not None:
        return component
    return HookHandler(partial(hook, *arguments), is_async(hook), component.requests_input)


async def call_hook(function: Callable[..., Any], *arguments: Any, frame: Frame) -> Frame:
    """Call a hook which may return a Frame; return that one, or ``frame``."""
    try:
        if is_async(function):
            returned = await function(*arguments, frame)
        else:
            returned = await frame.exchange.run_hook(function, *arguments, frame)
    except BaseException as raised:
        raise_outcome(raised, frame)
    return returned if isinstance(returned, Frame) else frame


async def run(handler: Handler, frame: Frame, *arguments: Any, read: Read) -> Answer:
    """Run a handler; return its result and the Frame to keep.

    ``read`` runs where the handler runs: a lazy query which a synchronous handler returns is
    evaluated on the handler's thread. It is not called for an error which the handler returns.
    Raises what the handler raises, and Cancelled when the request was cancelled.
    """
    exchange = frame.exchange
    state = frame.client.state
    invoke: Any = handler.invoke  # Never None: see handler_of.
    frame.cancellation.raise_if_requested()
    rolls_back = frame.client.is_multi_round_trip and handler.requests_input
    state.request = frame.request
    state.transport = frame.transport
    # Not before: what is logged while a component is looked up is not for the client.
    token = current.set(frame.client)
    try:
        if handler.is_async:
            run_async = exchange.run_handler_async if rolls_back else exchange.run_async
            coroutine = invoke(*arguments, frame)
            if TRANSACTIONS:
                coroutine = TRANSACTIONS[0].wait_for(function_of(handler), coroutine)
            returned = await run_async(coroutine)
            try:
                answer = _read(returned, frame, read)
            except (InvalidOutput, UnserializableResult):
                answer = await _read_queries(returned, frame, read)
        else:
            run_sync = exchange.run_handler if rolls_back else exchange.run
            # Not a closure: with sixteen callers, it costs 8 % of a synchronous call.
            if TRANSACTIONS:
                around = TRANSACTIONS[0].call
                function = function_of(handler)
                answer = await run_sync(around, function, _invoke, invoke, arguments, frame, read)
            else:
                answer = await run_sync(_invoke, invoke, arguments, frame, read)
    except BaseException as raised:
        if (failure := failures.expected(unwrapped(raised), frame)) is not None:
            raise failure from raised
        raise_outcome(raised, frame)
    finally:
        current.reset(token)
    frame.cancellation.raise_if_requested()
    return answer


def raise_outcome(raised: BaseException, frame: Frame) -> NoReturn:
    """Raise what an exception of a handler amounts to, from within ``except``.

    Besides Exceptions, only an input request, the cancellation of this request or of this task,
    the Ctrl-C of a user, and what ends a generator are passed on. SystemExit, which argparse
    raises, and KeyboardInterrupt would end the process, and the CancelledError of a task that
    somebody else cancelled would leave the request without a response: such a handler has failed.
    """
    error = unwrapped(raised)
    passes = isinstance(error, PASSING) or is_interrupted_by_user(error)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        passes = frame.cancellation.requested or (task is not None and task.cancelling() > 0)
    if not passes:
        raise RuntimeError(f"The handler ended with {type(error).__name__}") from raised
    if error is raised:
        raise
    raise error from raised


PASSING = (Exception, InputRequired, GeneratorExit)


QUERY_RUNNERS: list[Callable[[Any], Coroutine[Any, Any, bool]]] = []
"""Port: each runs the lazy queries in a value, and returns whether there were any."""


async def _read_queries(returned: Any, frame: Frame, read: Read) -> Answer:
    """``_read`` for an async handler, in whose event loop a lazy query could not run.

    To be called from within ``except``: what had no query raises the same error again.
    """
    for run_queries in QUERY_RUNNERS:
        if await frame.exchange.run_async(run_queries(returned)):
            return _read(returned, frame, read)
    raise


def _invoke(
    invoke: Callable[..., Any], arguments: tuple[Any, ...], frame: Frame, read: Read
) -> Answer:
    return _read(invoke(*arguments, frame), frame, read)


def _read(returned: Any, frame: Frame, read: Read) -> Answer:
    """Return the result of a return value, which is a value, a Frame, or a tuple of both."""
    value = returned
    after = frame
    if isinstance(returned, Frame):
        value = None
        after = returned
    elif type(returned) is tuple and len(returned) == 2 and isinstance(returned[1], Frame):
        value, after = returned
    return (value if isinstance(value, McpError) else read(value)), after
