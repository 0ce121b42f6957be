"""A pool of threads for which Python does not wait when it exits.

Python joins the threads of a ``ThreadPoolExecutor``, so that a handler which blocks one would keep
the process from ending, for as long as it blocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class DaemonPool(Executor):
    """Runs functions on at most ``size`` threads, which it creates when they are needed."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("This pool of threads was shut down")
            self._jobs.put((future, function, args, kwargs))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._size:
                self._start_thread()
        return future

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


def _run(
    future: Future[T], function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
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
