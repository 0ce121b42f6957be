"""Calls that are continued as a task, while something else happens to them at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import OperationalError
from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.models import McpTask
from django_mcp.tasks.store import TaskStore
from django_mcp.testing import Client
from tests.memory_stores import configure
from tests.waiting import SECONDS, until

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

STATELESS = "2026-07-28"
CAPABILITIES: dict[str, Any] = {
    "elicitation": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}
PATIENCE = SECONDS
Create = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class Name(BaseModel):
    name: str


@pytest.fixture
def around_create(monkeypatch: pytest.MonkeyPatch) -> Callable[[Create], None]:
    """Replaces how a task is stored by a function which is given the real one."""
    real = TaskStore.create

    def install(around: Create) -> None:
        async def create(self: TaskStore, *args: Any, **options: Any) -> Any:
            return await around(lambda: real(self, *args, **options))

        monkeypatch.setattr(TaskStore, "create", create)

    return install


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the row of a task was deleted."""
    real, event = TaskStore.delete, threading.Event()

    async def delete(self: TaskStore, task_id: str) -> None:
        await real(self, task_id)
        event.set()

    monkeypatch.setattr(TaskStore, "delete", delete)
    return event


async def is_set(event: threading.Event) -> None:
    await until(event.is_set)


def client_of(server: Server) -> Client:
    options: dict[str, Any] = {"capabilities": CAPABILITIES, "sync_execution": "threads"}
    return Client(server, version=STATELESS, **options)


async def call(client: Client) -> dict[str, Any]:
    """The result of the tool, even if it requires input."""
    async with asyncio.timeout(PATIENCE):
        response = await client.send(client.message("tools/call", {"name": "work"}))
    assert response is not None
    result: dict[str, Any] = response["result"]
    return result


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_call_that_requests_input_while_its_row_is_stored_is_no_task(
    kind: str, around_create: Callable[[Create], None], deleted: threading.Event
) -> None:
    server, storing, requested = Server("shop"), threading.Event(), threading.Event()

    async def work(frame: Frame) -> None:
        await is_set(storing)
        try:
            await frame.client.aelicit("Your name?", Name, key="name")
        finally:
            requested.set()
            await is_set(deleted)

    def work_in_thread(frame: Frame) -> None:
        storing.wait(PATIENCE)
        try:
            frame.client.elicit("Your name?", Name, key="name")
        finally:
            requested.set()
            deleted.wait(PATIENCE)

    async def create(real: Callable[[], Awaitable[Any]]) -> Any:
        storing.set()
        await is_set(requested)
        return await real()

    declare = server.tool(name="work", task_support="optional", task_after=0.01)
    declare(work if kind == "async" else work_in_thread)
    around_create(create)
    async with client_of(server) as client:
        result = await call(client)

    assert (result["resultType"], [*result["inputRequests"]]) == ("input_required", ["name"])
    assert await McpTask._default_manager.acount() == 0


async def test_call_whose_row_cannot_be_stored_is_answered(
    around_create: Callable[[Create], None], caplog: pytest.LogCaptureFixture
) -> None:
    server, failed = Server("shop"), asyncio.Event()

    @server.tool(task_support="optional", task_after=0.01)
    async def work() -> str:
        await failed.wait()
        return "done"

    async def create(real: Callable[[], Awaitable[Any]]) -> Any:
        failed.set()
        raise OperationalError("The disk is full")

    around_create(create)
    async with client_of(server) as client:
        result = await call(client)

    assert result["content"][0]["text"] == "done"
    assert "A call cannot be continued as a task" in caplog.text


async def test_call_that_is_cancelled_while_its_row_is_stored_leaves_none(
    around_create: Callable[[Create], None], deleted: threading.Event
) -> None:
    server, storing, cancelled = Server("shop"), asyncio.Event(), asyncio.Event()

    @server.tool(task_support="optional", task_after=0.01)
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def create(real: Callable[[], Awaitable[Any]]) -> Any:
        storing.set()
        await cancelled.wait()
        return await real()

    around_create(create)
    async with client_of(server) as client, asyncio.timeout(PATIENCE):
        calling = asyncio.create_task(call(client))
        await storing.wait()
        calling.cancel()
        await is_set(deleted)

    assert await McpTask._default_manager.acount() == 0
