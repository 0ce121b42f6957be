"""An event loop that other threads run while they wait for it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from asgiref.local import Local

from django_mcp.core.concurrency import shared_loop
from django_mcp.core.concurrency.shared_loop import SharedLoop
from django_mcp.transports.wsgi.event_loop import EventLoopThread
from tests.waiting import SECONDS, wait_until


@pytest.fixture
def running() -> Iterator[EventLoopThread]:
    thread = EventLoopThread()
    yield thread
    thread.loop.call_soon_threadsafe(thread.loop.stop)
    wait_until(lambda: thread.has_ended)


class WaitingThread:
    """A helper that is told, and may do nothing."""

    def __init__(self) -> None:
        self.was_woken = threading.Event()

    def wake(self) -> None:
        self.was_woken.set()


def in_loop(running: EventLoopThread) -> int:
    """The thread that runs a callback which a thread without a loop passes on."""
    threads: list[int] = []
    running.loop.call_soon_threadsafe(lambda: threads.append(threading.get_ident()))
    wait_until(lambda: threads)
    return threads[0]


def test_task_of_a_thread_runs_on_it_to_its_end(running: EventLoopThread) -> None:
    threads = []

    async def work() -> None:
        for _ in range(3):
            assert asyncio.get_running_loop() is running.loop
            threads.append(threading.get_ident())
            await asyncio.sleep(0)

    running.run_here(running.create_task, work())
    assert threads == [threading.get_ident()] * 3
    assert in_loop(running) != threading.get_ident()


def test_task_that_waits_for_nothing_is_over_once_it_has_begun(running: EventLoopThread) -> None:
    steps: list[str] = []

    async def work() -> None:
        async with asyncio.timeout(SECONDS):  # It needs a task.
            steps.append("work")

    def begin() -> None:
        running.loop.call_soon(steps.append, "callback")
        assert running.loop.begin_task(work()).done()

    running.run_here(begin)
    assert steps == ["work", "callback"]


def test_task_begins_in_a_context_of_its_own(running: EventLoopThread) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    seen = []

    async def work() -> None:
        seen.append(variable.get())
        variable.set(2)

    def begin() -> None:
        variable.set(1)
        assert running.loop.begin_task(work()).done()
        seen.append(variable.get())

    running.run_here(begin)
    assert seen == [1, 1]
    assert variable.get() == 0


def test_task_that_waits_continues_on_the_thread_of_the_loop(running: EventLoopThread) -> None:
    threads = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        threads.append(threading.get_ident())

    running.run_here(running.create_task, work())
    wait_until(lambda: threads)
    assert threads != [threading.get_ident()]


def test_one_thread_at_a_time_runs_callbacks(running: EventLoopThread) -> None:
    steps: list[str] = []

    def slow() -> None:
        running.loop.call_soon_threadsafe(steps.append, "other")
        for _ in range(20_000):
            steps.append("slow")

    running.run_here(slow)
    wait_until(lambda: "other" in steps)
    assert steps[-1] == "other"


def test_loop_runs_while_a_thread_is_outside(running: EventLoopThread) -> None:
    threads = []

    async def work() -> None:
        task = asyncio.current_task()
        threads.append(running.loop.outside(in_loop, running))
        assert asyncio.current_task() is task
        threads.append(threading.get_ident())

    running.run_here(running.create_task, work())
    assert threads[0] != threads[1]
    assert threads[1] == threading.get_ident()


def test_helper_runs_what_other_threads_pass_on(running: EventLoopThread) -> None:
    helper = WaitingThread()
    threads: list[int] = []
    running.loop.add_helper(helper)
    running.loop.call_soon_threadsafe(lambda: threads.append(threading.get_ident()))
    assert helper.was_woken.wait(SECONDS)
    running.run_here()
    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("runs", [True, False])
def test_thread_that_leaves_loses_no_callback(running: EventLoopThread, runs: bool) -> None:
    helper = WaitingThread()
    called = threading.Event()
    running.loop.add_helper(helper)
    running.loop.call_soon_threadsafe(called.set)
    running.loop.remove_helper(helper, runs=runs)
    if runs:
        running.run_here()
    assert called.wait(SECONDS)


def test_callbacks_of_a_thread_run_in_their_order(running: EventLoopThread) -> None:
    """Although a helper takes some of them, and the thread of the loop others."""
    numbers: list[int] = []
    for number in range(100):
        if number % 10 == 0:
            running.loop.add_helper(WaitingThread())
        running.loop.call_soon_threadsafe(numbers.append, number)
    running.run_here()
    wait_until(lambda: len(numbers) == 100)
    assert numbers == sorted(numbers)


def test_endless_callbacks_are_left_to_the_thread_of_the_loop(running: EventLoopThread) -> None:
    threads = set()
    has_moved = threading.Event()

    def again() -> None:
        threads.add(threading.get_ident())
        if len(threads) < 2:
            running.loop.call_soon(again)
        else:
            has_moved.set()

    running.run_here(again)
    assert has_moved.wait(SECONDS)


def test_cancelled_callback_does_not_run(running: EventLoopThread) -> None:
    called: list[int] = []
    running.run_here(lambda: running.loop.call_soon(called.append, 1).cancel())
    running.loop.add_helper(WaitingThread())
    running.loop.call_soon_threadsafe(called.append, 2).cancel()
    running.run_here()
    assert called == []


def test_timer_of_another_thread_wakes_the_thread_of_the_loop(running: EventLoopThread) -> None:
    called = threading.Event()
    in_loop(running)
    running.run_here(running.loop.call_later, 0.01, called.set)
    assert called.wait(SECONDS)


def test_values_follow_their_task_to_another_thread(running: EventLoopThread) -> None:
    values: list[Any] = []
    local = Local()

    async def work() -> None:
        local.tenant = "a"
        inner = asyncio.create_task(read_later())
        await asyncio.sleep(0.01)
        values.append(local.tenant)
        await inner

    async def read_later() -> None:
        await asyncio.sleep(0.02)
        values.append(local.tenant)

    running.run_here(running.create_task, work())
    wait_until(lambda: len(values) == 2)
    assert values == ["a", "a"]
    assert not hasattr(local, "tenant")


def test_task_can_be_cancelled_from_another_thread(running: EventLoopThread) -> None:
    is_cancelled = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        tasks.extend(filter(None, [asyncio.current_task()]))
        try:
            await asyncio.sleep(SECONDS)
        except asyncio.CancelledError:
            is_cancelled.set()

    running.run_here(running.create_task, work())
    running.loop.call_soon_threadsafe(tasks[0].cancel)
    assert is_cancelled.wait(SECONDS)


def test_abandoned_generator_of_another_thread_is_closed(running: EventLoopThread) -> None:
    is_closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            is_closed.set()

    async def work() -> None:
        async for _ in numbers():
            break

    running.run_here(running.create_task, work())
    assert is_closed.wait(SECONDS)
    assert sys.get_asyncgen_hooks() == (None, None)


async def test_thread_that_runs_a_loop_does_not_run_another(running: EventLoopThread) -> None:
    threads: list[int] = []
    running.run_here(lambda: threads.append(threading.get_ident()))
    await asyncio.to_thread(wait_until, lambda: threads)
    assert threads != [threading.get_ident()]


def test_loop_in_debug_mode_runs_on_its_own_thread(running: EventLoopThread) -> None:
    threads: list[int] = []
    running.loop.set_debug(True)
    running.run_here(lambda: threads.append(threading.get_ident()))
    wait_until(lambda: threads)
    assert threads != [threading.get_ident()]


@pytest.mark.parametrize("use", [SharedLoop.run_here, SharedLoop.call_soon_threadsafe])
def test_closed_loop_runs_nothing(use: Any) -> None:
    loop = SharedLoop(shared_loop._do_nothing)
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        use(loop, shared_loop._do_nothing)
