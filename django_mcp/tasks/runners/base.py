"""The interface of runners, which decide in which process a task runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class Runner(ABC):
    """Where tasks run. Only the id of a task is passed on; its row has everything else.

    Where the task should run, ``django_mcp.tasks.execution`` runs it by its id: ``run`` on an
    event loop, ``run_in_new_loop`` in a worker process without one. A task that is submitted
    twice runs once.
    """

    runs_here: ClassVar[bool] = False
    """Whether the tasks run in the process that submits them, and fail if it dies."""

    @abstractmethod
    async def submit(self, task_id: str) -> None:
        """Have the task run soon; raises an exception if that is impossible."""
