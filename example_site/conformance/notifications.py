"""Tools of the conformance suite that send notifications or close their stream."""

import asyncio
from typing import Annotated

from pydantic import Field

from django_mcp import Frame
from example_site.conformance.server import conformance

REPORT_EVERY_MS = 250
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
async def test_tool_slow(durationMs: Annotated[int, Field(ge=0, le=60_000)], frame: Frame) -> str:
    """Sends a notification at once, and progress until the time is over."""
    # The suite requests neither progress nor logs, but waits for an event of the stream.
    await frame.client.anotify("conformance/started")
    for elapsed in range(0, durationMs, REPORT_EVERY_MS):
        await frame.client.aprogress(elapsed, durationMs)
        await asyncio.sleep(min(REPORT_EVERY_MS, durationMs - elapsed) / 1000)
    return f"Waited for {durationMs} ms."


@conformance.tool
async def test_tool_fast() -> str:
    """Returns at once."""
    return "Done."


@conformance.tool
async def test_reconnection(frame: Frame) -> str:
    """Closes its stream; the client reconnects to receive the result."""
    await frame.client.aclose_stream()
    await asyncio.sleep(PAUSE)
    return "The stream was closed and taken up again."
