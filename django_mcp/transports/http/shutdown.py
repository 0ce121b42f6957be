"""The end of a process: its streams end, its calls are finished, further ones are rejected.

Tasks that run in the process, and notifications that it has accepted, are waited for as calls are.

Each event loop has its own, which begins when the process is told to stop.

| state | meaning | who moves it |
|---|---|---|
| serving | calls are accepted | ``begin``: late |
| late | idle streams end; calls on their way are still accepted | after LATE seconds: closed |
| closed | calls are rejected | SHUTDOWN_TIMEOUT seconds after ``begin``: cut off |
| cut off | calls are cancelled, and have ANSWER_WITHIN seconds to say so | then streams end |

The task of ``begin`` is done as soon as nothing is left to wait for. ``withdraw`` leads back to
serving from each state.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp import conf
from django_mcp.core.concurrency.loops import PerLoop
from django_mcp.core.dispatch.calls_in_flight import calls_in_flight
from django_mcp.pubsub import channel_layer
from django_mcp.runtime import background
from django_mcp.transports.http import open_streams

STOPPING = "The server is stopping"
LATE = 1.0
"""Seconds that further calls are accepted: a request that was on its way when the process was
told to stop is answered, since no proxy would send it again."""
TICK = 0.05
"""Seconds between two looks at unfinished calls."""
ANSWER_WITHIN = 2.0
"""Seconds for cancelled calls to send their errors, or store them for clients that reconnect."""


class Shutdown:
    def __init__(self) -> None:
        self._ending: asyncio.Task[None] | None = None
        self._closing: asyncio.TimerHandle | None = None

    @property
    def has_begun(self) -> bool:
        return self._ending is not None

    def begin(self) -> asyncio.Task[None]:
        """Begin, unless it has begun; the task is done when nothing is served any more."""
        if self._ending is None:
            self._ending = background.create_task(self._end())
        return self._ending

    def withdraw(self) -> None:
        """Serve again in this event loop."""
        self._ending = None
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
            calls_in_flight(asyncio.get_running_loop()).open()
            open_streams.set_ending(are_ending=False)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        calls = calls_in_flight(loop)
        self._closing = loop.call_later(LATE, calls.close)
        open_streams.set_ending(are_ending=True)
        if await _unfinished(conf.get().shutdown_timeout):
            for call in tuple(calls.calls):
                call.end(STOPPING)
            for task in background.accepted_tasks():
                task.cancel()
            if await _unfinished(ANSWER_WITHIN):
                open_streams.end_all()
        await background.finish()


async def _unfinished(seconds: float) -> set[asyncio.Task[Any]]:
    """The tasks of calls, streams and other work that are not finished within this time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # Each task that was seen: a call is no longer in flight while its response is sent.
    seen: set[asyncio.Task[Any]] = set()
    while True:
        of_calls = [call.task for call in calls_in_flight(loop).calls]
        of_streams = [stream.task for stream in open_streams.here().streams]
        seen |= {task for task in of_calls + of_streams if task is not None}
        seen |= background.accepted_tasks()
        unfinished = {task for task in seen if not task.done()}
        is_done = not unfinished and not background.has_accepted_threads()
        if is_done or loop.time() >= deadline:
            return unfinished
        if channel_layer.shared() is None:
            # Only this process could receive the response, and it accepts no connections.
            for call in tuple(calls_in_flight(loop).calls):
                call.abandon_requests(STOPPING)
        await asyncio.sleep(TICK)


here = PerLoop(Shutdown).of
"""The shutdown of an event loop."""
