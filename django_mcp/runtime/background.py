"""Background tasks, which have nothing of the call that starts them.

``create_task`` is for work that somebody waits for, ``spawn`` for work that nobody waits for, and
``spawn_accepted`` for work that was promised: a process that stops waits for it. ``finish`` stops
the extensions, which then write the rows that they have collected in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from django_mcp.core.concurrency.loops import result_of
from django_mcp.core.log import log_repeated
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.runtime import pools, request_scope

T = TypeVar("T")


class Background:
    """The background tasks of this process, of all event loops, and its accepted threads.

    A task is here until it is done: an event loop has only weak references to its tasks.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._accepted: set[asyncio.Task[Any]] = set()
        """Those that a process that stops waits for."""
        self.threads: set[Future[None]] = set()
        """Accepted work on threads of its own."""

    def create_task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``coroutine`` in a background task of the running loop; its errors are logged.

        It has neither the context variables of the call, since it often works for another client,
        nor its database connections.
        """
        loop = asyncio.get_running_loop()
        work = request_scope.run(result_of, coroutine)
        task = loop.create_task(work, context=pools.context_of_nobody())
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        # It was not awaited if the task was cancelled at once.
        task.add_done_callback(lambda _: coroutine.close())
        return task

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """``create_task`` for work that nobody waits for."""
        _ = self.create_task(coroutine)

    def spawn_accepted(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """``spawn`` for accepted work: a process that stops waits for it."""
        task = self.create_task(coroutine)
        self._accepted.add(task)
        task.add_done_callback(self._accepted.discard)

    def tasks(self) -> set[asyncio.Task[Any]]:
        """The background tasks of all event loops that are not done."""
        return set(self._tasks)

    def accepted_tasks(self) -> set[asyncio.Task[Any]]:
        """The accepted tasks of the running event loop that are not done."""
        loop = asyncio.get_running_loop()
        return {task for task in tuple(self._accepted) if task.get_loop() is loop}

    def accept_thread(self) -> Future[None]:
        """Return a future for ``spawn_accepted`` work on a thread, to be set at its end."""
        future: Future[None] = Future()
        self.threads.add(future)
        future.add_done_callback(self.threads.discard)
        return future

    def has_accepted_threads(self) -> bool:
        """Whether a thread of ``accept_thread`` is not done, whatever event loop serves clients."""
        return bool(self.threads)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            text = "A background task failed"
            log_repeated(logging.ERROR, text, exc_info=task.exception())


running = Background()
create_task = running.create_task
spawn = running.spawn
spawn_accepted = running.spawn_accepted
tasks = running.tasks
accepted_tasks = running.accepted_tasks
accept_thread = running.accept_thread
has_accepted_threads = running.has_accepted_threads


async def finish() -> None:
    """Stop the extensions; to be called before the event loop or its process ends."""
    for extension in INSTALLED.all:
        if extension.stop is not None:
            try:
                await extension.stop()
            except Exception:
                text = f"The extension {extension.name} could not be stopped"
                log_repeated(logging.ERROR, text, exc_info=True)
