"""The interface of runners, which choose the process of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, ParamSpec, TypeVar

from django_mcp.core.protocol.errors import ServerBusy
from django_mcp.runtime import pools
from django_mcp.tasks import execution

P = ParamSpec("P")
T = TypeVar("T")

BROKERS = "brokers of tasks"
"""The threads that send to brokers: one that hangs holds up no store."""


class RunnerUnavailable(ServerBusy):
    """The task was not submitted, and never starts. The same request may succeed soon."""

    default_message = "The runner of tasks does not answer"
    retry_after = 2


class Runner(ABC):
    """Where tasks run. Only the id of a task is passed on; its row has everything else.

    In the process that it chose, ``django_mcp.tasks.execution`` runs the task by its id: ``run`` on
    an event loop, ``run_in_new_loop`` in a worker process without one. A runner may repeat a
    message, and a message may be late: a task that is submitted twice runs once, and one that was
    given up never runs. Some ids are the names of jobs (``jobs`` of extensions), which have no row
    of a task.
    """

    runs_here: ClassVar[bool] = False
    """Whether the tasks run in the process that submits them, and fail if it dies."""

    @abstractmethod
    async def submit(self, task_id: str) -> None:
        """Have the task run soon; raises an exception if that is impossible.

        A blocking client of a broker is called by ``send``, which has a time limit.
        """

    async def run(self, task_id: str) -> None:
        """Run the task on the current event loop, for a runner with ``runs_here``."""
        await execution.run(task_id)


async def send(function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function that sends to a broker, on threads for brokers.

    Raises StoreUnavailable after STORE_TIMEOUT: the message may arrive later all the same.
    """
    await pools.run_in_threads_of(BROKERS, partial(function, *args, **kwargs))
