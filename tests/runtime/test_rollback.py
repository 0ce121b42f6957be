"""Rollback of a handler's writes before an input request, without concurrent writes of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, connections, transaction
from pytest_django import DjangoDbBlocker

from django_mcp import Server, ToolError
from django_mcp.runtime import pools, rollback
from django_mcp.testing import Client
from tests.databases import scratch_database
from tests.waiting import SECONDS


@pytest.fixture
def begins_transaction(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[Callable[[], bool]]:
    """Connects to a database, and records whether that started a transaction."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:

        def connect() -> bool:
            connections[alias].ensure_connection()
            begun = connections[alias].in_atomic_block
            if not begun:
                connections[alias].close()
            return begun

        yield connect


async def test_handler_that_requests_input_runs_in_a_transaction(
    begins_transaction: Callable[[], bool],
) -> None:
    assert await rollback.run(begins_transaction)


async def test_thread_started_by_the_handler_has_no_transaction(
    begins_transaction: Callable[[], bool],
) -> None:
    def handler() -> bool:
        with ThreadPoolExecutor(1) as elsewhere:
            return elsewhere.submit(copy_context().run, begins_transaction).result()

    assert not await rollback.run(handler)


async def test_transaction_that_a_cancelled_call_has_begun_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beginning = threading.Event()
    may_begin = threading.Event()
    steps: list[str] = []

    class SlowTransaction(rollback.HandlerTransaction):
        def begin(self) -> None:
            beginning.set()
            may_begin.wait(SECONDS)
            steps.append("begun")

        def end(self) -> None:
            steps.append("ended")

    async def handler() -> None:
        raise AssertionError("It is not called")

    monkeypatch.setattr(rollback, "HandlerTransaction", SlowTransaction)
    call = asyncio.ensure_future(rollback.run_async(handler()))
    assert await asyncio.to_thread(beginning.wait, SECONDS)
    call.cancel()
    await asyncio.sleep(0)
    may_begin.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert steps == ["begun", "ended"]


async def test_context_kept_after_the_handler_has_no_transaction(
    begins_transaction: Callable[[], bool],
) -> None:
    left: Context = await rollback.run(copy_context)

    assert not await pools.run(left.run, begins_transaction)


def test_connection_that_may_not_be_used_fails_no_handler_without_queries(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    """As one that an earlier test has left open, on the thread of this one."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        connections[alias].ensure_connection()
        with django_db_blocker.block():
            handler = rollback.HandlerTransaction()
            handler.begin()
            handler.end()
        connections[alias].close()


def save_twice(catching: str) -> str:
    """Save a group, and then one with its name; the error is caught in several ways."""
    Group.objects.create(name="staff")
    try:
        if catching == "around atomic":
            with transaction.atomic():
                Group.objects.create(name="staff")
        else:
            Group.objects.create(name="staff")
    except IntegrityError:
        if catching == "with a ToolError":
            raise ToolError("The name is taken") from None
    return "saved"


def close_connection(catching: str) -> str:
    Group.objects.create(name="staff")
    connection.close()
    return "saved"


CAUGHT = {
    "not around atomic": ("unexpectedly", False),
    "with a ToolError": ("The name is taken", False),
    "around atomic": ("saved", True),
}
"""Ways of catching a database error: what the client reads, and whether the first write is kept."""


def clerk(save: Callable[[str], str]) -> Server:
    """Tools that save groups."""
    server = Server("clerk")

    @server.tool(requests_input=True)
    def sync_tool(catching: str) -> str:
        return save(catching)

    @server.tool(requests_input=True)
    async def async_tool(catching: str) -> str:
        return await sync_to_async(save)(catching)

    return server


async def text_of_call(server: Server, tool: str, catching: str) -> str:
    options: dict[str, Any] = {"sync_execution": "threads", "raise_exceptions": False}
    async with Client(server, **options) as client:
        text: str = (await client.call_tool(tool, {"catching": catching})).text
        return text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tool", ["sync_tool", "async_tool"])
@pytest.mark.parametrize("catching", CAUGHT)
async def test_handler_succeeds_only_if_its_writes_outlive_a_caught_database_error(
    tool: str, catching: str
) -> None:
    text, is_kept = CAUGHT[catching]

    assert text in await text_of_call(clerk(save_twice), tool, catching)
    assert await Group.objects.acount() == int(is_kept)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tool", ["sync_tool", "async_tool"])
async def test_handler_that_closes_its_connection_fails(tool: str) -> None:
    assert "unexpectedly" in await text_of_call(clerk(close_connection), tool, "")
    assert await Group.objects.acount() == 0


@pytest.mark.django_db(transaction=True)
def test_handler_within_a_broken_transaction_begins_none() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        assert rollback.call(lambda: "read") == "read"
