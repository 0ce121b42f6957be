"""The suite's tools which make the server announce something, or let go of its stream."""

import asyncio

from django_mcp import Frame
from example_site.conformance.server import conformance

PAUSE = 0.1  # Long enough for the stream to be closed before the answer is there.


@conformance.tool
async def test_trigger_tool_change() -> str:
    """Announces to every client which listens that the list of tools has changed."""
    await conformance.anotify_tools_list_changed()
    return "Announced."


@conformance.tool
async def test_trigger_prompt_change() -> str:
    """Announces to every client which listens that the list of prompts has changed."""
    await conformance.anotify_prompts_list_changed()
    return "Announced."


@conformance.tool
async def test_reconnection(frame: Frame) -> str:
    """Lets its stream be closed: the client comes back for the answer."""
    await frame.client.aclose_stream()
    await asyncio.sleep(PAUSE)
    return "The stream was closed and taken up again."
