"""Rollback of a handler's writes before an input request, without concurrent writes of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from django_mcp.runtime import pools, rollback
from tests.databases import scratch_database


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
