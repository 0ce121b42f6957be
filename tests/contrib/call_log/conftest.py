"""A server whose calls are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import BaseModel

from django_mcp import Frame, Server
from django_mcp.contrib.call_log import recording
from django_mcp.contrib.call_log.models import Call
from django_mcp.core.auth.base import Principal
from django_mcp.core.protocol.errors import ToolError
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.testing import Client
from tests.memory_stores import configure

__all__ = ["configure"]


class Sure(BaseModel):
    yes: bool


@pytest.fixture(autouse=True)
def recorded(_calls_are_not_recorded: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record calls, of the test client as well, and forget what no test has written."""
    recording.QUEUE.waiting.clear()  # A test that installs extensions may have recorded some.
    monkeypatch.setattr(INSTALLED, "after_call", (recording.record,))
    monkeypatch.setattr(Client, "records_calls", True)
    yield
    with recording.QUEUE.writing:  # A batch that is being written may come back to the queue.
        recording.QUEUE.waiting.clear()


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def server() -> Server:
    """A server with a component for each outcome."""
    server = Server("desk", path="/desk", authenticators=[])

    @server.tool(log_arguments=["number", "tags"])
    def close(number: int, note: str = "", tags: Any = None) -> str:
        """Close a ticket."""
        if number == 0:
            raise ToolError("There is no ticket 0")
        return f"Closed {number}"

    @server.tool
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.sleep(600)
        return "never"

    @server.tool(requests_input=True)
    async def ask(frame: Frame) -> str:
        """Ask the user."""
        return str(await frame.client.aelicit("Sure?", Sure))

    @server.resource("desk://tickets/{number}")
    def ticket(number: str) -> str:
        """Return a ticket."""
        if number == "13":
            raise RuntimeError("A bug")
        if number == "14":
            raise KeyError(number)
        return f"Ticket {number}"

    @server.prompt
    def summarise(text: str) -> str:
        """Summarise a text."""
        return f"Summarise {text}"

    return server


def entry(server: Server, principal: Principal, **changes: Any) -> recording.Entry:
    """A call of ``close`` that ended now, with changes."""
    moment = timezone.now().timestamp()
    client = {"name": "c" * 300, "version": 2}
    of_call = (moment, 0.5, "ok", "tools/call", "close")
    made = recording.Entry(
        *of_call, server, principal, principal.user, "2025-11-25", client, "", 2, 99
    )
    return made._replace(**changes)


async def rows() -> list[Call]:
    """The rows of all calls so far, oldest first."""
    await recording.QUEUE.write()
    return [row async for row in Call.objects.order_by("pk").select_related("user")]
