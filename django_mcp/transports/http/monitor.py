"""Looking after calls that take a while: is the client still there, is there still time.

Most calls are answered before anybody would look. A timer or a task for each of them would
cost as much as its answer, so one timer for all walks over those that are still running.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from django_mcp.frame.frame import Frame
from django_mcp.protocol.revisions import Feature
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.response import HttpExchange

TICK = 0.05
"""Seconds between two rounds; a call is first looked at in the second round that it sees."""


class CallMonitor:
    """One running call, and what ends it early. To be used by the task which answers it."""

    __slots__ = (
        "_answering",
        "_deadline",
        "_exchange",
        "_frame",
        "_keepalive",
        "_mine",
        "_next_sign",
        "_receive",
        "_rounds",
        "_task",
        "ended_by",
    )

    def __init__(
        self,
        receive: Receive,
        frame: Frame,
        exchange: HttpExchange,
        *,
        timeout: float | None,
        keepalive: float | None,
    ) -> None:
        self.ended_by: str | None = None
        """Why the call was cancelled by this watch, if it was."""
        self._receive = receive
        self._frame = frame
        self._exchange = exchange
        loop = exchange.loop
        # Given the loop, because to find it costs a system call before Python 3.12.
        self._answering = asyncio.current_task(loop)
        self._deadline = timeout
        self._keepalive = self._next_sign = keepalive
        self._rounds = 0
        self._task: asyncio.Task[None] | None = None
        self._mine = _timer_of(loop)
        self._mine.add(self, loop)

    def stop(self) -> None:
        """Stop looking: the answer is there, or never will be."""
        self._mine.discard(self)
        if self._task is not None:
            self._task.cancel()

    def uncancel(self) -> None:
        """Take the cancellation back, so that the task can end the response properly."""
        if self._answering is not None:
            self._answering.uncancel()

    def end(self, reason: str) -> None:
        """Cancel the call."""
        if self.ended_by is None:
            self.ended_by = reason
            self._frame.cancellation.request(reason)
            if self._answering is not None:
                self._answering.cancel()

    def look(self) -> None:
        """One round: start looking at the connection, give signs of life, mind the time."""
        self._rounds += 1
        age = self._rounds * TICK
        if self._rounds == 2:
            self._task = self._exchange.loop.create_task(self._await_disconnect())
        if self._deadline is not None and age >= self._deadline:
            self.end("The call took too long")
        elif self._next_sign is not None and age >= self._next_sign:
            self._next_sign = age + (self._keepalive or age)
            self._exchange.keep_alive()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._exchange.disconnected()
        if self._frame.revision.has(Feature.DISCONNECT_CANCELS):
            self.end("The client closed the connection")


class MonitorTimer:
    """The one timer of an event loop, which runs while there is anything to look at.

    It keeps no reference to its loop, by whose end it is forgotten.
    """

    def __init__(self) -> None:
        self._watches: dict[CallMonitor, None] = {}
        self._is_walking = False

    def add(self, watch: CallMonitor, loop: asyncio.AbstractEventLoop) -> None:
        """Look at this call from now on."""
        self._watches[watch] = None
        if not self._is_walking:
            self._is_walking = True
            loop.call_later(TICK, self._walk, loop)

    def discard(self, watch: CallMonitor) -> None:
        """Look at this call no more."""
        self._watches.pop(watch, None)

    def _walk(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_walking = bool(self._watches)
        if self._is_walking:
            loop.call_later(TICK, self._walk, loop)
        for watch in tuple(self._watches):
            watch.look()


_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, MonitorTimer] = WeakKeyDictionary()


def _timer_of(loop: asyncio.AbstractEventLoop) -> MonitorTimer:
    rounds = _timers.get(loop)
    if rounds is None:
        rounds = _timers[loop] = MonitorTimer()
    return rounds
