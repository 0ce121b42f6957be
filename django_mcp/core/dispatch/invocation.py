"""Running a handler: cancellation, input requests, exceptions, and the Frame it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

from django_mcp.core.components.base import (
    Completer,
    Component,
    InvalidOutput,
    UnserializableResult,
)
from django_mcp.core.components.schemas import InputSchema
from django_mcp.core.components.signature import is_async
from django_mcp.core.concurrency.loop_executor import LoopExecutor
from django_mcp.core.concurrency.loops import CONTROL, is_interrupted_by_user
from django_mcp.core.concurrency.thread_pool import ThreadPool
from django_mcp.core.frame.client.base import current_frame
from django_mcp.core.frame.client.multi_round_trip import InputRequired, unwrapped
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import current_caller
from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    Cancelled,
    InsufficientScope,
    InvalidParams,
    Json,
    McpError,
    ServerBusy,
)
from django_mcp.core.protocol.limits import MAX_IDENTIFIER, too_long
from django_mcp.core.server import failures
from django_mcp.core.server.server import Server

Result = Any
"""The result of a method, in the vocabulary of the newest revision: a dict, or an McpError. Where
no middleware reads it, it may be a PreEncodedResult of a tool, or a PreEncodedList."""
Answer = tuple[Result, Frame]


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


_VALIDATION = LoopExecutor(
    ThreadPool(1, "django-mcp-validation", not_started=ServerBusy), current_caller
)
"""The thread that validates large arguments."""

Read = Callable[[Frame, Any], Result]
"""Converts a handler's return value into a result."""


Failed = Callable[[Frame, Exception], dict[str, Any]]
"""Returns the result for an exception of a handler, or raises."""


class HookHandler(NamedTuple):
    """A hook of the server which runs as the handler of a component without one."""

    invoke: Callable[..., Any]
    is_async: bool
    requests_input: bool = False


Handler = Component | Completer | HookHandler
"""``run`` calls its ``invoke`` with arguments and the Frame."""


