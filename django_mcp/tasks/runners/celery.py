"""A runner on Celery. The Celery app of the project has to discover the tasks of this module."""

from __future__ import annotations

from typing import Any

from celery import current_app, shared_task
from django.core.exceptions import ImproperlyConfigured

from django_mcp.tasks import execution
from django_mcp.tasks.runners.base import Runner, send

FALLBACK = "default"
"""The name of the app that Celery makes where there is none. It has a broker that nobody chose."""


# A message is acknowledged after the run, so that it is delivered again if its worker dies before
# it starts the task. After the start it does no harm, because a task is started once.
@shared_task(
    name="django_mcp.run_task", ignore_result=True, acks_late=True, reject_on_worker_lost=True
)
def run_task(task_id: str) -> None:
    """Run the MCP task with this id, in a Celery worker."""
    execution.run_in_new_loop(task_id)


class CeleryRunner(Runner):
    """Sends tasks to Celery; ``options`` are options of ``apply_async``, such as ``queue``."""

    def __init__(self, **options: Any) -> None:
        if current_app.main == FALLBACK:
            raise ImproperlyConfigured(
                "CeleryRunner finds no Celery app in this process: import it in the __init__.py of "
                "the project, and call app.autodiscover_tasks there"
            )
        self._options = options

    async def submit(self, task_id: str) -> None:
        await send(run_task.apply_async, args=[task_id], **self._options)
