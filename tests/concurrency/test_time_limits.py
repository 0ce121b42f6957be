"""Limited: waits that end in time, that do not, and that others cancel."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp.concurrency import time_limits
from django_mcp.concurrency.time_limits import Limited


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "PRECISION", 0.0)


async def test_wait_that_ends_in_time_is_not_cancelled() -> None:
    with Limited(60.0):
        await asyncio.sleep(0)

    assert not time_limits._limits.here().expiry


async def test_wait_that_takes_longer_raises_a_timeout() -> None:
    with pytest.raises(TimeoutError), Limited(0.01):
        await asyncio.Event().wait()

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert not time_limits._limits.here().expiry


async def test_shorter_limit_inside_a_longer_one_expires_alone() -> None:
    with Limited(60.0):
        with pytest.raises(TimeoutError), Limited(0.01):
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_task_that_others_cancel_is_cancelled(seconds: float) -> None:
    waiting = asyncio.Event()

    async def wait() -> None:
        with Limited(seconds):
            waiting.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_error_of_the_body_is_raised() -> None:
    with pytest.raises(KeyError), Limited(60.0):
        raise KeyError
