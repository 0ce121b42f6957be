"""A pool of threads that callers share fairly, and that does not delay the exit of Python.

At exit, Python joins the threads of a ``ThreadPoolExecutor``: a handler that blocks would keep the
process from ending.

The states of a thread, and its transitions:

=========== ========================================== =============================================
state       the thread                                 next, and what moves it
=========== ========================================== =============================================
not started does not exist                             woken: ``_start_waiting``, for a function
                                                       that may run
woken       looks for a function; one thread at a time busy or idle: itself, in ``_next``
busy        runs a function for a caller               busy or idle: itself, in ``_next``
idle        waits for its lock                         woken: ``_start_waiting`` and ``shutdown``
ended       has called ``leave``                       none; from idle, once the pool is closed, and
                                                       from busy, if it is one of more than ``keep``
=========== ========================================== =============================================

The states of a function: *waiting* in the queue of its caller, *running*, and *done*. It leaves
its queue when a thread takes it, or after ``max_wait`` seconds, when it fails.
"""

# The rules:
#
# 1. ``_lock`` guards all attributes of a pool. Neither a function nor its receiver is called while
#    it is held: they may use the pool.
# 2. A caller has an entry in ``_queues`` while one of its functions waits, and no longer. The order
#    of the entries is the order of service: a caller that was served moves to the end.
# 3. ``_busy`` is the number of threads that run a function, and ``_held`` says for whom. A thread
#    is counted before it leaves the lock with a function, and until it comes back for the next one.
# 4. Whoever takes the lock of a thread out of ``_idle`` releases it, or is this thread, which ends.
#    So no thread is woken twice, and none sleeps for ever.
# 5. One thread at most is woken. ``_start_waiting`` sets ``_is_waking``, and the thread clears it
#    when it looks for a function. It wakes the next one if another function may run.
# 6. A function that waits is taken by one thread, or withdrawn: under the lock, and never both. One
#    for which ``add`` raises an error does not wait.
# 7. A child process begins without threads and functions after a fork. They go on in the parent.

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from math import inf
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django_mcp.core.concurrency.forks import begin_anew

if TYPE_CHECKING:
    from django_mcp.core.concurrency.loop_executor import LoopOutcome

P = ParamSpec("P")
T = TypeVar("T")

