"""Tasks that run in a process which is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from django_mcp import Server
from django_mcp.models import McpTask
from django_mcp.runtime import background
from django_mcp.tasks.run import STOPPED
from django_mcp.testing import Client
from django_mcp.transports.http import shutdown
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = SECONDS


@pytest.fixture
async def process() -> AsyncIterator[shutdown.Shutdown]:
    process = shutdown.here(asyncio.get_running_loop())
    yield process
    process.withdraw()


class Shop:
    """A server with a task that takes until it is told to end."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("shop")
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.server.tool(name="work", task_support="required", **options)(self.work)
        capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        self.client = Client(
            self.server,
            version="2026-07-28",
            capabilities=capabilities,
            sync_execution="threads",
        )

    async def work(self) -> str:
        self.started.set()
        await self.may_end.wait()
        return "done"

    async def call(self) -> str:
        """The id of a task."""
        message = self.client.message("tools/call", {"name": "work"})
        response = await self.client.send(message)
        assert response is not None
        return str(response["result"]["taskId"])


async def row_of(task: str) -> McpTask:
    return await McpTask.objects.aget(pk=task)


async def test_process_that_stops_waits_for_its_tasks(process: shutdown.Shutdown) -> None:
    shop = Shop()
    task = await shop.call()
    async with asyncio.timeout(PATIENCE):
        await shop.started.wait()
        stopping = process.begin()
        await asyncio.wait([stopping], timeout=2 * shutdown.TICK)
        assert not stopping.done()
        shop.may_end.set()
        await stopping
    assert (await row_of(task)).status == "completed"


async def test_tasks_that_take_too_long_fail_when_the_process_stops(
    configure: Any, process: shutdown.Shutdown
) -> None:
    configure(
        SHUTDOWN_TIMEOUT=0.1,
        TASK_RUNNER={
            "BACKEND": "django_mcp.tasks.runners.in_process.InProcessRunner",
            "OPTIONS": {"concurrency": 1},
        },
    )
    shop = Shop()
    running, waiting = await shop.call(), await shop.call()
    async with asyncio.timeout(PATIENCE):
        await shop.started.wait()
        while (await row_of(waiting)).started_at is None:
            await asyncio.sleep(0.01)
        await process.begin()
    for task in (running, waiting):
        row = await row_of(task)
        assert (row.status, row.status_message) == ("failed", STOPPED["message"])


async def test_process_that_stops_waits_for_accepted_notifications(
    process: shutdown.Shutdown,
) -> None:
    done = asyncio.Event()

    async def store() -> None:
        await asyncio.sleep(2 * shutdown.TICK)
        done.set()

    background.spawn_accepted(store())
    await process.begin()
    assert done.is_set()
    assert background.accepted_tasks() == set()
