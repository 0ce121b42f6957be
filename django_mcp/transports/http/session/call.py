"""One call of a session over HTTP: its task, and what ends it.

In a session a closed connection cancels nothing (T-HTTP-28), so each call has a task of its own.
The notification which cancels it may reach another worker: a long call subscribes to its session.

| state | meaning | who moves it |
|---|---|---|
| in flight | its id is taken; its task has not begun | ``answer``: running; ``end``: ended |
| running | its monitor looks after it | the handler: answered; ``cancel``, ``end`` |
| given up | its client has cancelled it, and needs no response | ``cancel`` |
| ended | it took too long, or its session has ended: an error is its response | ``end`` |
| answered | its id is free; the response is being sent | nobody |
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto

from django_mcp import stores
from django_mcp.concurrency.coroutines import start_task
from django_mcp.concurrency.loops import PerLoop
from django_mcp.dispatch.calls_in_flight import TICK
from django_mcp.dispatch.reply import Reply, error_reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Session
from django_mcp.log import log_repeated
from django_mcp.protocol.errors import Cancelled, McpError
from django_mcp.protocol.jsonrpc import RequestId
from django_mcp.pubsub import bus, publisher
from django_mcp.runtime import background, pools, request_scope
from django_mcp.runtime.request_scope import Scope
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.transports import session_engine
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange
from django_mcp.transports.session_engine import InFlightRequest, InFlightRequests, SessionEngine

READ_EVERY = 4.0
"""Seconds after which a running call reads its session, which says that it is used, and whether
another worker has cancelled the call: the hint of that may be lost."""
ENDED = "The session has ended"
CLIENT_CANCELLED = session_engine.CLIENT_CANCELLED
TAKEN_OVER = "The caller of the session has logged in"


class _State(Enum):
    IN_FLIGHT = auto()
    RUNNING = auto()
    GIVEN_UP = auto()
    ENDED = auto()


class SessionCall(InFlightRequest):
    def __init__(
        self, session: Session, request_id: RequestId, frame: Frame, exchange: SessionExchange
    ) -> None:
        super().__init__(session.address, request_id)
        self._in_flight = in_flight_in(exchange.loop)
        self.session_id = session.id
        self.principal = session.principal
        self.exchange = exchange
        exchange.request_id = request_id
        self.monitor: SessionCallMonitor | None = None
        """None before it runs, and after that."""
        self.task: asyncio.Task[None] | None = None
        self._frame = frame
        self._began_at = stores.sessions().now()
        self._state = _State.IN_FLIGHT

    def is_cancelled_in(self, session: Session) -> bool:
        """Whether another worker has noted that this request is cancelled, since it began."""
        return session.cancelled.get(self.key, 0.0) >= self._began_at

    def cancel(self, reason: str | None) -> None:
        """Cancel it for its client, who needs no response."""
        self._state = _State.GIVEN_UP
        self._end_running(reason or CLIENT_CANCELLED)

    def end(self, reason: str) -> None:
        """Cancel it for another reason."""
        if self._state is not _State.GIVEN_UP:
            self._state = _State.ENDED
        self._end_running(reason)

    def _end_running(self, reason: str) -> None:
        if self.monitor is not None:
            self.monitor.end(reason)

    async def answer(
        self, engine: SessionEngine, receive: Receive, *, is_in_batch: bool = False
    ) -> None:
        """Answer while the connection is of use; InvalidRequest if the call must not begin."""
        self._in_flight.begin(self)
        # The calls of a batch do not share a scope: its thread would end with the first of them.
        has_own = is_in_batch and not pools.is_in_middleware_thread()
        scope = None if has_own else request_scope.hand_over()
        # All requests of a batch are in flight at once, whether they wait for something or not.
        answering = self._answer(engine, receive, scope)
        loop = self.exchange.loop
        task = loop.create_task(answering) if is_in_batch else start_task(answering, loop)
        if not task.done():
            self.task = task
        await self.exchange.until_over(task)
        if not task.done() and pools.is_in_middleware_thread():
            await asyncio.wait([task])  # The handler runs on the thread of the middleware.

    async def _answer(self, engine: SessionEngine, receive: Receive, scope: Scope | None) -> None:
        scope = request_scope.enter() if scope is None else scope
        try:
            reply = await self._monitored(engine, receive)
            if self._state is _State.GIVEN_UP:
                await self.exchange.finish_cancelled(reply.message)
            else:
                await self.exchange.answer(reply.message, reply.error, self._frame.revision)
        finally:
            # Here, and not in a callback of the task, which runs one iteration of the loop later.
            self.exchange.release()
            if (closing := scope.leave()) is not None:
                await closing

    async def _monitored(self, engine: SessionEngine, receive: Receive) -> Reply:
        try:
            self.monitor = monitor = SessionCallMonitor(self, receive, self._frame)
        except McpError as error:
            self._in_flight.end(self)
            return error_reply(self._frame, error)
        try:
            if self._state is _State.IN_FLIGHT:
                self._state = _State.RUNNING
            else:
                monitor.end(CLIENT_CANCELLED)
                await asyncio.sleep(0)  # Here the cancellation takes effect, before any handler.
            reply = await engine.answer(self._frame)
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            reply = error_reply(self._frame, Cancelled())
        finally:
            monitor.stop()
            self._in_flight.end(self)
            # They refer to each other, and would wait for the collector of cycles.
            self.monitor = self.task = None
        return reply


class SessionCallMonitor(CallMonitor):
    """A CallMonitor which also receives the events of the session, once the call takes long."""

    _read_at = 2
    """The tick at which the session is read. At first the interval is not known, because most
    calls are over by then."""

    def __init__(self, call: SessionCall, receive: Receive, frame: Frame) -> None:
        super().__init__(receive, frame, call.exchange)
        self._call = call
        self._reading: asyncio.Task[None] | None = None
        """Subscribes to the session, and then reads it now and then."""

    def tick(self) -> None:
        super().tick()
        self._call.exchange.tick()
        if self._waiting is not None and self._reading is None:
            self._reading = background.create_task(self._join())
        if self._ticks >= self._read_at:
            self._read_again()

    def _read_again(self) -> None:
        interval = max(1, int(min(READ_EVERY, stores.sessions().touch_interval) / TICK))
        is_due = self._ticks >= interval
        if is_due and self._reading is not None and self._reading.done():
            self._reading = background.create_task(self._read_session())
        self._read_at = self._ticks // interval * interval + interval

    def end(self, reason: str) -> None:
        super().end(reason)
        self._call.exchange.abandon(reason)

    def abandon_requests(self, reason: str) -> None:
        self._call.exchange.abandon(reason)

    def stop(self) -> None:
        super().stop()
        if self._reading is not None:
            self._reading.cancel()
            bus.here().unsubscribe(publisher.of_session(self._call.session), self._receive_event)

    async def _join(self) -> None:
        await bus.here().subscribe(publisher.of_session(self._call.session), self._receive_event)
        # Apply what other workers, and other threads, published before this one subscribed.
        await self._read_session()

    async def _read_session(self) -> None:
        try:
            session = await stores.sessions().load(self._call.session_id)
        except StoreUnavailable:
            return  # It is logged.
        except Exception:
            log_repeated(logging.ERROR, "A call cannot read its session", exc_info=True)
            return
        if session is None:
            self.end(ENDED)
        elif session.principal != self._call.principal:
            self.end(TAKEN_OVER)
        elif self._call.is_cancelled_in(session):
            self._call.cancel(CLIENT_CANCELLED)

    def _receive_event(self, message: bus.Message) -> None:
        if message["event"] == "cancelled" and self._call.key in message["reasons"]:
            self._call.cancel(message["reasons"][self._call.key])
        elif message["event"] == "ended":
            self.end(ENDED)
        elif message["event"] == "taken_over" and message["by"] != self._call.principal:
            self.end(TAKEN_OVER)
        elif message["event"] == "resumed":
            background.spawn(self._call.exchange.detach(message["stream"]))
        elif message["event"] == "left":
            self._call.exchange.left(message["stream"])


_in_flight: PerLoop[InFlightRequests[SessionCall]] = PerLoop(InFlightRequests)


def here() -> InFlightRequests[SessionCall]:
    """The calls of sessions that the running event loop answers."""
    return _in_flight.here()


def in_flight_in(loop: asyncio.AbstractEventLoop) -> InFlightRequests[SessionCall]:
    return _in_flight.of(loop)
