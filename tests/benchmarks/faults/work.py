"""Work that outlives its request: tasks, and calls that another user has to approve.

The client knows the work by its id, and looks until it has ended, whatever fails meanwhile. How
often its handler began is noted by the site, and compared at the end of the run.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import httpx

from tests.benchmarks.faults.actor import Actor, Traffic
from tests.benchmarks.faults.tally import LOOKS
from tests.wire.live import Crossed, Failed, succeeded
from tests.wire.messages import STATELESS, Message, text_of

LOOK = 0.5
"""Seconds between two looks."""
WAITS = re.compile(r'call approval_status with id="([\w-]{22})"', re.IGNORECASE)
UNKNOWN = "error -32602"
"""The answer to a look at a task that does not exist."""


class Work(Actor):
    """Calls whose result comes later."""

    version = STATELESS
    tool: ClassVar[str]

    def __init__(self, traffic: Traffic) -> None:
        super().__init__(traffic)
        self.approver = traffic.peer(caller=traffic.approver)

    async def step(self) -> None:
        seconds = random.uniform(0, 3)
        limit = self.traffic.work_limit
        await self.traffic.measure(self.kind, lambda: self._work(seconds), seconds, limit=limit)

    async def _work(self, seconds: float) -> None:
        token = self.traffic.token()
        arguments = {"token": token, "seconds": seconds}
        accepted = await self.peer.ask("tools/call", {"name": self.tool, "arguments": arguments})
        result = succeeded(await self.until_done(accepted))
        assert self.peer.caller is not None
        if text_of(result) != f"{token} {self.peer.caller.name}":
            raise Crossed(f"{result} answers {token!r} of {self.peer.caller.name}")
        self.traffic.completed.add(token)

    @abstractmethod
    async def until_done(self, accepted: Message) -> Message:
        """The result of the tool, after what the call was answered with."""

    async def look(self, method: str, params: Mapping[str, Any]) -> Message:
        """The answer about work that was accepted."""
        return await self._until_answered(lambda: self.peer.ask(method, params), LOOKS)

    async def approve(self, key: str) -> None:
        """Approve as another user."""
        await self._until_answered(lambda: self.approver.tool("approve", id=key), "decision")

    async def _until_answered(self, ask: Callable[[], Awaitable[Message]], kind: str) -> Message:
        """Ask again while the site fails."""
        while True:
            began = time.monotonic()
            try:
                answer = await ask()
            except (Failed, httpx.TransportError) as error:
                failure = str(error) if isinstance(error, Failed) else type(error).__name__
                self.traffic.tally.note(kind, began, failure)
                if failure == UNKNOWN:
                    self.traffic.tally.note_lost(f"{self.kind}: its id is unknown")
                    raise
            else:
                self.traffic.tally.note(kind, began, None)
                return answer
            await asyncio.sleep(LOOK)


class Task(Work):
    """Tasks on the queue."""

    kind = "task"
    tool = "work"
    capabilities: ClassVar[Mapping[str, Any]] = {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    }

    async def until_done(self, accepted: Message) -> Message:
        while True:
            task = await self.look("tasks/get", {"taskId": accepted["taskId"]})
            if task["status"] == "completed":
                result: Message = task["result"]
                return result
            if task["status"] != "working":
                raise Failed(f"task: {task.get('error', task)['message']}")
            await asyncio.sleep(LOOK)


class ApprovedTask(Task):
    """Tasks that start when another user has approved them."""

    kind = "approved task"
    tool = "pay_as_task"

    async def until_done(self, accepted: Message) -> Message:
        await self.approve(accepted["taskId"])
        return await super().until_done(accepted)


class ApprovedCall(Work):
    """Calls that run when another user has approved them; the client asks for the result."""

    kind = "approved call"
    tool = "pay"

    async def until_done(self, accepted: Message) -> Message:
        waits = WAITS.search(text_of(accepted))
        if waits is None:
            raise Failed("no approval")
        await self.approve(waits[1])
        params = {"name": "approval_status", "arguments": {"id": waits[1]}}
        while True:
            result = await self.look("tools/call", params)
            if "outcome is unknown" in text_of(result):
                raise Failed("outcome unknown")
            if WAITS.search(text_of(result)) is None:
                return result
            await asyncio.sleep(LOOK)
