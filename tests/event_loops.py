"""The event loop of a test: its clock, and for how long it is held."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def unblocked(limit: float = 0.1) -> AsyncIterator[None]:
    """Fails when what happens in the block holds the event loop for longer than ``limit``.

    The processor time of the loop's thread between two ticks counts, so that a busy machine
    makes no difference. What all the tests have made is no part of a collection meanwhile, as in
    a process that serves.
    """
    gc.freeze()
    longest, before = 0.0, time.thread_time()

    async def tick() -> None:
        nonlocal longest, before
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
            await asyncio.sleep(0.001)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0.01)
    longest, before = 0.0, time.thread_time()
    try:
        yield
    finally:
        await asyncio.sleep(0.01)
        ticker.cancel()
        gc.unfreeze()
    assert longest <= limit, f"The event loop was held for {longest * 1000:.0f} ms"


@asynccontextmanager
async def accelerated(factor: float = 40) -> AsyncIterator[None]:
    """Within it, the event loop's clock runs faster than the world's."""
    loop = asyncio.get_running_loop()
    real, began = loop.time, loop.time()

    async def spin() -> None:
        """The loop sleeps by the world's clock, so that it must not sleep for long."""
        while True:
            time.sleep(0.0005)
            await asyncio.sleep(0)

    loop.time = lambda: began + (real() - began) * factor  # type: ignore[method-assign]
    spinning = asyncio.ensure_future(spin())
    try:
        yield
    finally:
        spinning.cancel()
        del loop.time


async def outcome(awaitable: Awaitable[T]) -> T | BaseException:
    """What is returned or raised."""
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError) as error:
        return error
