"""The interface to the tasks of a site, which keeps and runs them; ``tasks`` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from django_mcp.core.ports import Port

if TYPE_CHECKING:
    from django_mcp.core.frame.frame import Frame
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.tasks import Task
    from django_mcp.core.server.server import Answer

Call = Callable[["Frame"], Awaitable["Answer"]]


class TaskPort(Protocol):
    """A task belongs to the caller who created it: for all others it is None. For the caller as
    well, where they may not use its tool: another token of a user may have fewer scopes.

    The methods raise RuntimeError where the site cannot keep tasks.
    """

    async def start(self, frame: Frame, ttl_ms: int | None) -> Task:
        """Have the call on ``frame`` run as a task; return the task once it is stored.

        Raises TooManyRequests if the caller has too many.
        """

    async def run_or_hand_over(self, frame: Frame, call: Call, after: float) -> Answer | Task:
        """Run ``call``; return its answer, or the task as which it continues after some seconds."""

    async def get(self, frame: Frame, task_id: str) -> Task | None: ...

    async def page(
        self, frame: Frame, after: Sequence[str] | None, limit: int
    ) -> tuple[list[Task], Sequence[str] | None]:
        """Return the caller's tasks after a sort key, the oldest first, and the last one's key.

        Without further tasks, the sort key is None.
        """

    async def update(
        self, frame: Frame, task_id: str, responses: Mapping[str, Json]
    ) -> Task | None:
        """Pass responses to input requests on."""

    async def cancel(self, frame: Frame, task_id: str) -> Task | None:
        """Cancel a task; raises TaskEnded if its status is final."""

    async def wait(self, frame: Frame, task_id: str) -> Task | None:
        """Wait until the task has ended; send its messages and input requests meanwhile."""


TASKS: Port[TaskPort] = Port("keeps tasks")
"""The tasks of all servers."""
