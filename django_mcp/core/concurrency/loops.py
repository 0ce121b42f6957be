"""Event loops: tasks and timers on one, objects of one, and exceptions that would end one."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet, finalize, ref

from django_mcp.core.concurrency.forks import begin_anew

P = ParamSpec("P")
T = TypeVar("T")
Loop = asyncio.AbstractEventLoop


def running_loop() -> Loop | None:
    """The event loop that runs on this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def nothing() -> None:
    """Return at once: a coroutine where there is nothing to wait for."""


async def result_of(awaitable: Awaitable[T], /) -> T:
    """Await ``awaitable``, for functions that take a coroutine function, not a coroutine."""
    return await awaitable


def start_task(coroutine: Coroutine[Any, Any, T], loop: Loop | None = None) -> asyncio.Task[T]:
    """Create a task on the running loop; from Python 3.12 on, it begins at once.

    ``loop`` is the running loop, where the caller has it. A coroutine that never waits has ended
    when this returns, without an iteration of the loop: an ASGI server takes most messages at once.
    On Python 3.11, and on a loop that makes its tasks itself, it begins with the next iteration.
    """
    loop = loop or asyncio.get_running_loop()
    if sys.version_info >= (3, 12) and loop.get_task_factory() is None:  # pragma: no cover
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)


class PerLoop(Generic[T]):
    """One object for each event loop, made at its first use. It ends with its loop.

    Objects are stored by the identity of their loop: a ``WeakKeyDictionary`` takes 0.5 µs more. A
    forked child begins without any object: the loops of its parent do not run there.
    """

    __slots__ = ("__weakref__", "_loops", "_make", "_objects")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._objects: dict[int, T] = {}
        self._loops: dict[int, ref[Loop]] = {}
        begin_anew(self.clear)

    def here(self) -> T:
        """Return the object of the running loop."""
        return self.of(asyncio.get_running_loop())

    def of(self, loop: Loop) -> T:
        """Return the object of ``loop``, which is made unless there is one."""
        existing = self._objects.get(id(loop))
        return self._add(loop) if existing is None else existing

    def get(self, loop: Loop) -> T | None:
        """Return the object of ``loop``, if there is one."""
        return self._objects.get(id(loop))

    def items(self) -> list[tuple[Loop, T]]:
        """The loops that have an object, each with its object."""
        pairs = []
        # No collection can begin while the keys are listed. A later one may end loops and remove
        # their objects.
        for identity in list(self._objects):
            existing = self._objects.get(identity)
            reference = self._loops.get(identity)
            loop = None if reference is None else reference()
            if loop is not None and existing is not None:
                pairs.append((loop, existing))
        return pairs

    def clear(self) -> None:
        self._loops.clear()
        self._objects.clear()

    def _add(self, loop: Loop) -> T:
        identity = id(loop)
        if identity not in self._loops:
            self._loops[identity] = ref(loop)
            finalize(loop, self._forget, identity).atexit = False
        return self._objects.setdefault(identity, self._make())

    def _forget(self, identity: int) -> None:
        self._loops.pop(identity, None)
        self._objects.pop(identity, None)


STATE: PerLoop[dict[type, Any]] = PerLoop(dict)
"""The objects of each event loop by their class: see ``here``."""


def here(kind: type[T]) -> T:
    """Return the object of the class ``kind`` of the running event loop, made at its first use.

    The objects of a loop are made and end together, in one place. A ``PerLoop`` of its own is for
    what most calls need: it saves a dict lookup.
    """
    objects = STATE.here()
    existing: T | None = objects.get(kind)
    if existing is None:
        existing = objects[kind] = kind()
    return existing


def here_if_any(kind: type[T]) -> T | None:
    """Return the object of the class ``kind`` of the running event loop, if there is one."""
    return STATE.here().get(kind)


def everywhere(kind: type[T]) -> list[tuple[Loop, T]]:
    """The loops that have an object of the class ``kind``, each with its object."""
    return [(loop, objects[kind]) for loop, objects in STATE.items() if kind in objects]


class LoopTimer:
    """Calls ``work`` with pauses in between, as long as the event loop runs that it started on.

    ``pause`` returns the seconds until the next call: at random, so that workers which start
    together do not act together. ``context`` makes the context of each call. No task sleeps, so
    that an event loop ends without cancelling anything in between.
    """

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        pause: Callable[[], float],
        context: Callable[[], Context],
    ) -> None:
        self._work = work
        self._pause = pause
        self._context = context
        self._loops: WeakSet[Loop] = WeakSet()
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Begin on the running event loop; a second call changes nothing."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            self._schedule(loop)

    def _schedule(self, loop: Loop) -> None:
        loop.call_later(self._pause(), self._begin, loop)

    def _begin(self, loop: Loop) -> None:
        task = loop.create_task(self._work(), context=self._context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(self._continue, loop))

    def _continue(self, loop: Loop, _: asyncio.Task[object]) -> None:
        if not loop.is_closed():
            self._schedule(loop)


# Exceptions.

CONTROL = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)
"""The exceptions that control Python itself, which the code of somebody else may raise.

A future cannot hold a StopIteration: a coroutine that waits for it would wait for ever. A
GeneratorExit in a future closes every coroutine that waits for it. A KeyboardInterrupt or a
SystemExit ends the event loop, and with it the calls of all others.
"""


def without_control_exceptions(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function``; raise RuntimeError for an exception that would end the event loop."""
    try:
        return function(*args, **kwargs)
    except CONTROL as error:
        if is_interrupted_by_user(error):
            raise
        raise RuntimeError(f"{function!r} raised {type(error).__name__}") from error


def is_interrupted_by_user(error: BaseException) -> bool:
    """Whether ``error`` may be the Ctrl-C of a user, and not an error of the code.

    Python raises it in its main thread, unless SIGINT has a handler of its own. ``asyncio.run`` and
    ASGI servers have one, which ends them in order.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
