"""A cancelled call discards the changes of its handler, and publishes none."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from django_mcp import Frame, Server
from django_mcp.testing.plugin import ClientFor
from tests.waiting import SECONDS

SESSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TIMEOUT = SECONDS


class FrameChangingServer:
    """A server whose handlers change the Frame when they are cancelled."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self.server = Server("changing", notify_lists_on_initialize=False)
        self.server.tool(self.change)
        self.server.tool(self.achange)
        self.server.tool(self.inspect)

    def change(self, frame: Frame) -> Any:
        """Wait, and change the Frame on cancellation."""
        self.started.set()
        frame.cancellation.wait(TIMEOUT)
        self.ended.set()
        return "changed", self.changed(frame)

    async def achange(self, frame: Frame) -> Any:
        """The same, without raising CancelledError again."""
        self.started.set()
        try:
            await asyncio.sleep(TIMEOUT)
        except asyncio.CancelledError:
            self.ended.set()
        return "changed", self.changed(frame)

    def changed(self, frame: Frame) -> Frame:
        return frame.assign(changed=True).put_pagination_limit(1).register_tool("own")

    def inspect(self, frame: Frame) -> str:
        """Return the stored changes."""
        return f"{frame.assigns} {frame.private.get('pagination_limit')} {frame.get_components()}"


@pytest.mark.parametrize("mcp_version", SESSIONS)
# Over the memory transport, cancellation cancels the task, which this handler suppresses.
@pytest.mark.parametrize("mcp_transport", ["http", "stdio"])
@pytest.mark.parametrize("tool", ["change", "achange"])
async def test_frame_changes_of_a_cancelled_call_are_discarded(
    client_for: ClientFor, tool: str
) -> None:
    changing = FrameChangingServer()
    async with client_for(changing.server, sync_execution="threads") as client:
        call = asyncio.ensure_future(client.call_tool(tool))
        assert await asyncio.to_thread(changing.started.wait, TIMEOUT)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert await asyncio.to_thread(changing.ended.wait, TIMEOUT)
        seen = (await client.call_tool("inspect")).text
        listed = [each["name"] for each in await client.list_tools()]
        notified = [each["method"] for each in client.notifications]

    assert seen == "{} None []"
    assert listed == ["achange", "change", "inspect"]
    assert notified == []
