"""An event loop that runs on the thread that needs it.

A thread that passes work to the thread of a loop, and waits for the result, costs two switches.
Here it runs the loop itself, while the thread of the loop only waits for events.

| state | who runs callbacks | what moves it |
|---|---|---|
| running | the thread of the loop | no callback is left, and it waits for events: free |
| free | nobody | an event or a timer: running; ``run_here`` of another thread: lent |
| lent | that thread | no callback is left, ``AT_ONCE`` have run, or ``outside``: free |

Whoever runs callbacks holds the lock. So there is one at a time, as in every event loop, and what
belongs to a loop needs no locks of its own.

A task that is created by ``begin_task`` on a thread begins there at once: a coroutine that waits
for nothing meets no queue of the loop. One that waits goes on as any other task.

Callbacks that other threads pass to ``call_soon_threadsafe`` wait in one queue, in their order. A
helper, which is a thread that waits for this loop, runs them; without one, the thread of the loop
does.
"""

# The rules, which each method below keeps:
#
# 1. Who runs a callback holds ``_waiting.lock``. The thread of the loop holds it at all times
#    except within ``select``. Another thread holds it from ``run_here`` on, except within
#    ``outside``.
# 2. ``_lent_to`` changes in ``_borrow`` and ``_give_back`` only, under the lock. While it is set,
#    ``call_soon`` appends to ``_lent``, and not to the queue of asyncio.
# 3. A thread that gives the loop back leaves nothing behind. The rest of ``_lent`` moves to the
#    front of ``_from_threads``. The thread of the loop is woken for it, and for timers and files
#    that it does not know of yet (``_must_wake``, ``has_changed``).
# 4. Every thread may append to ``_from_threads``, without the lock. Only the holder of the lock
#    takes a handle out.
# 5. Each handle of another thread has one wake-up: of a helper, which leaves ``_helpers`` by that,
#    or of the thread of the loop. A helper that was woken, and does not run the loop, passes the
#    wake-up on in ``remove_helper``.
# 6. A task may continue on another thread between two steps, and never within one. ``moved`` is
#    called before its first step there.
# 7. SystemExit and KeyboardInterrupt of a callback end the loop on its own thread, whichever thread
#    ran the callback.

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from math import inf
from os import getpid
from selectors import DefaultSelector, SelectorKey
from time import monotonic
from typing import Any, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack

from django_mcp.core import private
from django_mcp.core.concurrency.loops import running_loop

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AT_ONCE = 100
"""Callbacks that one ``run_here`` runs; further ones are left to the thread of the loop."""


class Helper(Protocol):
    """A thread that waits for the loop."""

    def wake(self) -> None:
        """Let it call ``run_here``; called in any thread."""


