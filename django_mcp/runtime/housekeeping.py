"""Delete expired rows: in small steps, off the path of requests, by one worker at a time.

Each worker has a timer. The first one to fire claims the round, so that the work does not grow with
the number of workers, and goes on when one of them dies.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from django_mcp.core.concurrency.loops import LoopTimer
from django_mcp.core.ports import Port
from django_mcp.core.server.extensions import INSTALLED
from django_mcp.runtime import pools
from django_mcp.runtime.store_operations import StoreUnavailable

logger = logging.getLogger("django_mcp")

Step = Callable[[float], Awaitable[object]]
"""Deletes expired rows, with pauses of so many seconds between its statements."""

STEPS: Port[Sequence[Step]] = Port("deletes what has expired")
"""The steps of a round. Extensions have others in ``rounds`` and ``prune``."""
CLAIM: Port[Callable[[str, float], Awaitable[bool]]] = Port("claims rounds")
"""Whether this worker is the only one that claims a name within so many seconds."""

INTERVAL = 60.0
"""Seconds from a round to the next: expired rows are out of use already, and a round without any is
a few statements."""

PAUSE = 0.05
"""Seconds between two statements that delete: they leave most of the database to requests."""
ROUND = "housekeeping"
THREADS = "housekeeping"


async def run() -> bool:
    """Do a round, unless another worker has done one just before; return whether it was done."""
    try:
        # Half of it, because the timers of the workers differ.
        if not await CLAIM.get()(ROUND, INTERVAL / 2):
            return False
        async with asyncio.timeout(INTERVAL / 2):
            for step in [*STEPS.get(), *steps_of_extensions()]:
                await _try(step)
    except (StoreUnavailable, TimeoutError):
        return False  # The next round goes on.
    return True


async def _try(step: Step) -> None:
    try:
        await step(PAUSE)
    except (StoreUnavailable, TimeoutError):
        raise
    except Exception:
        logger.exception("What has expired could not be deleted")


def steps_of_extensions() -> list[Step]:
    steps = [step for one in INSTALLED.all for step in one.rounds]
    prunes = [one.prune for one in INSTALLED.all if one.prune is not None]
    return steps + [partial(_prune_on_thread, prune) for prune in prunes]


async def _prune_on_thread(prune: Callable[[], object], _: float) -> object:
    return await pools.run_in_threads_of(THREADS, prune)


def _pause() -> float:
    return INTERVAL * random.uniform(0.5, 1.0)


_timer = LoopTimer(run, pause=_pause, context=pools.context_of_nobody)
start = _timer.start
"""Begin with rounds on the running event loop, unless it has them."""
