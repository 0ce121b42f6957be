"""A runner on Django's task framework: ``django.tasks``, or the package django-tasks before 6.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.tasks import execution
from django_mcp.tasks.runners.base import Runner, send

if TYPE_CHECKING:
    from django_tasks import task
else:
    try:
        from django.tasks import task
    except ImportError:
        from django_tasks import task


@task
def run_task(task_id: str) -> None:
    """Run the MCP task with this id, in the worker process of the backend."""
    execution.run_in_new_loop(task_id)


class DjangoTasksRunner(Runner):
    """Enqueues tasks in the backend with the alias ``backend`` of the setting ``TASKS``."""

    def __init__(self, *, backend: str = "default", queue_name: str = "default") -> None:
        self._task = run_task.using(backend=backend, queue_name=queue_name)

    async def submit(self, task_id: str) -> None:
        await send(self._task.enqueue, task_id)
