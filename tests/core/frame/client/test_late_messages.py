"""Messages after the response, or without the declared capability, are not sent."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.testing import Client
from django_mcp.testing.plugin import ClientFor
from tests.http_errors import error_of
from tests.spec import spec
from tests.waiting import SECONDS

pytestmark = pytest.mark.usefixtures("configure")

METHOD_NOT_FOUND = -32601


def server_retaining_frames() -> tuple[Server, list[Frame]]:
    """A server whose tools leave their Frames to the test, as a background thread or task would."""
    server = Server("shop")
    kept: list[Frame] = []

    @server.tool
    async def send_messages(frame: Frame) -> str:
        frame.client.progress(1)
        kept.append(frame)
        return "spoken"

    @server.tool
    def keep_quiet(frame: Frame) -> str:
        kept.append(frame.assign(seen=True))
        return "nothing said"

    return server, kept


@spec("PROG-07", "PROG-09", "PROG-10", "2026/PRG-03", "2026/PRG-06", "2026/LOG-03")
@pytest.mark.parametrize("tool", ["send_messages", "keep_quiet"])
async def test_notifications_after_the_response_are_dropped(
    client_for: ClientFor, tool: str
) -> None:
    server, kept = server_retaining_frames()

    async with client_for(server) as client:
        await client.call_tool(tool)
        before = [*client.notifications]
        for frame in kept:
            frame.client.progress(2)
            frame.client.log("error", "too late")
            await frame.client.anotify("notifications/progress", {"progressToken": 1})
        await client.call_tool("keep_quiet")
        after = client.notifications

    assert after == before


@spec("PROG-09", "2026/CAN-01")
async def test_notifications_of_a_cancelled_request_are_dropped(mcp_transport: Any) -> None:
    server = Server("shop")
    started, proceed, done = (threading.Event() for _ in range(3))

    @server.tool
    def work(frame: Frame) -> str:
        frame.client.progress(1)
        started.set()
        proceed.wait(SECONDS)
        frame.client.progress(2)
        done.set()
        return "done"

    server.tool(name="look")(lambda: "")

    async with Client(server, transport=mcp_transport, sync_execution="threads") as client:
        call = asyncio.ensure_future(client.call_tool("work"))
        await asyncio.to_thread(started.wait, 10)
        call.cancel()
        await asyncio.wait([call])
        proceed.set()
        await asyncio.to_thread(done.wait, 10)
        await client.call_tool("look")

    assert [each["progress"] for each in client.progress] in ([], [1])


@spec("PROG-04", "PROG-05", "2026/PRG-02")
async def test_copies_of_a_frame_share_one_increasing_progress(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    async def work(frame: Frame) -> str:
        later = frame.assign(half="done")
        for client, progress in ((later, 2), (frame, 1), (frame, 3), (later, 3.0), (later, 3.5)):
            await client.client.aprogress(progress)
        return "done"

    async with client_for(server) as client:
        await client.call_tool("work")

    assert [each["progress"] for each in client.progress] == [2, 3, 3.5]


@spec("2026/PRG-02")
async def test_progress_that_is_not_finite_is_dropped(client_for: ClientFor) -> None:
    server = Server("shop")

    @server.tool
    async def work(frame: Frame) -> str:
        for progress in (float("nan"), 1, float("inf"), float("-inf")):
            await frame.client.aprogress(progress, float("inf"))
        return "done"

    async with client_for(server) as client:
        await client.call_tool("work")

    assert [(each["progress"], each.get("total")) for each in client.progress] == [(1, None)]


@spec("LIFE-15", "LOG-01", "2026/LOG-01")
async def test_log_messages_are_dropped_without_logging_capability(
    client_for: ClientFor, mcp_version: str
) -> None:
    server = Server("shop", capabilities={"logging": None})

    @server.tool
    def send_messages(frame: Frame) -> str:
        frame.client.log("emergency", "fire")
        return "spoken"

    async with client_for(server) as client:
        await client.call_tool("send_messages")
        error = await error_of(client.request("logging/setLevel", {"level": "debug"}))

    assert client.logs == []
    assert error.code == METHOD_NOT_FOUND


async def test_session_resource_enables_resource_methods_for_its_session(
    client_for: ClientFor,
) -> None:
    server = Server("shop")

    @server.hook
    def handle_tool_call(name: str, arguments: Any, frame: Frame) -> str:
        return name

    @server.prompt
    def begin(frame: Frame) -> tuple[str, Frame]:
        return "Begin.", frame.register_resource("shop://mine", handler=f"{__name__}.mine")

    async with client_for(server, version="2025-11-25") as client:
        before = await error_of(client.list_resources())
        await client.get_prompt("begin")
        after = await client.list_resources()

    assert before.code == METHOD_NOT_FOUND
    assert [resource["uri"] for resource in after] == ["shop://mine"]


def mine() -> str:
    return "mine"
