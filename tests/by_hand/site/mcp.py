"""Tools that exit, block, and fail in other ways."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django_mcp import Frame, prompt, tool
from django_mcp.management.commands import mcp_stdio
from tests.by_hand.site.database import guarded

__all__ = ["guarded"]

mcp_stdio.EXIT_WITHIN = float(os.environ.get("ROBUSTNESS_EXIT_WITHIN", mcp_stdio.EXIT_WITHIN))
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
READ_STDIN = (
    "import os, select, sys; select.select([0], [], [], 3); "
    "os.set_blocking(0, False); sys.stdout.write(repr(os.read(0, 65536)))"
)


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(requests_input=True)
async def confirm_in_a_group(frame: Frame) -> str:
    """Requests input in a task group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(frame.client.aelicit("Sure?", FORM))
    return "done"


@tool
async def await_cancelled_task() -> str:
    """Awaits a task that somebody else cancels."""
    task = asyncio.ensure_future(asyncio.sleep(10))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task
    return "never"


@tool
async def exit_in_async() -> str:
    """Leaves as argparse does."""
    raise SystemExit(2)


@tool
def exit_in_sync() -> str:
    """Leaves as argparse does."""
    raise SystemExit(2)


@tool
def child_reads_stdin(frame: Frame) -> str:
    """Starts a program which reads what it can from its standard input."""
    frame.client.log("error", "started")
    done = subprocess.run([sys.executable, "-c", READ_STDIN], stdout=subprocess.PIPE, timeout=8)
    return done.stdout.decode()


@tool
def block(frame: Frame, seconds: float) -> str:
    """Blocks a thread, and does not look at its cancellation."""
    frame.client.log("error", "started")
    time.sleep(seconds)
    return "done"


@tool
async def wait(frame: Frame, seconds: float) -> str:
    """Waits."""
    frame.client.log("error", "started")
    await asyncio.sleep(seconds)
    return "done"


@tool
async def go_on(frame: Frame, seconds: float) -> str:
    """Ignores its cancellation."""
    frame.client.log("error", "started")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
    return "done"


@tool
def read_input() -> str:
    """Reads a line of standard input."""
    try:
        return input()
    except EOFError as error:
        return type(error).__name__


@tool
async def large(size: int) -> str:
    """Returns much."""
    return "x" * size


@tool
async def touch(path: str) -> str:
    """Makes a file."""
    Path(path).touch()
    return "done"


@tool(requests_input=True)
async def confirm(frame: Frame) -> str:
    """Requests input."""
    answer = await frame.client.aelicit("Sure?", FORM)
    return f"{answer.action}"


@prompt
def odd() -> Any:
    """A prompt with a block that no prompt has."""
    block = {"type": "tool_use", "id": "1", "name": "x", "input": {}}
    return [{"role": "user", "content": block}]
