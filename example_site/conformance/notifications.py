"""Tools of the conformance suite that send list changes or close their stream."""

import asyncio

from django_mcp import Frame
from example_site.conformance.server import conformance

PAUSE = 0.1  # Long enough for the stream to be closed before the result is available.


@conformance.tool
async def test_trigger_tool_change() -> str:
    """Sends every listening client a change of the list of tools."""
    await conformance.anotify_tools_list_changed()
    return "Announced."


@conformance.tool
async def test_trigger_prompt_change() -> str:
    """Sends every listening client a change of the list of prompts."""
    await conformance.anotify_prompts_list_changed()
    return "Announced."


@conformance.tool
async def test_reconnection(frame: Frame) -> str:
    """Closes its stream; the client reconnects to receive the result."""
    await frame.client.aclose_stream()
    await asyncio.sleep(PAUSE)
    return "The stream was closed and taken up again."
