"""Runners for tests."""

from django_mcp.tasks.runners.base import Runner


class ManualRunner(Runner):
    async def submit(self, task_id: str) -> None:
        """Do nothing: the test calls ``execution.run``."""


class BrokenRunner(Runner):
    async def submit(self, task_id: str) -> None:
        raise OSError("The broker is gone")
