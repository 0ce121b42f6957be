"""start_task: coroutines that end, wait, fail or are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp.transports.http.response import start_task


async def test_coroutine_that_never_waits_runs_without_a_task() -> None:
    done = []

    async def work() -> None:
        done.append("all")

    assert start_task(work(), asyncio.get_running_loop()) is None
    assert done == ["all"]


async def test_coroutine_that_waits_continues_in_a_task() -> None:
    done: list[int | str] = []
    gates = [asyncio.Event(), asyncio.Event()]

    async def work() -> None:
        for number, gate in enumerate(gates):
            done.append(number)
            await gate.wait()
            await asyncio.sleep(0)
        done.append("all")

    task = start_task(work(), asyncio.get_running_loop())
    assert done == [0]
    for gate in gates:
        gate.set()
    assert task is not None
    await task

    assert done == [0, 1, "all"]


async def test_error_before_the_first_wait_is_raised_to_the_caller() -> None:
    async def work() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        start_task(work(), asyncio.get_running_loop())


async def test_error_after_the_first_wait_is_raised_by_the_task() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ConnectionError

    task = start_task(work(), asyncio.get_running_loop())

    assert task is not None
    with pytest.raises(ConnectionError):
        await task


async def test_error_of_an_awaited_future_can_be_caught() -> None:
    caught = []
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await failing
        except ConnectionError as error:
            caught.append(error)
            await asyncio.sleep(0)

    task = start_task(work(), asyncio.get_running_loop())
    error = ConnectionError()
    failing.set_exception(error)
    assert task is not None
    await task

    assert caught == [error]


async def test_cancelled_coroutine_runs_its_cleanup() -> None:
    tidied = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append("all")

    task = start_task(work(), asyncio.get_running_loop())
    assert task is not None
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert tidied == ["all"]
