"""A message of a session over HTTP: its call, and its response, which outlive the connection."""

# The rules of a call, beside the states in ``SessionExchange``:
#
# 1. The task of the call answers. The task of the HTTP request waits for ``release``: until the
#    response is sent, or the connection is lost. The call goes on after that.
# 2. The first event decides about the form of the response. Without any, it is JSON.
# 3. A stream that can be resumed has a log. Each event has its number before it is sent. The first
#    one waits until the store has the stream, and at most a second.
# 4. The response is the last event of the log, which is closed after it. A log that is not closed
#    has a lease; when this has ended, a client that resumes reads an error.
# 5. A call that has ended leaves nothing on the loop: its id is free, its timer and its
#    subscription have ended, its scope is left.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from django_mcp import stores
from django_mcp.core.concurrency.loops import PerLoop, start_task
from django_mcp.core.dispatch import handle
from django_mcp.core.dispatch.calls_in_flight import TICK
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Session
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, sse
from django_mcp.core.protocol.errors import McpError
from django_mcp.core.protocol.jsonrpc import RequestId
from django_mcp.core.protocol.revisions import BY_VERSION, Feature
from django_mcp.pubsub import bus, session_messages
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.runtime import background, pools, request_scope
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.transports.http.exchange import HttpExchange
from django_mcp.transports.http.session.event_log import StreamLog
from django_mcp.transports.session_engine import (
    CLIENT_CANCELLED,
    InFlightRequests,
    SessionEngine,
    key_of,
)

RETRY = 1000
"""Milliseconds until a client reconnects."""
READ_EVERY = 4.0
"""Seconds after which a running call reads its session, which says that it is used, and whether
another worker has cancelled the call: the hint of that may be lost."""
ENDED = "The session has ended"
TAKEN_OVER = "The caller of the session has logged in"


