"""A site with two databases."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import IntegrityError, connections, transaction

from django_mcp import Frame, Server
from tests.by_hand.shop import ELICITS, FORM
from tests.databases import scratch_database
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient

__all__ = ["configure"]


@pytest.fixture
def two_databases(tmp_path: Path, django_db_blocker: Any) -> Any:
    """The aliases of two databases, of which the first has a constraint that fails at commit."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        django_db_blocker.unblock(),
        scratch_database("sqlite3", tmp_path / "a") as first,
        scratch_database("sqlite3", tmp_path / "b") as second,
    ):
        for alias in (first, second):
            with connections[alias].cursor() as cursor:
                cursor.execute("CREATE TABLE parent (id integer PRIMARY KEY)")
                cursor.execute(
                    "CREATE TABLE child (parent integer REFERENCES parent (id)"
                    " DEFERRABLE INITIALLY DEFERRED)"
                )
        yield first, second


@spec("answers-11")
async def test_failed_commit_of_one_database_leaves_the_other_usable(
    two_databases: tuple[str, str], configure: Configure
) -> None:
    failing, other = two_databases
    configure(SYNC_THREAD_POOL_SIZE=1)
    server = Server("shop")

    def insert(alias: str, table: str, value: int) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} VALUES ({value})")

    @server.tool(requests_input=True)
    def write_both(frame: Frame, ask: bool = False) -> str:
        if ask:
            frame.client.elicit("Sure?", FORM)
        insert(other, "parent", 1)
        insert(failing, "child", 99)
        return "written"

    @server.tool(requests_input=True)
    def write_other(frame: Frame, ask: bool = False) -> str:
        if ask:
            frame.client.elicit("Sure?", FORM)
        insert(other, "parent", 2)
        return "written"

    def committed() -> list[int]:
        with connections[other].cursor() as cursor:
            cursor.execute("SELECT id FROM parent ORDER BY id")
            return [row[0] for row in cursor.fetchall()]

    peer = AsgiClient(server, capabilities=ELICITS)
    first = await peer.tool("write_both")
    assert "error" in first.answer or first.result["isError"]
    second = await peer.tool("write_other")

    assert not second.result.get("isError"), "The thread is broken"
    assert await database_sync_to_async(committed)() == [1, 2]


async def test_caught_error_of_one_database_loses_the_writes_of_both(
    two_databases: tuple[str, str], configure: Configure
) -> None:
    failing, other = two_databases
    configure(SYNC_THREAD_POOL_SIZE=1)
    server = Server("shop")

    @server.tool(requests_input=True)
    def write_both(frame: Frame) -> str:
        with connections[other].cursor() as cursor:
            cursor.execute("INSERT INTO parent VALUES (1)")
        connections[failing].ensure_connection()
        # As saving an object does whose row is refused.
        with suppress(IntegrityError), transaction.mark_for_rollback_on_error(using=failing):
            raise IntegrityError("The row is there already")
        return "written"

    def rows() -> list[Any]:
        with connections[other].cursor() as cursor:
            cursor.execute("SELECT id FROM parent")
            return [*cursor.fetchall()]

    reply = await AsgiClient(server, capabilities=ELICITS).tool("write_both")
    assert reply.result["isError"]
    assert await database_sync_to_async(rows)() == []
