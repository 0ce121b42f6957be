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
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any], list[None]]
"""A function to call, its arguments, and a list from which whoever calls it pops the only item."""

WATCH_INTERVAL = 1.0
"""Seconds between two looks at the functions that wait for a thread, at most."""


class NotStarted(Exception):
    """A function was not called, because no thread was free for ``max_wait`` seconds."""


class DaemonPool(Executor):
    """Runs functions on at most ``size`` threads, which it creates when they are needed."""

    max_wait: float | None = None
    """Seconds which a function waits for a free thread before it fails with ``not_started``."""
    not_started: type[Exception] = NotStarted

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._waiting: deque[tuple[float, Job]] = deque()
        """Until when the functions which found no free thread may wait."""
        self._is_watched = False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        job: Job = (future, function, args, kwargs, [None])
        with self._lock:
            if self._is_closed:
                raise RuntimeError("This pool of threads was shut down")
            self._jobs.put(job)
            if not self._idle.acquire(blocking=False):
                if len(self._threads) < self._size:
                    self._start_thread()
                elif self.max_wait is not None:
                    self._watch(job, self.max_wait)
        return future

    def _watch(self, job: Job, max_wait: float) -> None:
        self._drop_started()
        self._waiting.append((time.monotonic() + max_wait, job))
        if not self._is_watched:
            # A thread, because the pool serves several event loops. It ends with the last job.
            self._is_watched = True
            interval = min(WATCH_INTERVAL, max_wait / 10)
            threading.Thread(target=self._withdraw_late, args=(interval,), daemon=True).start()

    def _drop_started(self) -> None:
        """Forget functions which wait no longer, with all that they refer to."""
        while self._waiting and not self._waiting[0][1][-1]:
            self._waiting.popleft()

    def _withdraw_late(self, interval: float) -> None:
        while self._is_watched:
            time.sleep(interval)
            late = []
            with self._lock:
                self._drop_started()
                while self._waiting and self._waiting[0][0] <= time.monotonic():
                    late.append(self._waiting.popleft()[1])
                self._is_watched = bool(self._waiting)
            for future, *_, unclaimed in late:
                if _claim(unclaimed) and future.set_running_or_notify_cancel():
                    future.set_exception(self.not_started())

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, timeout: float | None = None
    ) -> None:
        """End the threads; wait for running functions, for at most ``timeout`` seconds."""
        with self._lock:
            self._is_closed = True
            while cancel_futures and (job := self._next()) is not None:
                job[0].cancel()
            self._jobs.put(None)
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads if wait else ():
            thread.join(None if until is None else max(until - time.monotonic(), 0))

    def enter(self) -> None:
        """Prepare the current thread, which is a new one of this pool."""

    def _next(self) -> Job | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _start_thread(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        self.enter()
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                self._idle.release()
                job = self._jobs.get()
            if job is None:
                self._jobs.put(None)  # For the other threads.
                return
            _run(*job)
            del job  # It refers to arguments and result.


def _claim(unclaimed: list[None]) -> bool:
    try:
        unclaimed.pop()
    except IndexError:
        return False
    return True


def _run(
    future: Future[T],
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    unclaimed: list[None],
) -> None:
    if not (_claim(unclaimed) and future.set_running_or_notify_cancel()):
        return
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
        del future  # The traceback of the error refers to this frame.
    else:
        future.set_result(result)
