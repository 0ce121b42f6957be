"""The measured tools and their data."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group

from django_mcp import Frame, Server
from tests.benchmarks.calls import MANY_ROWS, ROWS

TICKETS: list[dict[str, Any]] = [
    {
        "id": number,
        "subject": f"Ticket number {number}",
        "open": True,
        "created": "2026-07-28T12:00:00Z",
        "said": "It does not print. " * 47,
    }
    for number in range(ROWS)
]
PRICES: list[dict[str, Any]] = [
    {
        "id": number,
        "name": f"Article {number}",
        "price": number / 4,
        "stock": [number, number + 1, number + 2],
        "in_sale": True,
    }
    for number in range(MANY_ROWS)
]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two numbers, in a synchronous handler."""
    return a + b


def group_name(pk: int) -> str:
    """Read one row by its primary key."""
    return Group.objects.get(pk=pk).name


async def tickets() -> list[dict[str, Any]]:
    """Return about 100 kB of rows which are mostly text."""
    return TICKETS


async def prices() -> list[dict[str, Any]]:
    """Return about 100 kB of rows which are mostly numbers and names of columns."""
    return PRICES


async def count(lines: list[str]) -> int:
    """Count the lines of a long text."""
    return len(lines)


async def progress(steps: int, frame: Frame) -> str:
    """Say after each step how far it has come."""
    for step in range(1, steps + 1):
        await frame.client.aprogress(step, steps)
    return "done"


async def publish(frame: Frame) -> str:
    """Send every client a change of the list of tools."""
    await frame.server.anotify_tools_list_changed()
    return "said"


TOOLS = (add, add_sync, group_name, tickets, prices, count, progress)


def register(server: Server, further: int = 0) -> Server:
    """Register every tool, or only `add` and the given number of `further` ones."""
    for tool in TOOLS if not further else TOOLS[:1]:
        server.tool(tool)
    if not further:
        server.tool(name="announce")(publish)
    for number in range(1, further):
        server.tool(name=f"tool_{number:04}")(add)
    return server
