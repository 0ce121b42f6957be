"""The pool whose threads do not keep Python from exiting."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from django_mcp.core.concurrency.thread_pool import NotStarted, PoolEnded, ThreadPool
from tests.waiting import SECONDS

TIMEOUT = SECONDS


def test_results_and_exceptions_are_those_of_the_function() -> None:
    with ThreadPool(1, "pool") as pool:
        assert pool.submit(divmod, 7, 2).result(TIMEOUT) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 7, 0).result(TIMEOUT)


def test_idle_thread_is_used_again() -> None:
    with ThreadPool(4, "pool") as pool:
        idents = set()
        for _ in range(20):
            idents.add(pool.submit(threading.get_ident).result(TIMEOUT))
            time.sleep(0.01)
    assert len(idents) == 1


@pytest.mark.parametrize("times", [1, 3])
def test_functions_that_block_run_on_all_threads(times: int) -> None:
    together = threading.Barrier(4)
    with ThreadPool(4, "pool") as pool:
        for _ in range(times):
            waiting = [pool.submit(together.wait, TIMEOUT) for _ in range(4)]
            assert sorted(each.result(TIMEOUT) for each in waiting) == [0, 1, 2, 3]


def test_threads_of_two_event_loops_lose_no_function() -> None:
    def submit() -> int:
        return sum(pool.submit(int, 1).result(TIMEOUT) for _ in range(500))

    with ThreadPool(3, "pool") as pool, ThreadPool(4, "callers") as callers:
        assert [each.result(TIMEOUT) for each in [callers.submit(submit) for _ in range(4)]] == [
            500
        ] * 4


def test_waiting_function_can_be_withdrawn() -> None:
    called: list[int] = []
    proceed = threading.Event()
    with ThreadPool(1, "pool") as pool:
        blocking = pool.submit(proceed.wait, TIMEOUT)
        waiting = pool.submit(called.append, 1)
        assert waiting.cancel()
        proceed.set()
        assert blocking.result(TIMEOUT)
    assert called == []


def test_waiting_functions_are_called_before_the_pool_ends() -> None:
    called: list[int] = []
    with ThreadPool(1, "pool") as pool:
        for number in range(5):
            pool.submit(called.append, number)
    assert called == [*range(5)]
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(int)


def test_shutdown_can_withdraw_waiting_functions() -> None:
    proceed = threading.Event()
    pool = ThreadPool(1, "pool")
    pool.submit(proceed.wait, TIMEOUT)
    waiting: Future[int] = pool.submit(int)
    pool.shutdown(wait=False, cancel_futures=True)
    proceed.set()
    assert waiting.cancelled()


def test_shutdown_waits_no_longer_than_its_timeout() -> None:
    proceed = threading.Event()
    pool = ThreadPool(2, "pool")
    for _ in range(2):
        pool.submit(proceed.wait, TIMEOUT)
    began = time.monotonic()
    pool.shutdown(timeout=0.1)
    assert time.monotonic() - began < TIMEOUT / 2
    proceed.set()


def test_process_ends_while_a_function_runs() -> None:
    script = """
import asyncio, time
from django.conf import settings
settings.configure()
from django_mcp.runtime import pools

async def main():
    running = asyncio.create_task(pools.run(time.sleep, 60))
    await asyncio.sleep(0.1)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=SECONDS)


def test_function_that_is_nearly_done_is_finished_when_the_process_ends() -> None:
    script = """
import asyncio, time
from django.conf import settings
settings.configure()
from django_mcp.runtime import pools

def write():
    time.sleep(0.3)
    print("written")

async def main():
    running = asyncio.create_task(pools.run(write))
    await asyncio.sleep(0.1)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=SECONDS)
    assert done.stdout == b"written\n"


def test_function_that_waits_too_long_is_not_called() -> None:
    called: list[int] = []
    proceed = threading.Event()
    with ThreadPool(1, "pool", max_wait=0.05) as pool:
        pool.submit(proceed.wait, TIMEOUT)
        waiting = pool.submit(called.append, 1)
        with pytest.raises(NotStarted):
            waiting.result(TIMEOUT)
        proceed.set()
        assert pool.submit(int).result(TIMEOUT) == 0
    assert called == []


def test_function_that_has_begun_in_time_is_not_withdrawn() -> None:
    with ThreadPool(1, "pool", max_wait=0.05) as pool:
        first = pool.submit(time.sleep, 0.02)
        second = pool.submit(time.sleep, 0.3)
        third = pool.submit(time.sleep, 0)
        assert first.result(TIMEOUT) is None
        assert second.result(TIMEOUT) is None
        with pytest.raises(NotStarted):
            third.result(TIMEOUT)


def test_function_added_while_a_thread_wakes_fails_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A busy thread takes the function that the other one was woken for; both have one caller."""
    may_look = threading.Event()
    proceed = threading.Event()
    end_first = threading.Event()
    with ThreadPool(2, "pool", max_wait=0.05) as pool:
        first: Future[bool] = Future()
        second: Future[bool] = Future()
        third: Future[int] = Future()
        pool.add((first, end_first.wait, (TIMEOUT,), {}))
        assert wait_until(first.running)
        look = pool._next

        def look_late(*args: Any, was_woken: bool) -> Any:
            if was_woken:
                may_look.wait(TIMEOUT)
            return look(*args, was_woken=was_woken)

        monkeypatch.setattr(pool, "_next", look_late)
        pool.add((second, proceed.wait, (TIMEOUT,), {}), "caller")
        end_first.set()
        assert wait_until(second.running)
        pool.add((third, int, (), {}), "caller")
        may_look.set()
        try:
            with pytest.raises(NotStarted):
                third.result(TIMEOUT / 2)
        finally:
            proceed.set()


