"""The hook ``around_call``: a context manager around each handler, as a change log needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction

from django_mcp import Frame, Server, ToolError
from django_mcp.core.components.base import ConfigurationError
from django_mcp.testing import Client

pytestmark = pytest.mark.django_db(transaction=True)

change: ContextVar[str] = ContextVar("change", default="none")
count: ContextVar[int] = ContextVar("count", default=0)


@pytest.fixture
def log() -> list[Any]:
    return []


@pytest.fixture
def server(log: list[Any]) -> Server:
    server = Server("shop")

    @server.hook
    @contextmanager
    def around_call(frame: Frame) -> Iterator[None]:
        if frame.message.params.get("name") == "refused":
            raise PermissionDenied
        token = change.set(f"{frame.message.method} of {frame.user}")
        count.set(count.get() + 1)
        is_atomic = transaction.get_connection().in_atomic_block
        log.append(("enter", is_atomic, threading.get_ident()))
        try:
            yield
        except Exception as error:
            log.append(type(error).__name__)
            raise
        finally:
            change.reset(token)
            log.append(("exit", Group.objects.count(), count.get()))

    @server.tool
    def sync_tool() -> str:
        log.append(("handler", transaction.get_connection().in_atomic_block, threading.get_ident()))
        Group.objects.create(name="sync")
        count.set(count.get() + 1)
        return change.get()

    @server.tool
    async def async_tool() -> str:
        is_atomic = await sync_to_async(lambda: transaction.get_connection().in_atomic_block)()
        log.append(("handler", is_atomic, 0))
        await Group.objects.acreate(name="async")
        count.set(count.get() + 1)
        return change.get()

    @server.tool
    def fails() -> str:
        Group.objects.create(name="fails")
        raise ToolError("No")

    @server.tool
    def refused() -> str:
        raise AssertionError

    @server.resource("shop://change")
    def read_change() -> str:
        return change.get()

    @server.tool(requests_input=True)
    def asks(frame: Frame) -> str:
        Group.objects.create(name="asks")
        frame.client.elicit("Sure?", {"sure": {"type": "boolean"}})
        return change.get()

    return server


@pytest.mark.parametrize("is_atomic", [False, True])
@pytest.mark.parametrize("tool", ["sync_tool", "async_tool"])
async def test_handler_runs_within_the_context_manager(
    server: Server, log: list[Any], monkeypatch: Any, is_atomic: bool, tool: str
) -> None:
    if is_atomic:
        monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    options: Any = {"transport": "http", "sync_execution": "threads"}
    async with Client(server, **options) as client:
        assert (await client.call_tool(tool)).text == "tools/call of AnonymousUser"

    (_, atomic_outside, outer), (_, atomic_inside, inner), left = log
    assert (atomic_outside, atomic_inside) == (False, is_atomic)
    assert inner in (outer, 0)
    assert left == ("exit", 1, 2)


async def test_context_manager_gets_exceptions_and_may_refuse(
    server: Server, log: list[Any]
) -> None:
    async with Client(server) as client:
        assert (await client.call_tool("fails")).text == "No"
        assert log[1:] == ["ToolError", ("exit", 1, 1)]
        assert (await client.call_tool("refused")).is_error
        assert len(log) == 3


async def test_resources_run_within_it_and_lists_do_not(server: Server, log: list[Any]) -> None:
    async with Client(server) as client:
        await client.list_tools()
        assert log == []
        read = await client.read_resource("shop://change")
        assert read.text == "resources/read of AnonymousUser"


async def test_input_request_rolls_back_and_leaves_the_context_manager(
    server: Server, log: list[Any]
) -> None:
    answer = {"action": "accept", "content": {"sure": True}}
    async with Client(server, version="2026-07-28", elicitation=answer) as client:
        assert (await client.call_tool("asks")).text == "tools/call of AnonymousUser"
    assert [entry[0] for entry in log if entry != "InputRequired"] == ["enter", "exit"] * 2
    assert await Group.objects.acount() == 1


async def test_suppressed_exception_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("shop")

    @server.hook
    @contextmanager
    def around_call(frame: Frame) -> Iterator[None]:
        with suppress(ZeroDivisionError):
            yield

    @server.tool
    def divide() -> float:
        return 1 / 0

    async with Client(server, raise_exceptions=False) as client:
        assert (await client.call_tool("divide")).is_error
    assert "around_call suppressed" in caplog.text


def test_function_that_returns_no_context_manager_is_rejected_with_the_remedy() -> None:
    @asynccontextmanager
    async def asynchronous(frame: Frame) -> Any:
        yield

    def generator(frame: Frame) -> Iterator[None]:
        yield

    for function in (asynchronous, generator):
        function.__name__ = "around_call"
        with pytest.raises(ConfigurationError, match="contextlib.contextmanager"):
            Server("shop").hook(function)
