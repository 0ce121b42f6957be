"""Deleting what has expired: in small steps, off the path of requests, by one worker at a time.

Each worker has a timer. The one whose timer fires first claims the round, so that the work does
not grow with the number of workers, and goes on when one of them dies.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from django.apps import apps

from django_mcp.core.concurrency.loop_timer import LoopTimer
from django_mcp.runtime import pools
from django_mcp.runtime.store_operations import StoreUnavailable

logger = logging.getLogger("django_mcp")

Step = Callable[[float], Awaitable[object]]
"""Deletes what has expired, with pauses of so many seconds between its statements."""

STEPS: list[Step] = []
"""Port: the steps of a round. The configurations of apps have others in ``prune_mcp``."""
CLAIMS: list[Callable[[str, float], Awaitable[bool]]] = []
"""Port: whether this worker is the only one that claims a name within so many seconds."""

INTERVAL = 60.0
"""Seconds from a round to the next: what has expired is out of use already, and each round is a few
statements where nothing has."""

PAUSE = 0.05
"""Seconds between two statements that delete: they leave most of the database to requests."""
ROUND = "housekeeping"
THREADS = "housekeeping"


async def run() -> bool:
    """Do a round, unless another worker has done one just before; return whether it was done."""
    try:
        # Half of it, because the timers of the workers differ.
        for claim in CLAIMS:
            if not await claim(ROUND, INTERVAL / 2):
                return False
        async with asyncio.timeout(INTERVAL / 2):
            for step in [*STEPS, *_steps_of_apps()]:
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


def _steps_of_apps() -> list[Step]:
    configs = [config for config in apps.get_app_configs() if hasattr(config, "prune_mcp")]
    return [_on_thread(config.prune_mcp) for config in configs]


def _on_thread(prune: Callable[[], object]) -> Step:
    async def step(_: float) -> object:
        return await pools.run_in_threads_of(THREADS, prune)

    return step


def _pause() -> float:
    return INTERVAL * random.uniform(0.5, 1.0)


_timer = LoopTimer(run, pause=_pause, context=pools.context_of_nobody)
start = _timer.start
"""Begin with rounds on the running event loop, unless it has them."""