Job = tuple["Future[Any] | LoopOutcome", Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function to call, its arguments, and the receiver of its result."""

WATCH_INTERVAL = 1.0
"""Seconds between two looks at the functions that wait for a thread, at most."""


class NotStarted(Exception):
    """A function was not called: it had no thread in time, or too many functions waited."""


class PoolEnded(RuntimeError):
    """The process ends, and with it the threads of the pool."""


class _Queue:
    """The functions of one caller that wait, each with its latest time."""

    __slots__ = ("caller", "jobs")

    def __init__(self, caller: Hashable) -> None:
        self.caller = caller
        self.jobs: deque[tuple[float, Job]] = deque()


class ThreadPool(Executor):
    """Runs functions on at most ``size`` threads, which it creates when they are needed.

    A caller gets a further thread only while it holds fewer threads than are free. So no caller can
    hold more than half of them (the first thread is always given), and the next caller finds one.
    Waiting functions are started in turn, one of each caller. Functions without a caller have no
    such limit.

    Threads compete for the interpreter, with each other and with the event loop. So one thread is
    woken at a time. It wakes the next one only if a function still waits then: a busy thread may
    have taken it meanwhile. The thread that became idle last is woken, because its database
    connection was used last.

    ``max_wait`` are the seconds that a function waits for a free thread, and ``max_waiting`` is
    the number of functions that may wait: others fail with ``not_started``. ``leave`` is called on
    each thread that ends. Of more than ``keep`` threads, one that has nothing to do ends.
    """

    def __init__(
        self,
        size: int,
        name: str,
        *,
        max_wait: float | None = None,
        max_waiting: int | None = None,
        keep: int | None = None,
        not_started: Callable[[], Exception] = NotStarted,
        leave: Callable[[], object] | None = None,
    ) -> None:
        self.size = size
        self._name = name
        self._max_wait = max_wait
        self._max_waiting = max_waiting
        self._keep = size if keep is None else keep
        self._not_started = not_started
        self._leave = leave
        self._begin()
        begin_anew(self._begin)  # The threads exist only in the parent.

    def _begin(self) -> None:
        """Set the state of a pool without threads."""
        self._lock = threading.Lock()
        self._queues: dict[Hashable, _Queue] = {}
        """The callers with a function, in the order of service."""
        self._held: dict[Hashable, int] = {}
        """How many threads each caller has."""
        self._busy = 0
        self._threads: list[threading.Thread] = []
        self._idle: list[threading.Lock] = []
        """For each idle thread, the lock which it waits for."""
        self._is_waking = False
        """Whether a thread was woken or started, and has not looked for a function yet."""
        self._is_watched = False
        self._is_closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self.add((future, function, args, kwargs))
        return future

    def add(self, job: Job, caller: Hashable = None) -> None:
        """Run ``job`` on a thread; it counts for ``caller``.

        Raises the error for ``not_started`` if too many functions wait, or if there is no thread
        and the system starts none; PoolEnded if the pool or Python ends. ``job`` is not run then.
        """
        until = inf if self._max_wait is None else time.monotonic() + self._max_wait
        with self._lock:
            if self._is_closed:
                raise PoolEnded("This pool of threads was shut down")
            if self._max_waiting is not None:
                present = sum(len(queue.jobs) for queue in self._queues.values())
                # A function does not wait where a thread is free.
                if present >= self._max_waiting + self.size - self._busy:
                    raise self._not_started()
            queue = self._queues.get(caller)
            if queue is None:
                queue = self._queues[caller] = _Queue(caller)
            queue.jobs.append((until, job))
            if not self._is_waking:
                try:
                    self._start_waiting()
                except BaseException:
                    # Whoever adds it is told that it was not called.
                    queue.jobs.pop()
                    if not queue.jobs:
                        del self._queues[caller]
                    raise

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, timeout: float | None = None
    ) -> None:
        """End the threads; wait for running functions, for at most ``timeout`` seconds."""
        with self._lock:
            self._is_closed = True
            withdrawn = self._withdraw(inf) if cancel_futures else []
            idle = self._idle
            self._idle = []
        for future, *_ in withdrawn:
            future.cancel()
        for sleeping in idle:
            sleeping.release()
        if not wait:
            return
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            left = None if until is None else max(until - time.monotonic(), 0)
            thread.join(left)

    def _start_waiting(self) -> None:
        """Wake or start a thread for a waiting function; otherwise watch how long it waits."""
        if self._choose() is None:
            self._watch()
        elif self._idle:
            self._is_waking = True
            self._idle.pop().release()
        elif len(self._threads) < self.size:
            self._is_waking = self._start_thread()
            if not self._is_waking:
                self._watch()

    def _choose(self) -> _Queue | None:
        """Return the first queue of a caller that may have a thread now.

        While the pool ends, every caller may have one.
        """
        free = inf if self._is_closed else self.size - self._busy
        if free > 0:
            for caller, queue in self._queues.items():
                if caller is None or self._held.get(caller, 0) < free:
                    return queue
        return None

    def _watch(self) -> None:
        if self._max_wait is not None and not self._is_watched:
            # A thread, because the pool serves several event loops. It ends with the last job.
            interval = min(WATCH_INTERVAL, self._max_wait / 10)
            watcher = threading.Thread(target=self._fail_late, args=(interval,), daemon=True)
            self._is_watched = True
            try:
                watcher.start()
            except RuntimeError:
                self._is_watched = False

    def _fail_late(self, interval: float) -> None:
        """Fail the functions that have waited too long, until none waits."""
        while self._is_watched:
            time.sleep(interval)
            with self._lock:
                late = self._withdraw(time.monotonic())
                self._is_watched = bool(self._queues)
            for future, *_ in late:
                if future.set_running_or_notify_cancel():
                    future.set_exception(self._not_started())

    def _withdraw(self, now: float) -> list[Job]:
        """Remove the functions which could wait until ``now``, and return them."""
        late: list[Job] = []
        for caller, queue in tuple(self._queues.items()):
            while queue.jobs and queue.jobs[0][0] <= now:
                late.append(queue.jobs.popleft()[1])
            if not queue.jobs:
                del self._queues[caller]
        return late

    def _start_thread(self) -> bool:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._threads:
                return False
            # From Python 3.12 on, it is said if Python exits. Otherwise the system has too many
            # threads, or too little memory, for now.
            if "shutdown" in str(error):
                raise PoolEnded("No thread can be started any more") from error
            raise self._not_started() from error
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        sleeping = threading.Lock()
        sleeping.acquire()
        task = self._next(sleeping, None, was_woken=True)
        while True:
            if task is not None:
                caller, job = task
                _run(*job)
                del job, task  # They refer to arguments and result.
                task = self._next(sleeping, caller, was_woken=False)
            elif self._is_closed or self._is_superfluous(sleeping):
                break
            else:
                sleeping.acquire()
                task = self._next(sleeping, None, was_woken=True)
        if self._leave is not None:
            self._leave()

    def _is_superfluous(self, sleeping: threading.Lock) -> bool:
        """Remove the current thread if it is idle, and one of too many."""
        if len(self._threads) <= self._keep:
            return False
        with self._lock:
            if len(self._threads) <= self._keep or sleeping not in self._idle:
                return False
            self._idle.remove(sleeping)
            self._threads.remove(threading.current_thread())
            return True

    def _next(
        self, sleeping: threading.Lock, ended: Hashable, *, was_woken: bool
    ) -> tuple[Hashable, Job] | None:
        """Take a function for the current thread; without one, the thread becomes idle.

        ``ended`` is the caller of the function that the thread has just run.
        """
        with self._lock:
            if was_woken:
                self._is_waking = False
            else:
                self._busy -= 1
                if ended is not None:
                    self._held[ended] -= 1
                    if not self._held[ended]:
                        del self._held[ended]
            queue = self._choose()
            if queue is None:
                self._idle.append(sleeping)
                if self._queues:
                    # They may have been added while this thread was woken for another function.
                    self._watch()
                return None
            caller = queue.caller
            _, job = queue.jobs.popleft()
            del self._queues[caller]
            if queue.jobs:
                self._queues[caller] = queue  # Behind the queues of others.
            self._busy += 1
            if caller is not None:
                self._held[caller] = self._held.get(caller, 0) + 1
            if self._queues and not self._is_waking:
                self._start_waiting()
            return caller, job


def _run(
    future: Future[Any] | LoopOutcome,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
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