class SessionExchange(HttpExchange):
    """One message of a session, over the HTTP request ``http``.

    A response is JSON, or a stream which may be resumed. In revisions with priming events the
    stream starts with one, and each event has an id. In a session a closed connection cancels
    nothing (T-HTTP-28), so the call has a task of its own. The notification which cancels it may
    reach another worker: a long call subscribes to its session.

    | state | meaning | who moves it |
    |---|---|---|
    | in flight | its id is taken; its task has not begun | ``answer_in_task``; ``end`` |
    | running | ``tick`` looks after it | the handler: answered; ``cancel``, ``end`` |
    | given up | its client has cancelled it, and needs no response | ``cancel`` |
    | ended | it took too long, or its session has ended: an error is its response | ``end`` |
    | answered | its id is free; the response is being sent | nobody |
    """

    _log: StreamLog | None = None
    _requests: PendingRequests | None = None
    _released: asyncio.Future[None] | None = None
    _is_released = False
    _read_at = 2
    """The tick at which the session is read. At first the interval is not known, because most
    calls are over by then."""
    _reading: asyncio.Task[None] | None = None
    """Subscribes to the session, and then reads it now and then."""

    def __init__(
        self,
        http: HttpExchange,
        session: Session,
        request_id: RequestId | None = None,
        *,
        replies: list[bytes] | None = None,
        is_notification: bool = False,
    ) -> None:
        """``replies`` are the responses to a batch, to which this request adds its own."""
        vars(self).update(vars(http))
        # It sends by the request, which knows whether the response has begun.
        self.to_server = http.send
        self._has_begun = False
        self._view = None
        self.task = None
        self.request_headers = None  # Only stateless requests repeat their body in headers.
        self.route = ResponseRoute(self.server, session)
        self.mcp_session = session
        self.session_address = session.address
        self.revision = BY_VERSION[session.version]
        self.request_id = request_id
        self.request_key = "" if request_id is None else key_of(request_id)
        self.replies = replies
        self.is_notification = is_notification
        self._resumable = self.accepts_stream and self.revision.has(Feature.PRIMING_EVENTS)
        self._began_at = stores.sessions().now()

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the result, or log it for a client that reconnects.

        Messages of the handler of a notification go to the session's own stream.
        """
        if self.is_notification:
            if self._is_here():
                self._post(message)
            else:
                self._write_from_thread(self._post, message)
        elif self.accepts_stream:
            text = jsonrpc.encode(message)
            if self._is_here():
                self._write_event(text)
            else:
                self._write_from_thread(self._write_event, text)

    async def flush(self) -> None:
        """Wait until the stream has room again, or all events are in the event store."""
        await super().flush()
        if self.is_closed and self._log is not None:
            await self._log.flush()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Send a request on this stream, or on the session's own stream if there is none."""
        may_stream = self.accepts_stream and not self.is_notification
        if self.is_closed and self._log is None and may_stream:
            raise ConnectionError("The client has disconnected and cannot resume this request")
        write = self.write if may_stream else self._post
        if self._requests is None:
            self._requests = PendingRequests()
        return await self._requests.send_request(self.route, write, method, params, timeout=timeout)

    async def close_stream(self, retry: int, /) -> None:
        """Close the connection once the client can resume the stream (T-HTTP-19, -20)."""
        if not self._resumable or self.is_closed:
            return
        self._open()
        self._enqueue(sse.retry(retry))
        await self._close_connection()

    def abandon_requests(self, reason: str) -> None:
        if self._requests is not None:
            self._requests.abandon(reason)

    @property
    def may_be_resumed(self) -> bool:
        return self._log is not None

    def keep_alive(self) -> None:
        """Send a keepalive comment; the first one opens the stream."""
        if self._begins_log():
            self._open()
        else:
            super().keep_alive()

    # Its call.

    def is_silent(self, frame: Frame) -> bool:
        """Whether the call is alone, has no progress, and its tool cannot request input.

        Nothing could be sent to the client while the tool waits for its response. What the tool
        logs is sent, although the client has not asked for it.
        """
        params = frame.message.params
        name = params.get("name")
        is_alone = self.replies is None and "progressToken" not in params.get("_meta", ())
        if not is_alone or frame.private.get("components") or self.server.has_hook("around_call"):
            return False
        tool = self.server.components.find("tool", name) if isinstance(name, str) else None
        return tool is not None and not (tool.takes_frame or tool.requests_input)

    def cancel(self, reason: str | None) -> None:
        """Cancel it for its client, who needs no response."""
        self.is_given_up = True
        self.end(reason or CLIENT_CANCELLED)

    async def answer_in_task(
        self, frame: Frame, engine: SessionEngine, *, is_in_batch: bool = False
    ) -> None:
        """Answer while the connection is of use; InvalidRequest if the call must not begin."""
        in_flight_in(self.loop).begin(self)
        # The calls of a batch do not share a scope: its thread would end with the first of them.
        has_own = is_in_batch and not pools.is_in_middleware_thread()
        scope = None if has_own else request_scope.hand_over()
        # All requests of a batch are in flight at once, whether they wait for something or not.
        answering = self._answer_in(scope, frame, engine)
        loop = self.loop
        task = loop.create_task(answering) if is_in_batch else start_task(answering, loop)
        await self.until_over(task)
        if not task.done() and pools.is_in_middleware_thread():
            await asyncio.wait([task])  # The handler runs on the thread of the middleware.

    async def _answer_in(
        self, scope: request_scope.Scope | None, frame: Frame, engine: SessionEngine
    ) -> None:
        scope = request_scope.enter() if scope is None else scope
        try:
            body = await self._monitored(frame, engine)
            if self.is_given_up:
                await self.finish_cancelled(body)
            else:
                await self.answer(body)
        finally:
            # Here, and not in a callback of the task, which runs one iteration of the loop later.
            self.release()
            if (closing := scope.leave()) is not None:
                await closing

    async def _monitored(self, frame: Frame, engine: SessionEngine) -> bytes:
        self.task = asyncio.current_task(self.loop)
        try:
            self.begin()
        except McpError as error:
            in_flight_in(self.loop).end(self)
            return handle.encode_error(frame, error)
        try:
            if self.ended_by is not None:  # Before any handler.
                return handle.encode_error(frame, self.cancelled())
            return await engine.answer(frame)
        finally:
            self.has_ended = True
            self.stop()
            in_flight_in(self.loop).end(self)
            self.task = None  # They refer to each other.

    def stop(self) -> None:
        super().stop()
        if self._reading is not None:
            self._reading.cancel()
            bus.here().unsubscribe(
                session_messages.of_session(self.session_address), self._receive_event
            )

    def tick(self) -> None:
        """Extend the lease of the stream as well, and receive the events of the session."""
        super().tick()
        if self._log is not None:
            self._log.renew()
        if self._waiting is not None and self._reading is None:
            self._reading = background.create_task(self._join())
        if self._ticks >= self._read_at:
            interval = max(1, int(min(READ_EVERY, stores.sessions().touch_interval) / TICK))
            is_due = self._ticks >= interval
            if is_due and self._reading is not None and self._reading.done():
                self._reading = background.create_task(self._read_session())
            self._read_at = self._ticks // interval * interval + interval

    async def _join(self) -> None:
        group = session_messages.of_session(self.session_address)
        await bus.here().subscribe(group, self._receive_event)
        # Apply the changes that others published before this worker subscribed.
        await self._read_session()

    async def _read_session(self) -> None:
        try:
            session = await stores.sessions().load(self.mcp_session.id)
        except StoreUnavailable:
            return  # It is logged.
        except Exception:
            log_repeated(logging.ERROR, "A call cannot read its session", exc_info=True)
            return
        if session is None:
            self.end(ENDED)
        elif session.principal != self.mcp_session.principal:
            self.end(TAKEN_OVER)
        elif session.cancelled.get(self.request_key, 0.0) >= self._began_at:
            # Another worker has noted it, since this request began.
            self.cancel(CLIENT_CANCELLED)

    def _receive_event(self, message: bus.Message) -> None:
        if message["event"] == "cancelled" and self.request_key in message["reasons"]:
            self.cancel(message["reasons"][self.request_key])
        elif message["event"] == "ended":
            self.end(ENDED)
        elif message["event"] == "taken_over" and message["by"] != self.mcp_session.principal:
            self.end(TAKEN_OVER)
        elif message["event"] == "resumed":
            background.spawn(self.detach(message["stream"]))
        elif message["event"] == "left":
            log = self._log
            # The connection which resumed a stream has ended.
            if log is not None and log.name == message["stream"]:
                log.left()

    def disconnected(self) -> None:
        super().disconnected()
        self.release()

    async def detach(self, stream: str) -> None:
        """Close the connection if ``stream``, resumed over another connection, is its own."""
        if self._log is not None and self._log.name == stream:
            await self._close_connection()
            self._log.resumed()
            await self._log.notify_readers()

    async def answer(self, body: bytes) -> None:
        if self.replies is not None:
            self.replies.append(body)
            self.release()
            return
        if self._log is None:
            await super().answer(body)
            return
        if self.error is not None:
            self.add_headers_of(self.error, self.revision)
        event = sse.event(body, id=str(self._log.append(body.decode(), is_response=True)))
        # Not after the client has read it: by then the lease may have run out.
        closing = self.loop.create_task(self._log.close())
        await self._end_stream(event)
        await closing

    async def finish_cancelled(self, body: bytes) -> None:
        """End the response to a request that its client cancelled.

        A stream ends without an answer (CANC-06). A response that has not begun is ``body``,
        because HTTP cannot leave a request unanswered.
        """
        if self.replies is not None:
            self.release()
            return
        if self._log is None and not self.is_stream:
            await self.answer(body)
            return
        await self._end_stream(b"")
        if self._log is not None:
            await self._log.close()

    async def finish_all(self, messages: Sequence[bytes], status: int) -> None:
        """Send the responses to a batch, each as an event or all in one array."""
        if self.is_stream:
            await self._end_stream(b"".join(map(sse.event, messages)))
        elif self.is_closed:
            return
        elif messages:
            await self.respond(status, b"[%b]" % b",".join(messages))
        else:
            await self.respond(202, b"", ())

    async def until_over(self, answering: asyncio.Task[None]) -> None:
        """Wait until ``release`` is called; the task which answers may go on after it."""
        if not self._is_released:
            self._released = self.loop.create_future()
        try:
            if self._released is not None:
                await self._released
        except asyncio.CancelledError:
            # ASGI servers cancel the task of a closed connection, but not tasks created by it.
            self.disconnected()
            raise
        if answering.done():
            answering.result()

    def _write_event(self, text: bytes) -> None:
        if self._begins_log():
            self._open()
        event_id = None if self._log is None else str(self._log.append(text.decode()))
        self._enqueue(sse.event(text, id=event_id))

    def _begins_log(self) -> bool:
        """Whether the next event opens a stream that can be resumed."""
        return self._resumable and self._log is None and not self.is_closed

    def _open(self) -> None:
        """Start the stream with its priming event, unless it has started (T-HTTP-18)."""
        if self._log is None:
            self._log = StreamLog(self.mcp_session, self.request_id)
            # The client may reconnect at once, and then the store has to have the stream.
            self.open_writer().before_start = self._log.wait_until_created
            self._enqueue(sse.priming(str(self._log.last), retry=RETRY))

    def _enqueue(self, event: bytes) -> None:
        writer = self.open_writer()
        if not writer.is_used:
            writer.on_lost = self._lost
        super()._enqueue(event)

    def _lost(self) -> None:
        """End the wait for the response; later events are only logged."""
        if self._log is not None:
            self._log.left()
            background.spawn(self._log.notify_readers())
        self.release()

    def _overflow(self) -> None:
        """Leave a stream that can be resumed to the log, else drop the notification."""
        if self._log is None:
            super()._overflow()
        else:
            self.cut_off()

    def _post(self, message: dict[str, Any]) -> None:
        background.spawn_accepted(self._post_to_outbox(message))

    async def _post_to_outbox(self, message: dict[str, Any]) -> None:
        is_stored = await session_messages.post_to_outbox(self.session_address, message)
        if not is_stored and "id" in message:
            self.abandon_requests("The request cannot be stored for the client")

    async def _close_connection(self) -> None:
        """End the response, but not the stream: later events are only logged."""
        writer = self._writer
        await writer.flush()
        if self.is_closed:
            return
        writer.close()
        if self._log is not None:
            self._log.left()
            await self._log.flush()
        await writer.send_last(b"")
        self.release()

    def release(self) -> None:
        self._is_released = True
        if self._released is not None and not self._released.done():
            self._released.set_result(None)


_in_flight: PerLoop[InFlightRequests[SessionExchange]] = PerLoop(InFlightRequests)


def here() -> InFlightRequests[SessionExchange]:
    """The calls of sessions that the running event loop answers."""
    return _in_flight.here()


def in_flight_in(loop: asyncio.AbstractEventLoop) -> InFlightRequests[SessionExchange]:
    return _in_flight.of(loop)
