"""The default runner: tasks run in the process that received the call."""

from __future__ import annotations

from typing import ClassVar

from django_mcp import conf
from django_mcp.core.concurrency.fair_slots import FairSlots
from django_mcp.runtime import background
from django_mcp.tasks import execution
from django_mcp.tasks.runners.base import Runner


class InProcessRunner(Runner):
    """Runs tasks on the event loop of the process, and their synchronous handlers in threads.

    ``concurrency`` tasks run at once in the process; the others wait for their turn. By default
    there are as many as threads for synchronous handlers. A user gets a further one only while they
    have fewer than are free, and a task that waits for its user does not count. A process that is
    told to stop waits for them, for at most ``SHUTDOWN_TIMEOUT``; then they fail.
    """

    runs_here: ClassVar[bool] = True

    def __init__(self, *, concurrency: int | None = None) -> None:
        if concurrency is not None and concurrency < 1:
            raise TypeError("concurrency is a positive number of tasks")
        self._slots = FairSlots(concurrency or conf.get().sync_thread_pool_size)

    async def submit(self, task_id: str) -> None:
        background.spawn_accepted(self.run(task_id))

    async def run(self, task_id: str) -> None:
        await execution.run(task_id, self._slots)
