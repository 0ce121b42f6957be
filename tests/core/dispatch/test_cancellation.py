"""Cancelled requests: the handler stops, and its changes are discarded."""

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

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TIMEOUT = SECONDS


class BlockingServer:
    """A server whose handlers run until they are cancelled."""

    def __init__(self) -> None:
        self.server = Server("desk")
        self.server.tool(name="wait")(self.wait)
        self.server.tool(name="block")(self.block)
        self.server.tool(name="remembered")(self.remembered)
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.proceed = threading.Event()
        self.reasons: list[str | None] = []
        self.seen: list[bool] = []

    async def wait(self, frame: Frame) -> tuple[str, Frame]:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.reasons.append(frame.cancellation.reason)
            self.stopped.set()
        return "never", frame.assign("waited", True)

    def block(self, frame: Frame) -> tuple[str, Frame]:
        self.loop.call_soon_threadsafe(self.began.set)
        self.seen.append(frame.cancellation.wait(TIMEOUT))
        self.reasons.append(frame.cancellation.reason)
        self.loop.call_soon_threadsafe(self.stopped.set)
        return "too late", frame.assign("blocked", True)

    async def remembered(self, frame: Frame) -> str:
        return repr(dict(frame.assigns))


async def cancel_call(client: Client, desk: BlockingServer, tool: str) -> None:
    """Call a tool, and cancel the call once its handler has started."""
    call = asyncio.ensure_future(client.call_tool(tool))
    async with asyncio.timeout(TIMEOUT):
        await desk.began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await desk.stopped.wait()


@spec("CANC-04", "CANC-05")
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_cancelled_request_stops_its_handler_and_discards_its_frame(
    client_for: ClientFor, tool: str
) -> None:
    desk = BlockingServer()

    async with client_for(desk.server, sync_execution="threads") as client:
        await cancel_call(client, desk, tool)
        result = await client.call_tool("remembered")

    assert result.text == "{}"
    assert len(desk.reasons) == 1
    assert desk.seen == ([True] if tool == "block" else [])


@spec("CANC-06", "2026/STD-05", "2026/CAN-02")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
async def test_cancelled_request_over_stdio_receives_no_response(
    client_for: ClientFor,
) -> None:
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        await cancel_call(client, desk, "wait")
        await client.call_tool("remembered")

    assert client.connection.strays == []  # type: ignore[attr-defined]
    assert desk.reasons == ["The client cancelled the request"]


@spec("RPC-13", "CANC-07", "CANC-11", "CANC-12", "2026/JR-08", "2026/CAN-03", "2026/CAN-04")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
@pytest.mark.parametrize(
    "params",
    [{}, {"requestId": None}, {"requestId": [1]}, {"requestId": {}}, {"requestId": 12345}],
)
async def test_cancellation_of_unknown_request_is_ignored(
    client_for: ClientFor, params: dict[str, Any]
) -> None:
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        await client.notify("notifications/cancelled", params)
        result = await client.call_tool("remembered")

    assert result.text == "{}"


@spec("CANC-13")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
async def test_cancellation_with_request_id_of_another_type_is_ignored(
    client_for: ClientFor,
) -> None:
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        message = client.message("tools/call", {"name": "wait", "arguments": {}})
        call = asyncio.ensure_future(client.send(message))
        async with asyncio.timeout(TIMEOUT):
            await desk.began.wait()
        await client.notify("notifications/cancelled", {"requestId": str(message["id"])})
        await client.call_tool("remembered")
        assert not desk.stopped.is_set()
        call.cancel()
        await client.notify("notifications/cancelled", {"requestId": message["id"]})
        await client.call_tool("remembered")

    assert desk.stopped.is_set()


@spec("RPC-04", "2026/JR-03")
@pytest.mark.parametrize("mcp_transport", ["stdio"])
async def test_request_with_id_of_running_request_is_rejected(client_for: ClientFor) -> None:
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        message = client.message("tools/call", {"name": "wait", "arguments": {}})
        call = asyncio.ensure_future(client.send(message))
        async with asyncio.timeout(TIMEOUT):
            await desk.began.wait()
        answer = await client.send(message)
        call.cancel()
        await client.notify("notifications/cancelled", {"requestId": message["id"]})

    assert answer is not None
    assert answer["error"]["code"] == -32600


async def test_cancellation_is_not_requested_in_an_uncancelled_call(client_for: ClientFor) -> None:
    server = Server("desk")

    @server.tool
    def work(frame: Frame) -> str:
        frame.cancellation.raise_if_requested()
        return f"{frame.cancellation.requested} {frame.cancellation.reason}"

    async with client_for(server) as client:
        result = await client.call_tool("work")

    assert result.text == "False None"


@spec("LIFE-27", "2026/CAN-06")
async def test_call_exceeding_the_handler_timeout_is_cancelled(
    client_for: ClientFor, configure: Any
) -> None:
    configure(HANDLER_TIMEOUT=0.1)
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        error = await error_of(client.call_tool("wait"))
        assert (await client.call_tool("remembered")).text == "{}"

    assert (error.code, error.message) == (-32603, "The call took too long")
    assert desk.stopped.is_set()


@spec("CANC-10", "2026/CAN-07")
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
async def test_cancellation_reason_is_logged(
    client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "django_mcp")
    desk = BlockingServer()

    async with client_for(desk.server) as client:
        await cancel_call(client, desk, "wait")

    (logged,) = [record.getMessage() for record in caplog.records if "cancelled" in record.msg]
    assert logged.startswith("<Frame 'tools/call' ")
    assert logged.endswith(f"was cancelled: {desk.reasons[0]!r}")
