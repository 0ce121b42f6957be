"""The event loop of a process of a WSGI server: one thread, started by the first request.

The threads of the server run the loop as well, while they wait for it: see ``shared_loop``.

| state | meaning | transitions |
|---|---|---|
| none | no request has come yet, or the process was forked since | ``current``: running |
| running | requests are answered | an exception that ends event loops: ended |
| ended | requests that wait for it fail | ``current``: another one is running |

Only ``SystemExit`` and ``KeyboardInterrupt`` of a callback end an event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from time import monotonic
from typing import TYPE_CHECKING, Any

from django_mcp.core.concurrency.forks import ProcessLock, begin_anew
from django_mcp.core.concurrency.shared_loop import SharedLoop
from django_mcp.runtime.context_managers import move_locals
from django_mcp.runtime.process import interpreter
from django_mcp.transports.wsgi.environ import MAX_READING, RequestBody

if TYPE_CHECKING:
    from django_mcp.transports.wsgi.bridge import Bridge

LOOK_EVERY = 5.0
"""Seconds between two looks at the bodies that are being read."""

logger = logging.getLogger("django_mcp")


class LoopEnded(Exception):
    """The event loop has ended, and cannot answer."""


class EventLoopThread:
    def __init__(self) -> None:
        self.loop = SharedLoop(move_locals)
        self.has_ended = False
        self.reading: set[RequestBody] = set()
        """The bodies that threads of the server wait for."""
        self._waiting: set[Bridge] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()
        """The loop itself has only weak references to its tasks."""
        self._thread = threading.Thread(target=self._run, name="django_mcp-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` in the loop soon, in an empty context; raises LoopEnded."""
        try:
            self.loop.call_soon_threadsafe(function, *args, context=Context())
        except RuntimeError:
            raise LoopEnded from None

    def run_here(self, function: Callable[..., object] | None = None, *args: Any) -> None:
        """Call ``function``, and then ready callbacks, on this thread; raises LoopEnded."""
        try:
            self.loop.run_here(function, *args)
        except RuntimeError:
            raise LoopEnded from None

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, until it calls ``task_done``; to be called in a callback of the loop."""
        task = self.loop.begin_task(coroutine)
        if not task.done():
            self._tasks.add(task)

    def task_done(self) -> None:
        """Note that the current task ends: a callback of its own would take 3 µs."""
        self._tasks.discard(asyncio.current_task(self.loop))

    def add(self, waiting: Bridge) -> None:
        """Call ``loop_ended`` if the loop ends; raises LoopEnded if it has ended."""
        self._waiting.add(waiting)
        # In this order: ``_run`` first sets ``has_ended``, and then wakes those that were added.
        if self.has_ended:
            raise LoopEnded

    def discard(self, waiting: Bridge) -> None:
        self._waiting.discard(waiting)

    def _abandon_slow(self) -> None:
        """End the wait for clients that send their body for too long, now and then."""
        latest = monotonic() - MAX_READING
        for body in tuple(self.reading):
            if body.began < latest:
                body.abandon()
        self.loop.call_later(LOOK_EVERY, self._abandon_slow)

    def _run(self) -> None:
        self.loop.call_later(LOOK_EVERY, self._abandon_slow)
        try:
            self.loop.run_forever()
        except BaseException as error:
            logger.critical("The event loop of the MCP servers has ended", exc_info=error)
        finally:
            self.has_ended = True
            self.loop.close()
            for waiting in tuple(self._waiting):
                waiting.loop_ended()


class EventLoopOfProcess:
    """The event loop of this process: ``thread`` has its state. A forked child has none yet."""

    thread: EventLoopThread | None = None

    def __init__(self) -> None:
        self._guard = ProcessLock()
        begin_anew(self._begin)

    def current(self) -> EventLoopThread:
        """Return the event loop of this process, which is started unless it runs.

        Raises ImproperlyConfigured in a process whose threads are greenlets: gunicorn makes them so
        after it has loaded the application, with --preload.
        """
        running = self.thread
        if running is not None and not running.has_ended:
            return running
        with self._guard:
            if self.thread is None or self.thread.has_ended:
                interpreter.refuse_greenlets(interpreter.FOR_SERVERS)
                self.thread = EventLoopThread()
            return self.thread

    def _begin(self) -> None:
        if self.thread is not None:
            self.thread.has_ended = True  # Threads are not copied.
        self.thread = None


OF_PROCESS = EventLoopOfProcess()
current = OF_PROCESS.current
