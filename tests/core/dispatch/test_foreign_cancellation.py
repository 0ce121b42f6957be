"""Handlers that await a task which somebody else has cancelled, and others without an exception."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from django_mcp import Frame, Server
from tests.by_hand.processes import stdio
from tests.by_hand.shop import shop
from tests.memory_stores import Configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient


@spec("answers-02")
async def test_handler_that_awaits_a_cancelled_task_fails_over_http() -> None:
    server = Server("shop")

    @server.tool
    async def await_cancelled_task() -> str:
        task = asyncio.ensure_future(asyncio.sleep(10))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return "never"

    response = await AsgiClient(server).tool("await_cancelled_task")

    assert response.result["isError"] is True


async def test_handler_that_awaits_a_cancelled_task_fails_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "await_cancelled_task"})

    assert answer["result"]["isError"] is True


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_middleware_that_ends_with_no_exception_is_answered(error: Any) -> None:
    async def middleware(frame: Frame, call_next: Any) -> Any:
        raise error

    response = await AsgiClient(Server("shop", middleware=[middleware])).tool("add")

    assert response.error["code"] == -32603


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_frame_processor_that_ends_with_no_exception_is_answered(
    error: Any, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def process(frame: Frame) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(sys.modules[__name__], "process", process, raising=False)
    configure(FRAME_PROCESSORS=[f"{__name__}.process"])

    response = await AsgiClient(shop()).tool("add")

    assert response.error["code"] == -32603


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_sync_handler_that_ends_with_no_exception_fails(error: Any) -> None:
    server = Server("shop")

    @server.tool
    def leave() -> str:
        raise error

    assert (await AsgiClient(server).tool("leave")).result["isError"] is True
