"""Middleware around calls that become tasks: it runs once, when the client makes the call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from django_mcp import Frame, Server
from django_mcp.middleware import RateLimit
from django_mcp.models import McpTask
from django_mcp.testing import Client
from tests.memory_stores import Configure, configure
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

SESSION, STATELESS = "2025-11-25", "2026-07-28"
EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
PATIENCE = SECONDS
NO_OPTIONS: Mapping[str, Any] = {}


@pytest.fixture(params=[SESSION, STATELESS])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Assigning:
    """Counts the calls, and gives each handler a value."""

    def __init__(self, value: Any, *, runs_in_tasks: bool = False) -> None:
        self.calls = 0
        self.value = value
        self.runs_in_tasks = runs_in_tasks

    async def __call__(self, frame: Frame, call_next: Any) -> Any:
        if frame.message.method == "tools/call":
            self.calls += 1
            frame = frame.assign(value=self.value).put_private(mark=f"{self.calls}")
        return await call_next(frame)


def make_server(*middleware: Any) -> Server:
    server = Server("factory", middleware=middleware)

    @server.tool(task_support="required")
    def read(frame: Frame) -> str:
        return f"{frame.assigns.get('value')} {frame.private.get('mark')}"

    return server


async def run_task(
    server: Server, version: str, connection: Mapping[str, Any] = NO_OPTIONS, **arguments: Any
) -> str:
    """The text of the result of a task."""
    capabilities = EXTENSION if version == STATELESS else {}
    wish: dict[str, Any] = {"task": {}} if version == SESSION else {}
    params = {"name": "read", "arguments": arguments, **wish}
    options: Any = {"version": version, "capabilities": capabilities, **connection}
    async with Client(server, **options) as client:
        created = await client.request("tools/call", params)
        task_id = (created["task"] if wish else created)["taskId"]
        async with asyncio.timeout(PATIENCE):
            while True:
                task = await client.request("tasks/get", {"taskId": task_id})
                if task["status"] not in ("working", "input_required"):
                    break
        if version == SESSION:
            task["result"] = await client.request("tasks/result", {"taskId": task_id})
    assert "result" in task, task
    return str(task["result"]["content"][0]["text"])


async def test_middleware_runs_once_and_the_handler_finds_what_it_assigned(version: str) -> None:
    middleware = Assigning("a")

    assert await run_task(make_server(middleware), version) == "a 1"
    assert middleware.calls == 1


async def test_value_of_middleware_overrides_that_of_a_frame_processor(
    configure: Configure, version: str
) -> None:
    configure(FRAME_PROCESSORS=["tests.tasks.test_middleware.processor"])

    assert await run_task(make_server(Assigning("a")), version) == "a 1"
    assert await run_task(make_server(), version) == "processed None"


def processor(frame: Frame) -> dict[str, Any]:
    return {"value": "processed"}


async def test_task_counts_once_for_a_rate_limit(version: str) -> None:
    caller = uuid4().hex
    limit = RateLimit(1, per=3600, key=lambda _: caller)

    assert await run_task(make_server(limit), version) == "None None"


async def test_middleware_that_runs_in_tasks_runs_again() -> None:
    middleware = Assigning(object(), runs_in_tasks=True)

    assert await run_task(make_server(middleware), STATELESS) == f"{middleware.value} 2"
    assert middleware.calls == 2


async def test_hook_around_call_runs_around_the_handler_of_a_task(version: str) -> None:
    server = make_server()
    seen: list[str] = []

    @server.hook
    @contextmanager
    def around_call(frame: Frame) -> Iterator[None]:
        seen.append(frame.message.method)
        yield
        seen.append("done")

    assert await run_task(server, version) == "None None"
    assert seen == ["tools/call", "done"]


async def test_value_that_cannot_be_stored_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(Exception, match="Internal error"):
        await run_task(make_server(Assigning(object())), STATELESS)

    assert "not serializable as JSON: value. Set them in FRAME_PROCESSORS" in caplog.text


async def test_tool_that_middleware_registers_is_called_as_a_task() -> None:
    async def register(frame: Frame, call_next: Any) -> Any:
        handler = "tests.tasks.test_middleware.registered"
        options = {"handler": handler, "task_support": "required", "input_schema": {}}
        return await call_next(frame.register_tool("read", **options))

    server = Server("empty", middleware=[register], capabilities={"tools": {}, "tasks": {}})

    assert await run_task(server, STATELESS) == "registered"


def registered(arguments: dict[str, Any], frame: Frame) -> str:
    return "registered"


async def test_task_is_selected_from_what_the_connection_selects(version: str) -> None:
    server = Server("factory")

    @server.tool(task_support="required", group="machines", read_only=True)
    async def read(frame: Frame) -> str:
        selection = frame.principal.selection
        result = await server.acall_tool("check", frame=frame)
        return f"{selection} {result['content'][0]['text']}"

    @server.tool(group="machines")
    async def check() -> str:
        return "checked"

    assert "None checked" in await run_task(server, version)
    query = "groups=machines"
    text = await run_task(server, version, connection={"transport": "http", "query": query})
    assert "frozenset({'machines'})" in text
    assert "checked" in text


async def test_call_through_call_tool_becomes_a_task_of_the_tool(version: str) -> None:
    server = Server("factory", tool_search=True)

    @server.tool(task_support="required")
    async def read(frame: Frame, size: int) -> str:
        return f"{frame.message.params['name']} {size}"

    capabilities = EXTENSION if version == STATELESS else {}
    wish: dict[str, Any] = {"task": {}} if version == SESSION else {}
    inner = {"name": "read", "arguments": {"size": 3}}
    params = {"name": "call_tool", "arguments": inner, **wish}
    async with Client(server, version=version, capabilities=capabilities) as client:
        created = await client.request("tools/call", params)
        task_id = (created["task"] if wish else created)["taskId"]
        row = await McpTask.objects.aget()
        assert row.tool == "read"
        async with asyncio.timeout(PATIENCE):
            task = await client.request("tasks/get", {"taskId": task_id})
            while task["status"] == "working":
                task = await client.request("tasks/get", {"taskId": task_id})
        if version == SESSION:
            task["result"] = await client.request("tasks/result", {"taskId": task_id})
    assert task["result"]["content"][0]["text"] == "read 3"
