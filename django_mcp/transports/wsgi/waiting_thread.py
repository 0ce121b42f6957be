"""Synchronous handlers on the thread of a WSGI server that waits for their response.

A handler in a pool takes two switches between threads, which is longer than most handlers run. On
the waiting thread it takes none, like a view of Django. But then this thread can send nothing until
the handler ends: neither notifications, nor keepalive comments, nor the error of a call that took
too long. So only handlers that were fast in this process run there.

| state of a handler | where it runs | transitions |
|---|---|---|
| unproven | pool | the last of PROVEN fast calls in a row: fast |
| fast | waiting thread | a call that was not fast, or sent something: unproven |

A fast call uses at most MAX_PROCESSOR_TIME, and takes at most MAX_DURATION. Processor time says how
long a handler computes, whatever else the machine does. A handler that waits for a service or a
lock uses none, and only the clock shows how long it takes. But the clock also counts how long the
thread waits for a processor, or for the lock of the interpreter: with sixteen callers, a handler
that computes for 5 ms takes 100 ms in half of its calls. So the clock has a greater limit, which is
still far below the times after which this thread would have to send something. The thread that runs
the handler takes the time: that in the queue of the pool does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic, thread_time
from typing import Any, TypeVar

from django_mcp.runtime import pools
from django_mcp.transports.loop_exchange import LoopExchange

T = TypeVar("T")

MAX_PROCESSOR_TIME = 0.1
"""Seconds of processor time that a fast call uses at most."""
MAX_DURATION = 0.5
"""Seconds that a fast call takes at most."""
PROVEN = 10
"""Calls in a row that prove a handler to be fast."""
MOST = 10_000
"""Handlers with counted calls."""


async def run(
    exchange: LoopExchange, handler: Hashable, function: Callable[..., T], /, *args: Any
) -> T:
    """Run a handler on this thread, or in the pool; for calls that send nothing before their
    response.
    """
    loop = exchange.loop
    try:
        if _fast_calls.get(handler, 0) >= PROVEN and pools.may_run_here(loop):
            return await pools.run_here(loop, _timed, handler, function, *args)
        return await pools.run(_timed, handler, function, *args)
    finally:
        if exchange.written_by_threads:
            _fast_calls[handler] = 0
            # Messages that the thread has passed to the loop precede the response.
            written = loop.create_future()
            loop.call_soon_threadsafe(written.set_result, None)
            await written


def _timed(handler: Hashable, function: Callable[..., T], /, *args: Any) -> T:
    """Call ``function``, and note how long it took. It runs on the thread of the handler."""
    began = monotonic()
    processor_time = thread_time()
    try:
        return function(*args)
    finally:
        is_short = monotonic() - began <= MAX_DURATION
        is_fast = is_short and thread_time() - processor_time <= MAX_PROCESSOR_TIME
        if len(_fast_calls) >= MOST:  # Frame processors may make tools of any name.
            _fast_calls.clear()
        # Without a lock: of two calls that end at once, one may not count.
        _fast_calls[handler] = min(_fast_calls.get(handler, 0) + 1, PROVEN) if is_fast else 0


_fast_calls: dict[Hashable, int] = {}
"""For each handler, how many calls in a row were fast, up to PROVEN."""
