"""Functions of event loops on the threads of a pool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from unittest.mock import patch

import pytest

from django_mcp.core.concurrency.loop_executor import LoopExecutor
from django_mcp.core.concurrency.loops import CONTROL
from django_mcp.core.concurrency.thread_pool import NotStarted, ThreadPool
from tests.waiting import SECONDS

TIMEOUT = SECONDS


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    with ThreadPool(1, "pool") as pool:
        yield pool


async def test_results_and_exceptions_are_those_of_the_function(pool: ThreadPool) -> None:
    loop, executor = asyncio.get_running_loop(), LoopExecutor(pool)
    assert await loop.run_in_executor(executor, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(executor, divmod, 7, 0)


@pytest.mark.parametrize("error", CONTROL, ids=lambda error: error.__name__)
async def test_exception_that_a_future_cannot_hold_is_a_runtime_error(
    pool: ThreadPool, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error

    running = asyncio.get_running_loop().run_in_executor(LoopExecutor(pool), fail)
    with pytest.raises(RuntimeError, match=error.__name__) as caught:
        await asyncio.wait_for(running, TIMEOUT)
    assert isinstance(caught.value.__cause__, error)


async def test_event_loop_copies_no_future(pool: ThreadPool) -> None:
    loop, executor = asyncio.get_running_loop(), LoopExecutor(pool)
    with patch.object(Future, "__init__", side_effect=AssertionError):
        assert await loop.run_in_executor(executor, threading.get_ident) != threading.get_ident()


async def test_cancelled_function_that_waits_for_a_thread_is_not_called(pool: ThreadPool) -> None:
    loop, executor = asyncio.get_running_loop(), LoopExecutor(pool)
    called: list[int] = []
    proceed = threading.Event()
    running = loop.run_in_executor(executor, proceed.wait, TIMEOUT)
    waiting = loop.run_in_executor(executor, called.append, 1)
    waiting.cancel()
    proceed.set()
    assert await running
    assert await loop.run_in_executor(executor, called.copy) == []


async def test_result_after_a_cancellation_is_ignored(pool: ThreadPool) -> None:
    loop, executor = asyncio.get_running_loop(), LoopExecutor(pool)
    has_begun, proceed = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        proceed.wait(TIMEOUT)

    running = loop.run_in_executor(executor, wait)
    await asyncio.to_thread(has_begun.wait, TIMEOUT)
    running.cancel()
    proceed.set()
    assert await loop.run_in_executor(executor, divmod, 7, 2) == (3, 1)
    assert running.cancelled()


async def test_function_without_a_thread_in_time_fails() -> None:
    loop = asyncio.get_running_loop()
    proceed = threading.Event()
    with ThreadPool(1, "pool", max_wait=0.05) as pool:
        executor = LoopExecutor(pool)
        running = loop.run_in_executor(executor, proceed.wait, TIMEOUT)
        with pytest.raises(NotStarted):
            await loop.run_in_executor(executor, int)
        proceed.set()
        assert await running


def test_thread_outlives_an_event_loop_that_was_closed(pool: ThreadPool) -> None:
    has_begun, proceed = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        proceed.wait(TIMEOUT)

    async def begin() -> None:
        running = asyncio.get_running_loop().run_in_executor(LoopExecutor(pool), wait)
        await asyncio.to_thread(has_begun.wait, TIMEOUT)
        assert not running.done()

    asyncio.run(begin())
    proceed.set()
    assert pool.submit(divmod, 7, 2).result(TIMEOUT) == (3, 1)