class SharedLoop(asyncio.SelectorEventLoop):
    """``moved`` is called in the context of a task that continues on another thread than before."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self.process_id = getpid()
        self._moved = moved
        self._waiting = _Selector()
        self._lent_to: int | None = None
        """The thread that runs callbacks instead of the loop's own."""
        self._lent: deque[asyncio.Handle] = deque()
        """The callbacks that this thread has to run."""
        self._is_beginning = False
        """Whether ``begin_task`` creates a task, which passes its first step to ``call_soon``."""
        self._first_step: Callable[..., object] = _do_nothing
        self._from_threads: deque[asyncio.Handle] = deque()
        self._must_wake = False
        """Whether the thread of the loop waits too long for timers or files added meanwhile."""
        self._helpers: list[Helper] = []
        super().__init__(self._waiting)
        self._no_handle = asyncio.Handle(_do_nothing, (), self)
        """A placeholder for the handle of a first step: asyncio keeps none."""
        # asyncio installs these hooks on the thread of the loop alone.
        self._generator_hooks = private.generator_hooks(self)
        self.set_task_factory(_create_task)

    def run_forever(self) -> None:
        with self._waiting.lock:
            super().run_forever()

    # For other threads.

    def run_here(self, function: Callable[..., object] | None = None, *args: Any) -> None:
        """Call ``function``, and run the callbacks that are ready then, on this thread.

        Raises RuntimeError if the loop is closed.
        """
        # In debug mode, asyncio would find that this is not the thread of the loop.
        may_run = private.CAN_LEND_LOOPS and not self.get_debug()
        if not may_run or running_loop() is not None:
            self.call_soon_threadsafe(function or _do_nothing, *args, context=Context())
            return
        with self._waiting.lock:
            self._raise_if_closed()
            self._borrow()
            try:
                if function is not None:
                    self._call(function, *args)
                while self._from_threads:
                    self._lent.append(self._from_threads.popleft())
                self._run_lent()
            finally:
                self._give_back()

    def outside(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function``, which may block, on this thread; others may run the loop meanwhile.

        To be called in a task, while the loop is lent to this thread.
        """
        task = asyncio.current_task(self)
        assert task is not None
        private.leave_task(self, task)
        self._give_back()
        self._waiting.lock.release()
        try:
            return function(*args, **kwargs)
        finally:
            self._waiting.lock.acquire()
            self._borrow()
            private.enter_task(self, task)

    def begin_task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Create a task; it begins at once if the loop is lent to this thread.

        To be called in a callback, and not in a task. ``asyncio.timeout`` and others find the task
        in the coroutine, whether it waits or not.
        """
        if not self.is_lent_here():
            return self.create_task(coroutine)
        context = copy_context()
        self._is_beginning = True
        task = asyncio.Task(_Followed(coroutine, self._moved), loop=self, context=context)
        first_step = self._first_step
        self._first_step = _do_nothing  # It refers to the task.
        context.run(first_step)
        return task

    def is_lent_here(self) -> bool:
        """Whether this thread runs the loop in place of the loop's own thread."""
        return self._lent_to == threading.get_ident()

    def add_helper(self, helper: Helper) -> None:
        """Note that a thread waits for the loop, so that it may run callbacks of other threads."""
        self._helpers.append(helper)

    def remove_helper(self, helper: Helper, *, runs: bool) -> None:
        """Note that a thread does not wait any more; ``runs``: it calls ``run_here`` next."""
        try:
            self._helpers.remove(helper)
        except ValueError:
            # It was asked to run callbacks that others passed on.
            if not runs:
                self._wake_thread()

    # What asyncio calls.

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if self._lent_to is None:
            return super().call_soon(callback, *args, context=context)
        if self._is_beginning:
            self._is_beginning = False
            self._first_step = callback
            return self._no_handle
        handle = asyncio.Handle(callback, args, self, context)
        self._lent.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self._raise_if_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._from_threads.append(handle)
        try:
            helper = self._helpers.pop()
        except IndexError:
            self._wake_thread()
        else:
            helper.wake()
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if when < self._waiting.until:
            self._must_wake = True
        return super().call_at(when, callback, *args, context=context)

    # The steps.

    def _borrow(self) -> None:
        self._lent_to = threading.get_ident()
        private.set_running_loop(self)
        sys.set_asyncgen_hooks(*self._generator_hooks)

    def _give_back(self) -> None:
        """Leave the rest to the thread of the loop."""
        sys.set_asyncgen_hooks(None, None)
        private.set_running_loop(None)
        self._lent_to = None
        if self._lent:
            self._from_threads.extendleft(reversed(self._lent))
            self._lent.clear()
            self._must_wake = True
        if self._must_wake or self._waiting.has_changed:
            self._must_wake = False
            self._waiting.has_changed = False
            if not self.is_closed():
                self._wake_thread()

    def _call(self, function: Callable[..., object], *args: Any) -> None:
        try:
            Context().run(function, *args)
        except (SystemExit, KeyboardInterrupt) as error:
            self._end_by(error)

    def _run_lent(self) -> None:
        lent = self._lent
        for _ in range(AT_ONCE):
            if not lent:
                break
            handle = lent.popleft()
            if handle.cancelled():
                continue
            try:
                private.run_handle(handle)
            except (SystemExit, KeyboardInterrupt) as error:
                self._end_by(error)

    def _end_by(self, error: BaseException) -> None:
        """End the loop, as the error would do on the thread of the loop."""
        super().call_soon_threadsafe(_raise, error)

    def _wake_thread(self) -> None:
        super().call_soon_threadsafe(self._run_from_threads)

    def _run_from_threads(self) -> None:
        for _ in range(len(self._from_threads)):
            handle = self._from_threads.popleft()
            if not handle.cancelled():
                private.run_handle(handle)

    def _raise_if_closed(self) -> None:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")


class _Selector(DefaultSelector):
    """Waits for events without the lock, so that other threads can run the loop meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.until = 0.0
        """The thread of the loop waits until this time at most."""
        self.has_changed = False
        """Whether another thread has added or removed a timer or file of the loop."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self.until = inf if timeout is None else monotonic() + timeout
        self.has_changed = False
        self.lock.release()
        try:
            events = super().select(timeout)
        finally:
            self.lock.acquire()
        self.until = 0.0
        # The loop gets no events of files that another thread has removed.
        keys = self.get_map()
        return [(key, mask) for key, mask in events if keys.get(key.fd) is key]

    def register(self, *args: Any, **kwargs: Any) -> SelectorKey:
        self.has_changed = True
        return super().register(*args, **kwargs)

    def modify(self, *args: Any, **kwargs: Any) -> SelectorKey:
        self.has_changed = True
        return super().modify(*args, **kwargs)

    def unregister(self, *args: Any, **kwargs: Any) -> SelectorKey:
        self.has_changed = True
        return super().unregister(*args, **kwargs)


class _Followed(Coroutine[Any, Any, Any]):
    """The coroutine of a task with steps that may run on several threads."""

    __slots__ = ("_coroutine", "_moved", "_thread")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], moved: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._moved = moved
        self._thread = threading.get_ident()

    def send(self, value: Any, /) -> Any:
        self._follow()
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._follow()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    def _follow(self) -> None:
        thread = threading.get_ident()
        if thread != self._thread:
            self._thread = thread
            self._moved()


def _create_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, SharedLoop)
    return asyncio.Task(_Followed(coroutine, loop._moved), loop=loop, **options)


def _do_nothing() -> None:
    """Run ready callbacks only."""


def _raise(error: BaseException) -> None:
    raise error
