"""Synchronous handlers on the thread of a WSGI server that waits for their response.

A handler in a pool takes two switches between threads, which is longer than most handlers run. On
the waiting thread it takes none, like a view of Django. But then this thread can send nothing until
the handler ends: neither notifications, nor keepalive comments, nor the error of a call that took
too long. So only handlers that were fast in this process run there.

| state of a handler | where it runs | what moves it |
|---|---|---|
| unproven | pool | the last of PROVEN calls in a row that took less than FAST: fast |
| fast | waiting thread | a call that took longer: unproven |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar

from django_mcp.runtime import pools, request_scope

T = TypeVar("T")

FAST = 0.1
"""Seconds that a call of a fast handler takes at most."""
PROVEN = 10
"""Calls in a row that prove a handler to be fast."""
MOST = 10_000
"""Handlers of which the calls are counted."""


async def run(
    loop: asyncio.AbstractEventLoop,
    handler: Hashable,
    function: Callable[..., T],
    /,
    *args: Any,
) -> T:
    """Run ``function`` for a handler: on this thread, or in the pool of handlers.

    To be called for a call that sends nothing before its response.
    """
    request_scope.begin_handler()
    count = _fast_calls.get(handler, 0)
    begin = monotonic()
    try:
        if count >= PROVEN and pools.may_run_here(loop):
            return await pools.run_here(loop, function, *args)
        return await pools.run(function, *args)
    finally:
        if monotonic() - begin > FAST:
            _fast_calls[handler] = 0
        elif count < PROVEN:
            if len(_fast_calls) >= MOST:  # Frame processors may make tools of any name.
                _fast_calls.clear()
            _fast_calls[handler] = count + 1


_fast_calls: dict[Hashable, int] = {}
"""For each handler, how many calls in a row were fast, up to PROVEN."""
