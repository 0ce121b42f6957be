"""What a handler wrote is undone with its question, and nothing that others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from django_mcp import threads, undo
from tests.databases import scratch_database


@pytest.fixture
def is_begun(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Callable[[], bool]]:
    """Connects to a database, and says whether a transaction was begun there by that."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:

        def connect() -> bool:
            connections[alias].ensure_connection()
            begun = connections[alias].in_atomic_block
            if not begun:
                connections[alias].close()
            return begun

        yield connect


async def test_a_handler_which_may_ask_writes_in_a_transaction(
    is_begun: Callable[[], bool],
) -> None:
    assert await undo.run(is_begun)


async def test_another_thread_which_it_sets_in_motion_does_not(
    is_begun: Callable[[], bool],
) -> None:
    def handler() -> bool:
        with ThreadPoolExecutor(1) as elsewhere:
            return elsewhere.submit(copy_context().run, is_begun).result()

    assert not await undo.run(handler)


async def test_what_it_leaves_behind_for_later_does_not(is_begun: Callable[[], bool]) -> None:
    left: Context = await undo.run(copy_context)

    assert not await threads.run(left.run, is_begun)
