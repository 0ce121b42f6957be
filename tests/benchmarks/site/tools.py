"""The measured tools and their data."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, User

from django_mcp import Frame, Server
from django_mcp.core.server.server import server_of
from django_mcp.toolsets import ModelToolset
from tests.benchmarks.calls import MANY_ROWS, PAGE, ROWS, TABLE_ROWS
from tests.benchmarks.site.rows import (
    DATA_PAGE,
    DICT_PAGE,
    MODEL_PAGE,
    USER_COLUMNS,
    DataPage,
    DictPage,
    ModelPage,
)

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


async def group_name_async(pk: int) -> str:
    """Read the same row in an async handler."""
    return (await Group.objects.aget(pk=pk)).name


COLUMNS = ("pk", "username", "first_name", "last_name", "email", "is_active", "date_joined")


class Users(ModelToolset):
    """A page of rows, by a toolset."""

    model = User
    fields = COLUMNS
    operations = ("list",)
    permissions = None
    page_size = PAGE


def list_users() -> Any:
    """Return the same rows by a query that is written by hand."""
    return User.objects.order_by("pk").values(*COLUMNS)[:PAGE]


async def tickets() -> list[dict[str, Any]]:
    """Return about 100 kB of rows which are mostly text."""
    return TICKETS


async def prices() -> list[dict[str, Any]]:
    """Return about 100 kB of rows which are mostly numbers and names of columns."""
    return PRICES


async def typed_dicts() -> DictPage:
    """Return about 100 kB of dicts with known keys."""
    return DICT_PAGE


async def dataclasses() -> DataPage:
    """Return the same as dataclasses."""
    return DATA_PAGE


async def models() -> ModelPage:
    """Return the same as pydantic models."""
    return MODEL_PAGE


def values() -> dict[str, Any]:
    """Return as much from the database."""
    return {"rows": User.objects.order_by("pk").values(*USER_COLUMNS)[:TABLE_ROWS]}


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
    await server_of(frame).anotify_tools_list_changed()
    return "said"


READERS = {"sync": group_name, "async": group_name_async}
TOOLS = (
    add,
    add_sync,
    tickets,
    prices,
    typed_dicts,
    dataclasses,
    models,
    values,
    count,
    progress,
)


def register(
    server: Server, further: int = 0, *, rows_by: str = "values", reads: str = "sync"
) -> Server:
    """Register every tool, or only `add` and the given number of `further` ones."""
    for tool in TOOLS if not further else TOOLS[:1]:
        server.tool(tool)
    if not further:
        server.tool(name="group_name")(READERS[reads])
    if rows_by == "toolset":
        Users().register(server)
    elif not further:
        server.tool(list_users)
    if not further:
        server.tool(name="announce")(publish)
    for number in range(1, further):
        server.tool(name=f"tool_{number:04}")(add)
    return server