class Surrounding(Protocol):
    """A context around handlers, such as a transaction; it is made for one server and handler."""

    def call(self, frame: Frame, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call ``function``, which runs a synchronous handler."""

    def wait_for(
        self, frame: Frame, coroutine: Coroutine[Any, Any, Any], /
    ) -> Coroutine[Any, Any, Any]:
        """Await ``coroutine``, the call of an asynchronous handler."""


Surround = Callable[[Server, Any], Surrounding | None]
"""Returns the context around a handler, which is given as it was registered, if there is one."""

AROUND_HANDLER: Port[Sequence[Surround]] = Port("surrounds handlers", default=())
"""From the inside: the transactions of ATOMIC_REQUESTS, and ``around_call`` of the server."""


def function_of(handler: Handler) -> Any:
    """The function as it was registered, with the attributes that decorators gave it."""
    return getattr(handler, "handler", None) or getattr(handler, "function", handler.invoke)


def handler_of(component: Component, hook: Callable[..., Any], *arguments: Any) -> Handler:
    """Return ``component``, or ``hook`` with ``arguments`` where it has no handler."""
    if component.invoke is not None:
        return component
    return HookHandler(partial(hook, *arguments), is_async(hook), component.requests_input)


async def call_hook(function: Callable[..., Any], *arguments: Any, frame: Frame) -> Frame:
    """Call a hook; return the Frame that it returns, or ``frame`` if it returns none."""
    try:
        if is_async(function):
            returned = await function(*arguments, frame)
        else:
            returned = await frame.exchange.run_hook(function, *arguments, frame)
    except BaseException as raised:
        raise_outcome(raised, frame)
    return returned if isinstance(returned, Frame) else frame


def _raise(frame: Frame, error: Exception) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a handler runs, and its result is made: a part of a plan.

    A synchronous one runs in a thread. Where the exchange rolls back, an input request undoes the
    writes of the handler, which runs again with the input.
    """

    handler: Handler
    around: Sequence[Surrounding]
    """The contexts around it, from the inside."""
    read: Read
    """Makes the result of the handler's return value. It runs where the handler runs: a lazy query
    that a synchronous handler returns is evaluated on its thread."""
    failed: Failed

    @classmethod
    def of(
        cls, server: Server, handler: Handler, *, read: Read, failed: Failed = _raise
    ) -> Invocation:
        function = function_of(handler)
        around = (surround(server, function) for surround in AROUND_HANDLER.get())
        return cls(handler, [each for each in around if each is not None], read, failed)

    async def run(self, frame: Frame, *arguments: Any) -> Answer:
        """Run the handler; return its result and the Frame to keep.

        An error that the handler returns is not read. Raises Cancelled if the request was
        cancelled.
        """
        handler = self.handler
        exchange = frame.exchange
        cancellation = frame.cancellation
        if cancellation.is_cancelled:
            raise Cancelled
        # A handler that runs again, with the input, must not find its earlier writes.
        rolls_back = handler.requests_input and frame.client.is_multi_round_trip
        failure: Exception | None = None
        # The client gets the handler's log messages alone: not those of lookups and failures.
        token = current_frame.set(frame)
        try:
            if handler.is_async:
                run_async = exchange.run_async_with_rollback if rolls_back else exchange.run_async
                invoke: Any = handler.invoke  # Never None: see handler_of.
                coroutine = invoke(*arguments, frame)
                for surrounding in self.around:
                    coroutine = surrounding.wait_for(frame, coroutine)
                returned = await run_async(coroutine)
                try:
                    answer = _split(returned, frame, self.read)
                except (InvalidOutput, UnserializableResult):
                    answer = await _read_queries(returned, frame, self.read)
            else:
                run_sync = exchange.run_with_rollback if rolls_back else exchange.run
                # No closure: with sixteen callers, one would cost 8 % of a synchronous call.
                function: tuple[Any, ...] = (_invoke, handler, arguments, frame, self.read)
                for surrounding in self.around:
                    function = (surrounding.call, frame, *function)
                answer = await run_sync(*function)
        except BaseException as raised:
            try:
                _raise_failure(raised, frame, handler)
            except Exception as error:
                failure = error
        finally:
            current_frame.reset(token)
        if failure is not None:
            try:
                return self.failed(frame, failure), frame
            finally:
                del failure  # Its traceback refers to this coroutine.
        if cancellation.is_cancelled:
            raise Cancelled
        return answer


def _challenge(
    handler: Handler, frame: Frame, error: AuthenticationRequired
) -> AuthenticationRequired:
    """The challenge of a handler with all that its call needs, also of scopes that are declared.

    A caller without credentials has to log in: more scopes for no token would help nobody.
    """
    declared: frozenset[str] = getattr(handler, "scopes", frozenset())
    lacks_scopes = isinstance(error, InsufficientScope)
    must_log_in = lacks_scopes and frame.principal.is_anonymous
    if not must_log_in and not (error.scopes and declared - error.scopes):
        return error
    kind = AuthenticationRequired if must_log_in else type(error)
    is_default = error.message == type(error).default_message
    message = None if is_default else error.message
    changed = kind(message, scopes=error.scopes | declared)
    changed.__cause__ = error
    return changed


def _raise_failure(raised: BaseException, frame: Frame, handler: Handler) -> NoReturn:
    """Raise the error for an exception of a handler; to be called from within ``except``."""
    error = unwrapped(raised)
    if isinstance(error, AuthenticationRequired):
        raise _challenge(handler, frame, error)
    expected_failure = failures.expected(error, frame)
    if expected_failure is not None:
        raise expected_failure from raised
    raise_outcome(raised, frame, handler)


PASSING = (Exception, InputRequired)
"""The exceptions that ``raise_outcome`` never changes."""


def raise_outcome(raised: BaseException, frame: Frame, handler: Handler | None = None) -> NoReturn:
    """Raise the error for an exception of a handler; to be called from within ``except``.

    ================================================== =======================================
    the handler ended with                             raised is
    ================================================== =======================================
    an exception group                                 what ``unwrapped`` makes of it
    an exception in ``PASSING``                        the same
    CancelledError, if this request or task is         the same
    cancelled
    CancelledError of a task that somebody else        RuntimeError: the request needs a
    cancelled                                          response
    GeneratorExit, because the caller is closed        the same
    GeneratorExit, by the handler                      RuntimeError
    KeyboardInterrupt, by Ctrl-C of a user             the same
    SystemExit (of argparse) or KeyboardInterrupt,     RuntimeError: the process must not end
    by the handler
    ================================================== =======================================
    """
    error = unwrapped(raised)
    is_passed_on = isinstance(error, PASSING) or is_interrupted_by_user(error)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        is_task_cancelled = task is not None and task.cancelling() > 0
        is_passed_on = frame.cancellation.requested or is_task_cancelled
    elif isinstance(error, GeneratorExit):
        is_passed_on = _is_closed(raised)
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        # So Python tells it of a coroutine, without its name.
        raise _ended_with(error.__cause__, handler) from raised
    if not is_passed_on:
        raise _ended_with(error, handler) from raised
    if error is raised:
        raise
    raise error from raised


def _ended_with(error: BaseException, handler: Handler | None) -> RuntimeError:
    """The error for an exception that nobody must raise, with the name of the handler."""
    function = None if handler is None else function_of(handler)
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    where = f"{function.__module__}.{name}" if name else "The handler"
    return RuntimeError(f"{where} ended with {type(error).__name__}")


def _is_closed(raised: BaseException) -> bool:
    """Whether the coroutine that caught GeneratorExit is being closed, as its event loop ends.

    An awaited coroutine is closed before it, so that nothing was raised there.
    """
    trace = raised.__traceback__
    return trace is not None and trace.tb_next is None


async def _no_queries(value: Any) -> bool:
    return False


RUN_QUERIES: Port[Callable[[Any], Coroutine[Any, Any, bool]]] = Port(
    "runs lazy queries", default=_no_queries
)
"""Runs the lazy queries in a value, and returns whether there were any."""


async def _read_queries(returned: Any, frame: Frame, read: Read) -> Answer:
    """``_split`` for the lazy queries of an async handler, which cannot run in its event loop.

    To be called from within ``except``: the error is raised again if there was no query.
    """
    if await frame.exchange.run_async(RUN_QUERIES.get()(returned)):
        return _split(returned, frame, read)
    raise


def _invoke(handler: Handler, arguments: tuple[Any, ...], frame: Frame, read: Read) -> Answer:
    """Call a synchronous handler and read its result, on the same thread."""
    try:
        invoke: Any = handler.invoke  # Never None: see handler_of.
        returned = invoke(*arguments, frame)
    except CONTROL as error:
        if is_interrupted_by_user(error):
            raise
        # Where it is raised: further out, it would come from a function of this package.
        raise _ended_with(error, handler) from error
    return _split(returned, frame, read)


def _split(returned: Any, frame: Frame, read: Read) -> Answer:
    """Return the result of a return value, which is a value, a Frame, or a tuple of both."""
    value = returned
    after = frame
    if isinstance(returned, Frame):
        value = None
        after = returned
    elif type(returned) is tuple and len(returned) == 2 and isinstance(returned[1], Frame):
        value, after = returned
    result = value if isinstance(value, McpError) else read(frame, value)
    return result, after
