"""A pool of threads for which Python does not wait when it exits.

Python joins the threads of a ``ThreadPoolExecutor``, so that a handler which blocks one would keep
the process from ending, for as long as it blocks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from math import inf
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Outcome(Protocol):
    """Takes the result of a function, as a future does."""

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the function is to be called."""

    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...
    def cancel(self) -> Any: ...


Job = tuple[Outcome, Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function to call, its arguments, and what takes its result."""

WATCH_INTERVAL = 1.0
"""Seconds between two looks at the functions that wait for a thread, at most."""


class NotStarted(Exception):
    """A function was not called, because no thread was free for ``max_wait`` seconds."""


class DaemonPool(Executor):
    """Runs functions on at most ``size`` threads, which it creates when they are needed.

    Threads fight for the interpreter, with each other and with the event loop. So one is woken at a
    time, and wakes the next one only if another function waits: meanwhile those that run may have
    called it. The thread that became idle last is woken, whose database connection is in use.
    """

    max_wait: float | None = None
    """Seconds which a function waits for a free thread before it fails with ``not_started``."""
    not_started: type[Exception] = NotStarted

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._waiting: deque[tuple[float, Job]] = deque()
        """The functions which no thread has taken yet, and until when they may wait."""
        self._is_watched = False
        self._idle: list[threading.Lock] = []
        """For each idle thread, the lock which it waits for."""
        self._is_waking = False
        """Whether a thread was woken or started, and has not looked for a function yet."""
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self.add((future, function, args, kwargs))
        return future

    def add(self, job: Job) -> None:
        """Let a thread do ``job``."""
        until = inf if self.max_wait is None else time.monotonic() + self.max_wait
        with self._lock:
            if self._is_closed:
                raise RuntimeError("This pool of threads was shut down")
            self._waiting.append((until, job))
            if not self._is_waking:
                self._wake()

    @property
    def is_busy(self) -> bool:
        """Whether a function waits because all threads are busy."""
        with self._lock:
            return bool(self._waiting) and not self._is_waking

    def _wake(self) -> None:
        """Let one more thread look for a function, or watch those that wait if all are busy."""
        if self._idle:
            self._is_waking = True
            self._idle.pop().release()
        elif len(self._threads) < self._size:
            self._start_thread()
            self._is_waking = True
        elif self.max_wait is not None:
            self._watch(self.max_wait)

    def _watch(self, max_wait: float) -> None:
        if not self._is_watched:
            # A thread, because the pool serves several event loops. It ends with the last job.
            self._is_watched = True
            interval = min(WATCH_INTERVAL, max_wait / 10)
            threading.Thread(target=self._withdraw_late, args=(interval,), daemon=True).start()

    def _withdraw_late(self, interval: float) -> None:
        while self._is_watched:
            time.sleep(interval)
            late = []
            with self._lock:
                while self._waiting and self._waiting[0][0] <= time.monotonic():
                    late.append(self._waiting.popleft()[1])
                self._is_watched = bool(self._waiting)
            for future, *_ in late:
                if future.set_running_or_notify_cancel():
                    future.set_exception(self.not_started())

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, timeout: float | None = None
    ) -> None:
        """End the threads; wait for running functions, for at most ``timeout`` seconds."""
        with self._lock:
            self._is_closed = True
            while cancel_futures and self._waiting:
                self._waiting.popleft()[1][0].cancel()
            idle, self._idle = self._idle, []
        for sleeping in idle:
            sleeping.release()
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads if wait else ():
            thread.join(None if until is None else max(until - time.monotonic(), 0))

    def enter(self) -> None:
        """Prepare the current thread, which is a new one of this pool."""

    def leave(self) -> None:
        """Clean up on the current thread, which ends."""

    def _start_thread(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        self.enter()
        sleeping, was_woken = threading.Lock(), True
        sleeping.acquire()
        while True:
            job = self._next(sleeping, was_woken)
            if job is not None:
                _run(*job)
                was_woken = False
            elif self._is_closed:
                self.leave()
                return
            else:
                was_woken = sleeping.acquire()
            del job  # It refers to arguments and result.

    def _next(self, sleeping: threading.Lock, was_woken: bool) -> Job | None:
        """Take a function for the current thread, which is idle if there is none."""
        with self._lock:
            if was_woken:
                self._is_waking = False
            if not self._waiting:
                self._idle.append(sleeping)
                return None
            _, job = self._waiting.popleft()
            if self._waiting and not self._is_waking:
                self._wake()
            return job


def _run(
    future: Outcome, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
        del future  # The traceback of the error refers to this frame.
    else:
        future.set_result(result)
