"""Synchronous handlers on the thread of a WSGI server that waits for their response.

A handler in a pool takes two switches between threads, which is longer than most handlers run. On
the waiting thread it takes none, like a view of Django. But then this thread can send nothing until
the handler ends: neither notifications, nor keepalive comments, nor the error of a call that took
too long. So only handlers that were fast in this process run there.

Each handler has a score, which is 0 at first, and at most MOST_SCORE:

| state of a handler | its score | where it runs |
|---|---|---|
| unproven | below PROVEN | pool |
| fast | PROVEN or more | waiting thread |

| a call | moves the score |
|---|---|
| that took less than FAST | up by 1 |
| that took longer, but hardly computed | down by PROVEN |
| that computed for longer than FAST, or took longer than SLOW | to 0 |

Processor time says how long a handler computes, whatever else the machine does. A handler that
waits for a service or a lock uses none, and only the clock shows how long that took; but the clock
also shows how long the thread waited for a processor. Handlers that wait do so in many of their
calls. On a loaded machine, single calls take long, and a fast handler keeps its place. A handler
that begins to wait loses it after four such calls, or after one that took longer than SLOW.

Time in the queue of the pool does not count: the thread that runs the handler takes the time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from time import monotonic, thread_time
from typing import Any, TypeVar

from django_mcp.runtime import pools
from django_mcp.transports.exchange import LoopExchange

T = TypeVar("T")

FAST = 0.1
"""Seconds that a call of a fast handler takes at most."""
SLOW = 1.0
"""Seconds after which a single call shows that its handler is not fast: a machine that only has
much to do does not delay a thread for so long."""
PROVEN = 10
"""Calls in a row that prove a handler to be fast."""
MOST_SCORE = 4 * PROVEN
MOST = 10_000
"""Handlers that have a score."""


def runner(exchange: LoopExchange, handler: Hashable) -> Callable[..., Awaitable[Any]]:
    """Return what runs a handler on this thread, or in the pool: the port of ``transports.http``.

    To be called for a call that sends nothing before its response.
    """
    return partial(_run, exchange, handler)


async def _run(
    exchange: LoopExchange, handler: Hashable, function: Callable[..., T], /, *args: Any
) -> T:
    loop = exchange.loop
    if _scores.get(handler, 0) >= PROVEN and pools.may_run_here(loop):
        return await pools.run_here(loop, _timed, handler, function, *args)
    return await pools.run(_timed, handler, function, *args)


def score_after(score: int, computed: float, elapsed: float) -> int:
    """Return the score after a call that took ``elapsed`` seconds, and computed for some of them.

    A call that computes is not interrupted for long in between, so ``computed`` alone decides
    whether it was slow for good.
    """
    if computed > FAST or elapsed > SLOW:
        return 0
    if elapsed > FAST:
        return max(score - PROVEN, 0)
    return min(score + 1, MOST_SCORE)


def _timed(handler: Hashable, function: Callable[..., T], /, *args: Any) -> T:
    """Call ``function``, and note how long it took. It runs on the thread of the handler."""
    began = monotonic()
    computed_before = thread_time()
    try:
        return function(*args)
    finally:
        computed = thread_time() - computed_before
        if len(_scores) >= MOST:  # Frame processors may make tools of any name.
            _scores.clear()
        # Without a lock: of two calls that end at once, one may not count.
        _scores[handler] = score_after(_scores.get(handler, 0), computed, monotonic() - began)


_scores: dict[Hashable, int] = {}
"""The score of each handler."""
