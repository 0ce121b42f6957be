"""Cancelling calls that time out or whose client disconnects, and keepalive comments.

| state of a call | meaning | who moves it |
|---|---|---|
| new | it has run for less than two ticks; most calls are over by then | ``tick``: watched |
| watched | a task waits for the disconnect | ``end``: ended; ``stop``: over |
| ended | its task was cancelled by ``end``, for the reason ``ended_by`` | ``uncancel``, ``stop`` |
| over | it is not in flight any more | nobody |
"""

from __future__ import annotations

import asyncio

from django_mcp import conf
from django_mcp.dispatch.calls_in_flight import TICK, Call, calls_in_flight
from django_mcp.frame.frame import Frame
from django_mcp.protocol.revisions import Feature
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.response import HttpExchange

SILENT = 1.0
"""Seconds after which a handler that waits for a client which does not read lends its thread."""
NOT_READ = "The client does not read the response"


class CallMonitor(Call):
    """What ends one running call early. To be created by the task which answers it.

    Raises TooManyRequests or ServerBusy where the call is one too many.
    """

    ended_by: str | None = None
    """The reason for which this monitor cancelled the call, if it did."""
    _ticks = 0
    _keepalive_at = 0.0
    """The age in seconds at which the next keepalive comment is sent."""
    _waiting: asyncio.Task[None] | None = None

    def __init__(self, receive: Receive, frame: Frame, exchange: HttpExchange) -> None:
        self._receive = receive
        self.frame = frame
        self._exchange = exchange
        exchange.answers = frame.message
        loop = exchange.loop
        # With the loop, because finding it costs a system call before Python 3.12.
        self.task = asyncio.current_task(loop)
        self._in_flight = calls_in_flight(loop)
        self._in_flight.begin(self, conf.get(), loop)

    def stop(self) -> None:
        self._in_flight.end(self)
        if self._waiting is not None:
            self._waiting.cancel()

    def uncancel(self) -> None:
        """Withdraw the cancellation, so that the task can finish the response."""
        if self.task is not None:
            self.task.uncancel()

    def end(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by = reason
            self.frame.cancellation.request(reason)
            if self.task is not None:
                self.task.cancel()

    def tick(self) -> None:
        """Check the time limit and the client; wait for a disconnect from the second tick on."""
        self._ticks += 1
        age = self._ticks * TICK
        if self._ticks == 2:
            self._waiting = self._exchange.loop.create_task(self._await_disconnect())
        limit = conf.get().handler_timeout
        if limit is not None and age >= limit:
            self.end("The call took too long")
            return
        if self._exchange.silence > SILENT:
            self._exchange.release_thread()
        if self._exchange.is_stalled:
            self._give_client_up()
        else:
            self._keep_alive(age)

    def _give_client_up(self) -> None:
        self._exchange.cut_off()
        if not self._exchange.may_be_resumed:
            self.end(NOT_READ)

    def _keep_alive(self, age: float) -> None:
        interval = conf.get().sse_ping_interval
        if interval is not None and age >= (self._keepalive_at or interval):
            self._keepalive_at = age + interval
            self._exchange.keep_alive()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._exchange.disconnected()
        if self.frame.revision.has(Feature.DISCONNECT_CANCELS):
            self.end("The client closed the connection")
