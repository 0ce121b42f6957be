"""The default runner: tasks run in the process that received the call."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from django_mcp import conf
from django_mcp.concurrency.loops import PerLoop
from django_mcp.runtime import background
from django_mcp.tasks import execution
from django_mcp.tasks.runners.base import Runner


class InProcessRunner(Runner):
    """Runs tasks on the event loop of the process, and their synchronous handlers in threads.

    ``concurrency`` tasks run at once on an event loop; the others wait for their turn. By default
    there are as many as threads for synchronous handlers. A process that is told to stop waits for
    them, for at most ``SHUTDOWN_TIMEOUT``; then they fail.
    """

    runs_here: ClassVar[bool] = True

    def __init__(self, *, concurrency: int | None = None) -> None:
        if concurrency is not None and concurrency < 1:
            raise TypeError("concurrency is a positive number of tasks")
        self._concurrency = concurrency
        self._gates = PerLoop(self._gate)

    async def submit(self, task_id: str) -> None:
        background.spawn_accepted(execution.run(task_id, self._gates.here()))

    def _gate(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self._concurrency or conf.get().sync_thread_pool_size)
