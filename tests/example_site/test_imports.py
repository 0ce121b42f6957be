"""The import of tickets, as a plain call and as a task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import registry
from django_mcp.testing import Client
from example_site.helpdesk.models import Customer, Ticket
from tests.memory_stores import configure
from tests.waiting import SECONDS

__all__ = ["configure"]

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = "customer,subject,description\n" + "".join(
    f"{'Nobody' if number == 7 else 'Bakery'},Oven {number},It is cold.\n" for number in range(25)
)
EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.fixture
def manager() -> User:
    Customer.objects.create(name="Bakery", email="b@example.com", city="Bern")
    return User.objects.create_superuser("manager")


async def test_import_is_a_task_with_progress(manager: User) -> None:
    async with Client(registry.default, version="2025-11-25", user=manager) as client:
        params = {"name": "import_tickets", "arguments": {"rows": ROWS}, "task": {"ttl": 60_000}}
        task = (await client.request("tools/call", params))["task"]
        result = await client.request("tasks/result", {"taskId": task["taskId"]})
        done = await client.request("tasks/get", {"taskId": task["taskId"]})

    skipped = ["Row 8: there is no customer 'Nobody'"]
    assert result["structuredContent"] == {"imported": 24, "skipped": skipped}
    assert (done["status"], done["statusMessage"]) == ("completed", "25 of 25 rows")
    assert await Ticket.objects.acount() == 24


async def test_import_is_a_plain_call_where_the_client_has_no_tasks(manager: User) -> None:
    async with Client(registry.default, version="2025-06-18", user=manager) as client:
        result = await client.call_tool("import_tickets", {"rows": ROWS})

    assert result["structuredContent"]["imported"] == 24
    assert [each["progress"] for each in client.progress] == [10, 20, 25]


async def test_short_import_ends_before_it_becomes_a_task(manager: User) -> None:
    options: dict[str, Any] = {"user": manager, "capabilities": EXTENSION}
    async with Client(registry.default, version="2026-07-28", **options) as client:
        async with asyncio.timeout(SECONDS):
            result = await client.call_tool("import_tickets", {"rows": ROWS})

    assert result["resultType"] == "complete"


@pytest.mark.parametrize("rows", ["", "subject,description\nOven,Cold\n"])
async def test_file_without_the_columns_is_rejected(manager: User, rows: str) -> None:
    async with Client(registry.default, user=manager) as client:
        result = await client.call_tool("import_tickets", {"rows": rows})

    assert result["isError"] is True
    assert "has to name the columns customer, description, subject" in result.text
