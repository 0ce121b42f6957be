"""Cancelling calls that time out or whose client disconnects, and keepalive comments.

A timer or a task for each call would cost as much as its answer: one timer serves an event loop.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from django_mcp import conf
from django_mcp.frame.frame import Frame
from django_mcp.protocol.revisions import Feature
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.response import HttpExchange

TICK = 0.05
"""Seconds between two ticks. A call waits for a disconnect from its second tick on."""


class CallMonitor:
    """What ends one running call early. To be created by the task which answers it."""

    def __init__(self, receive: Receive, frame: Frame, exchange: HttpExchange) -> None:
        self.ended_by: str | None = None
        """The reason for which this monitor cancelled the call, if it did."""
        self._receive = receive
        self._frame = frame
        self._exchange = exchange
        settings, loop = conf.get(), exchange.loop
        # With the loop, because finding it costs a system call before Python 3.12.
        self.task = asyncio.current_task(loop)
        self._deadline = settings.handler_timeout
        self._keepalive = self._next_keepalive = settings.sse_ping_interval
        self._ticks = 0
        self._waiting: asyncio.Task[None] | None = None
        self._timer = _timers.get(loop) or _timers.setdefault(loop, MonitorTimer())
        self._timer.add(self, loop)

    def stop(self) -> None:
        self._timer.monitors.pop(self, None)
        if self._waiting is not None:
            self._waiting.cancel()

    def uncancel(self) -> None:
        """Withdraw the cancellation, so that the task can finish the response."""
        if self.task is not None:
            self.task.uncancel()

    def end(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by = reason
            self._frame.cancellation.request(reason)
            if self.task is not None:
                self.task.cancel()

    def tick(self) -> None:
        """Wait for a disconnect, check the time limit and send keepalive comments."""
        self._ticks += 1
        age = self._ticks * TICK
        if self._ticks == 2:
            self._waiting = self._exchange.loop.create_task(self._await_disconnect())
        if self._deadline is not None and age >= self._deadline:
            self.end("The call took too long")
        elif self._exchange.is_stalled:
            self._exchange.cut_off()
            self._leave()
        elif self._next_keepalive is not None and age >= self._next_keepalive:
            self._next_keepalive = age + (self._keepalive or age)
            self._exchange.keep_alive()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._exchange.disconnected()
        self._leave()

    def _leave(self) -> None:
        if self._frame.revision.has(Feature.DISCONNECT_CANCELS):
            self.end("The client closed the connection")


class MonitorTimer:
    """The timer of an event loop. It has no reference to its loop, so both can be collected."""

    def __init__(self) -> None:
        self.monitors: dict[CallMonitor, None] = {}
        self._is_running = False

    def add(self, monitor: CallMonitor, loop: asyncio.AbstractEventLoop) -> None:
        self.monitors[monitor] = None
        if not self._is_running:
            self._is_running = True
            loop.call_later(TICK, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_running = bool(self.monitors)
        if self._is_running:
            loop.call_later(TICK, self._tick, loop)
        for monitor in tuple(self.monitors):
            monitor.tick()


async def end_all(grace: float) -> None:
    """Give the running calls of this event loop ``grace`` seconds to finish, then cancel them."""
    timer = _timers.get(asyncio.get_running_loop())
    tasks = [] if timer is None else [each.task for each in timer.monitors if each.task]
    if timer is None or not tasks:
        return
    _, unfinished = await asyncio.wait(tasks, timeout=grace)
    if unfinished:
        for monitor in tuple(timer.monitors):
            monitor.end(STOPPING)
        # Their responses are sent, or stored for clients that reconnect.
        await asyncio.wait(unfinished, timeout=grace)


STOPPING = "The server is stopping"

_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, MonitorTimer] = WeakKeyDictionary()