def wait_until(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


class Blocked:
    """Functions that occupy threads until they may proceed."""

    def __init__(self, pool: ThreadPool) -> None:
        self.pool = pool
        self.running: list[str] = []
        self.proceed = threading.Event()

    def begin(self, caller: str | None, number: int) -> None:
        for _ in range(number):
            self.pool.add((Future[None](), self._block, (caller,), {}), caller)

    def until(self, *running: str) -> None:
        """Wait until these callers, and no others, have the threads."""
        until = time.monotonic() + TIMEOUT
        while sorted(self.running) != sorted(running) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.02)
        assert sorted(self.running) == sorted(running)

    def _block(self, caller: str) -> None:
        self.running.append(caller)
        self.proceed.wait(TIMEOUT)


def test_one_caller_never_holds_more_than_half_of_the_threads() -> None:
    with ThreadPool(6, "pool") as pool:
        blocked = Blocked(pool)
        blocked.begin("ann", 20)
        blocked.until(*["ann"] * 3)
        blocked.begin("bob", 20)
        blocked.until(*["ann"] * 3, *["bob"] * 2)
        blocked.begin("eve", 20)
        blocked.until(*["ann"] * 3, *["bob"] * 2, "eve")
        blocked.proceed.set()


def test_caller_has_a_thread_of_a_pool_with_one() -> None:
    with ThreadPool(1, "pool") as pool:
        blocked = Blocked(pool)
        blocked.begin("ann", 1)
        blocked.until("ann")
        blocked.proceed.set()


def test_waiting_functions_are_started_one_of_each_caller_in_turn() -> None:
    started: list[str] = []
    proceed = threading.Event()
    with ThreadPool(1, "pool") as pool:
        pool.submit(proceed.wait, TIMEOUT)
        for caller in ("ann", "ann", "ann", "bob", "eve", "bob"):
            pool.add((Future[None](), started.append, (caller,), {}), caller)
        proceed.set()
    assert started == ["ann", "bob", "eve", "ann", "bob", "ann"]


def test_functions_without_a_caller_have_all_threads() -> None:
    together = threading.Barrier(4)
    with ThreadPool(4, "pool") as pool:
        waiting = [pool.submit(together.wait, TIMEOUT) for _ in range(4)]
        assert sorted(future.result(TIMEOUT) for future in waiting) == [0, 1, 2, 3]


def test_waiting_functions_of_a_caller_at_its_limit_are_called_before_the_pool_ends() -> None:
    called: list[int] = []
    with ThreadPool(4, "pool") as pool:
        for number in range(50):
            pool.add((Future[None](), called.append, (number,), {}), "ann")
    assert sorted(called) == [*range(50)]


def test_function_is_rejected_while_too_many_wait() -> None:
    proceed = threading.Event()
    with ThreadPool(2, "pool", max_waiting=1) as pool:
        for _ in range(2):
            pool.submit(proceed.wait, TIMEOUT)
        waiting = pool.submit(int)
        with pytest.raises(NotStarted):
            pool.submit(int)
        proceed.set()
        assert waiting.result(TIMEOUT) == 0


def refuse(thread: threading.Thread) -> None:
    """Stands for ``Thread.start`` while Python exits."""
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_functions_wait_for_existing_threads_where_none_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()
    with ThreadPool(4, "pool", max_wait=TIMEOUT) as pool:
        blocked = pool.submit(released.wait, TIMEOUT)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        waiting = [pool.submit(int, number) for number in range(3)]
        released.set()
        assert blocked.result(TIMEOUT)
        assert [future.result(TIMEOUT) for future in waiting] == [0, 1, 2]


def test_function_fails_at_once_where_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool(4, "pool")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(PoolEnded, match="No thread"):
        pool.submit(int, 1)


def test_function_that_its_caller_was_told_is_not_started_never_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system has too many threads for a moment."""
    called: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadPool(2, "pool", max_wait=TIMEOUT) as pool:
        with monkeypatch.context() as limit:
            limit.setattr(threading.Thread, "start", refuse)
            for caller in (None, "ann"):
                with pytest.raises(NotStarted):
                    pool.add((Future[None](), called.append, ("first",), {}), caller)
        pool.submit(called.append, "second").result(TIMEOUT)
    assert called == ["second"]
