from __future__ import annotations

import asyncio
import sys

import pytest

from django_mcp.core.concurrency.coroutines import result_of, start_task


async def value() -> int:
    return 1


async def test_result_of_a_coroutine_is_returned() -> None:
    assert await result_of(value()) == 1


async def test_task_returns_the_result() -> None:
    assert await start_task(value()) == 1
    assert await start_task(value(), asyncio.get_running_loop()) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
async def test_task_that_waits_for_nothing_is_done_at_once() -> None:
    assert start_task(value()).done()


async def test_task_knows_itself_from_its_beginning() -> None:
    async def current() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    task = start_task(current())
    assert await task is task
