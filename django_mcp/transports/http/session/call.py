"""One request of a session over HTTP, from its arrival to its answer.

In a session a closed connection cancels nothing (T-HTTP-28), so each call has a task of its own.
It is cancelled by a notification, which may have reached another worker: a call that takes
longer than most subscribes to the events of its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp import conf, stores
from django_mcp.dispatch import dispatcher
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol.errors import Cancelled
from django_mcp.protocol.jsonrpc import RequestId
from django_mcp.pubsub import bus, publisher
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange
from django_mcp.transports.session_engine import (
    GIVEN_UP,
    REMEMBERED,
    InFlightRequest,
    InFlightRequests,
    SessionEngine,
    read_cancellation,
)

ENDED = "The session has ended"


class SessionCall(InFlightRequest):
    """One request of a session, while it is answered here."""

    __slots__ = ("_frame", "exchange", "monitor", "session_id", "task")

    def __init__(
        self, session: Session, request_id: RequestId, frame: Frame, exchange: SessionExchange
    ) -> None:
        super().__init__(session.address, request_id)
        self.cancelled_early = bool(session.cancelled) and _is_cancelled(session, self.key)
        self.session_id = session.id
        self.exchange = exchange
        self.monitor: SessionCallMonitor | None = None
        self.task: asyncio.Task[None] | None = None
        self._frame = frame

    def cancel(self, reason: str | None) -> None:
        """Cancel the call, at once or as soon as it begins."""
        if self.monitor is not None:
            self.monitor.end(reason or GIVEN_UP)
        else:
            self.cancelled_early = True

    async def answer(self, engine: SessionEngine, receive: Receive) -> None:
        """Answer the request, for as long as its connection is of use.

        Raises InvalidRequest when it must not begin.
        """
        in_flight = here()
        in_flight.begin(self)
        answer = self._answer(engine, receive, in_flight)
        self.task = self.exchange.loop.create_task(answer)
        await self.exchange.until_over(self.task)

    async def _answer(
        self, engine: SessionEngine, receive: Receive, in_flight: InFlightRequests[SessionCall]
    ) -> None:
        try:
            await self.exchange.finish(await self._monitored(engine, receive, in_flight))
        finally:
            # Here, and not in a callback of the task, which runs one iteration of the loop later.
            self.exchange.release()

    async def _monitored(
        self, engine: SessionEngine, receive: Receive, in_flight: InFlightRequests[SessionCall]
    ) -> dict[str, Any]:
        """The response to the request, or to its cancellation."""
        self.monitor = monitor = SessionCallMonitor(self, receive, self._frame)
        try:
            if self.cancelled_early:
                monitor.end(GIVEN_UP)
                await asyncio.sleep(0)  # Here the cancellation takes effect, before any handler.
            reply = await engine.answer(self._frame)
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            reply = dispatcher.error_reply(self._frame, Cancelled())
        finally:
            monitor.stop()
            in_flight.end(self)
            # They refer to each other, and would wait for the collector of cycles.
            self.monitor = self.task = None
        return reply.message


class SessionCallMonitor(CallMonitor):
    """A CallMonitor which also receives the events of the session, once the call takes long."""

    __slots__ = ("_call", "_joining")

    def __init__(self, call: SessionCall, receive: Receive, frame: Frame) -> None:
        site = conf.get()
        super().__init__(
            receive,
            frame,
            call.exchange,
            timeout=site.handler_timeout,
            keepalive=site.sse_ping_interval,
        )
        self._call = call
        self._joining: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Subscribe to the events of the session at the first tick that counts."""
        super().look()
        if self._joining is None and self._task is not None:
            self._joining = self._exchange.loop.create_task(self._join())

    def end(self, reason: str) -> None:
        """Cancel the call, and what it waits for."""
        super().end(reason)
        self._call.exchange.abandon(reason)

    def stop(self) -> None:
        """Stop monitoring."""
        super().stop()
        if self._joining is not None:
            self._joining.cancel()
            bus.here().unsubscribe(publisher.of_session(self._call.session), self._receive_event)

    async def _join(self) -> None:
        await bus.here().subscribe(publisher.of_session(self._call.session), self._receive_event)
        if bus.shared_layer() is not None:
            await self._check_session()

    async def _check_session(self) -> None:
        """Apply what other workers published before this one subscribed."""
        session = await stores.sessions().load(self._call.session_id)
        if session is None:
            self.end(ENDED)
        elif _is_cancelled(session, self._call.key):
            self.end(GIVEN_UP)

    def _receive_event(self, message: bus.Message) -> None:
        if message["event"] == "cancelled" and message["key"] == self._call.key:
            self.end(message["reason"])
        elif message["event"] == "ended":
            self.end(ENDED)
        elif message["event"] == "resumed" and message["stream"] == self._call.exchange.stream:
            bus.spawn(self._call.exchange.detach())


def _is_cancelled(session: Session, key: str) -> bool:
    return session.cancelled.get(key, 0.0) > stores.sessions().now()


async def cancel(session: Session, params: Mapping[str, Any]) -> None:
    """Cancel the request that ``notifications/cancelled`` names, on whichever worker it runs.

    One that names nothing is ignored (CANC-11); one that arrives early is remembered.
    """
    named = read_cancellation(params)
    if named is None:
        return
    key, reason = named[0], named[1] or GIVEN_UP
    if here().cancel(session.address, key, reason) or bus.shared_layer() is None:
        return
    # First the note, then the event: a call first subscribes and then reads the note.
    store = stores.sessions()
    note = Change("cancelled", "note", key, store.now() + REMEMBERED)
    await store.update(session.id, [note])
    await publisher.send_to_session(session.address, "cancelled", key=key, reason=reason)


async def end_all(session: Session) -> None:
    """End the calls and the streams of a session which has ended, on every worker."""
    for call in here().of(session.address):
        call.cancel(ENDED)
    await publisher.send_to_session(session.address, "ended")


_in_flight: WeakKeyDictionary[asyncio.AbstractEventLoop, InFlightRequests[SessionCall]] = (
    WeakKeyDictionary()
)


def here() -> InFlightRequests[SessionCall]:
    """The requests in flight on the running event loop."""
    loop = asyncio.get_running_loop()
    requests = _in_flight.get(loop)
    if requests is None:
        requests = _in_flight[loop] = InFlightRequests()
    return requests
