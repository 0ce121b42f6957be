"""The HTTP requests of a session: open it, send messages, open streams, end it.

In a session a closed connection cancels nothing (T-HTTP-28), so each call has a task of its own.
The notification which cancels it may reach another worker: a long call subscribes to its session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django_mcp import signals, stores
from django_mcp.auth.base import Principal
from django_mcp.concurrency.coroutines import start_task
from django_mcp.concurrency.loops import PerLoop
from django_mcp.dispatch import visibility
from django_mcp.dispatch.calls_in_flight import TICK
from django_mcp.dispatch.reply import Reply, error_reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session, address
from django_mcp.log import log_repeated
from django_mcp.protocol import headers, jsonrpc, request_meta
from django_mcp.protocol.errors import Cancelled, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Message, Notification, Request, RequestId, Response
from django_mcp.protocol.limits import quoted
from django_mcp.protocol.revisions import BY_VERSION, Feature, Revision, Statefulness
from django_mcp.protocol.sse import EventId
from django_mcp.pubsub import bus, channel_layer, publisher
from django_mcp.pubsub.pending_requests import ResponseRoute, deliver
from django_mcp.runtime import background, pools, request_scope
from django_mcp.runtime.request_scope import Scope
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import StoreFull
from django_mcp.transports import frames, session_engine, site
from django_mcp.transports.http import sse_stream
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import HttpError, Receive
from django_mcp.transports.http.response import HttpExchange
from django_mcp.transports.http.session import batch, get_stream
from django_mcp.transports.http.session.get_stream import ResumedStream, StandaloneStream
from django_mcp.transports.http.session.response import NotificationExchange, SessionExchange
from django_mcp.transports.http.sse_stream import AuthenticatedRequest
from django_mcp.transports.session_engine import InFlightRequest, InFlightRequests, SessionEngine

SESSION_ID_BYTES = 32
SESSION_ID_LENGTH = len(secrets.token_urlsafe(SESSION_ID_BYTES))


@dataclass(slots=True)
class SessionHttp(AuthenticatedRequest):
    may_stream: bool

    async def take(self, message: Request | Notification | Response) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(message)
            return
        if isinstance(message, Notification) and message.method == INITIALIZED:
            await self._take_initialized(message)
            await self._plain().respond(202, b"", ())
            return
        session = await self._session()
        if not isinstance(message, Request):
            await self._accept(message, session)
            await self._plain().respond(202, b"", ())
            return
        try:
            call = self._call_in(session, message, self._exchange(session))
            await call.answer(_engine(), self.request.receive)
        except McpError as error:
            await self._fail(error, BY_VERSION[session.version], message.id)

    def _call_in(
        self, session: Session, request: Request, exchange: SessionExchange
    ) -> SessionCall:
        frame = frames.in_session(self._call(exchange), request, session)
        return SessionCall(session, request.id, frame, exchange)

    async def _answer_of_batch(
        self, session: Session, request: Request, exchange: SessionExchange, receive: Receive
    ) -> None:
        call = self._call_in(session, request, exchange)
        await call.answer(_engine(), receive, is_in_batch=True)

    async def _accept(self, message: Notification | Response, session: Session) -> None:
        """Process it; raises HttpError for a response to no request of ours (T-HTTP-15)."""
        if isinstance(message, Response):
            await self._deliver(message, session)
        elif message.method == INITIALIZED:
            await self._initialized(message, session)
        elif message.method == CANCELLED:
            await _cancel(session, [message.params])
        else:
            await _engine().notified(self._notification(session), message, session)

    async def _take_initialized(self, message: Notification) -> None:
        """Note that the client is ready; without a hook, by one operation of the store."""
        if self.server.has_hook("init"):
            await self._initialized(message, await self._session())
            return
        session_id = self._session_id()
        was_initialized = False

        def check(session: Session) -> None:
            nonlocal was_initialized
            if self._may_take_over(session):
                raise _IsAnonymous
            self._check(session)
            was_initialized = session.initialized

        changes = [session_engine.INITIALIZED]
        try:
            session = await stores.sessions().update_checked(session_id, check, changes)
        except _IsAnonymous:
            await self._initialized(message, await self._session())
            return
        if session is None:
            raise _not_found()
        if not was_initialized:
            await publisher.send_to_session(address(session_id), "initialized")

    async def _initialized(self, message: Notification, session: Session) -> None:
        if session.initialized:
            return
        # The session ends if the server's ``init`` hook failed.
        if await _engine().initialized(self._notification(session), message, session):
            await publisher.send_to_session(session.address, "initialized")
        else:
            await self._end(session)

    async def _deliver(self, response: Response, session: Session) -> None:
        is_delivered = await deliver(ResponseRoute(self.server, session), response)
        if is_delivered is None:
            raise HttpError(400, "No pending request has this id")
        if not is_delivered:
            message = "The response cannot be stored for the worker that waits for it"
            raise HttpError(503, message, ((b"retry-after", b"1"),))

    async def _accept_batch(self, messages: Sequence[Message], session: Session) -> None:
        """Process all but the requests; what is sent several times changes the session once."""
        cancelled, is_first = [], True
        for message in messages:
            if isinstance(message, Notification) and message.method == CANCELLED:
                cancelled.append(message.params)
            elif isinstance(message, Notification) and message.method == INITIALIZED:
                if is_first:
                    await self._accept(message, session)
                is_first = False
            elif not isinstance(message, Request):
                await self._accept(message, session)
        await _cancel(session, cancelled)

    def _notification(self, session: Session) -> frames.IncomingRequest:
        route = ResponseRoute(self.server, session)
        return self._call(NotificationExchange(self.send, may_stream=False, route=route))

    async def take_batch(self, values: Sequence[Any]) -> None:
        if self.request.header(headers.SESSION_ID) is None:
            raise InvalidRequest(session_engine.NO_BATCHES)
        session = await self._session()
        if not BY_VERSION[session.version].has(Feature.BATCHES):
            raise InvalidRequest(session_engine.NO_BATCHES)
        messages, errors = session_engine.read_batch(values)
        await self._accept_batch(messages, session)
        requests = [message for message in messages if isinstance(message, Request)]
        exchange, answer_one = self._exchange(session), partial(self._answer_of_batch, session)
        await batch.answer(requests, errors, exchange, self.request.receive, answer_one)

    async def _initialize(self, request: Request) -> None:
        if self.request.header(headers.SESSION_ID) is not None:
            await self._session()  # 404 for one that does not exist, as for any other request.
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self._plain()
        try:
            frame = frames.for_initialize(self._call(exchange), request)
        except McpError as error:
            await self._fail(error, frames.newest_session_revision(self.server), request.id)
            return
        try:
            reply, session = await _engine().open(frame, secrets.token_urlsafe(SESSION_ID_BYTES))
        except StoreFull as error:
            raise _full(error) from error
        if session is not None:
            exchange.add_header(headers.SESSION_ID, session.id.encode())
            await signals.session_started.asend_robust(
                self.server,
                address=session.address,
                version=session.version,
                client_info=session.client_info,
                user=frame.user,
                principal=session.principal,
            )
        await exchange.finish(reply.message, exchange.status_of(reply.error, frame.revision))

    async def _session(self) -> Session:
        """The session which the request names; raises HttpError."""
        session = await stores.sessions().load(self._session_id())
        if session is None:
            raise _not_found()
        if self._may_take_over(session):
            session = await self._take_over(session)
        self._check(session)
        return session

    def _may_take_over(self, session: Session) -> bool:
        """Whether the session is anonymous, and the caller is not: they have logged in since."""
        return (
            session.anonymous_at is not None
            and session.anonymous_at == self.principal.endpoint
            and session.server == self.server.name
            and not self.principal.is_anonymous
        )

    async def _take_over(self, session: Session) -> Session:
        """Bind an anonymous session to the caller, who has its id and has authenticated.

        Of several principals the first one gets it. Nothing that was begun before concerns it.
        """
        principal = self.principal
        transport = self.request.caller(principal).transport
        caller = session_engine.counted_as(self.server, principal, transport)
        changes = session.for_principal(principal.key, caller)

        def check(present: Session) -> None:
            if present.anonymous_at is None:
                raise _IsTaken

        try:
            taken = await stores.sessions().update_checked(session.id, check, changes)
        except _IsTaken:
            taken = await stores.sessions().load(session.id)
        except StoreFull as error:
            raise _full(error) from error
        else:
            await self._end_anonymous_work(session.address)
            if taken is not None and taken.initializer:
                taken = await self._init_again(taken)
        if taken is None:
            raise _not_found()
        return taken

    async def _init_again(self, session: Session) -> Session | None:
        """Call the ``init`` hook for the new principal: what it assigned before is dropped."""
        message = Notification(INITIALIZED, {})
        if await _engine().call_init(self._notification(session), message, session):
            return await stores.sessions().load(session.id)
        await self._end(session)
        return None

    async def _end_anonymous_work(self, session: str) -> None:
        for call in here().of(session):
            if call.principal != self.principal.key:
                call.end(TAKEN_OVER)
        await stores.events().forget(session)
        await publisher.send_to_session(session, "taken_over", by=self.principal.key)

    def _session_id(self) -> str:
        session_id = self.request.header(headers.SESSION_ID)
        if session_id is None:
            raise HttpError(400, "Open a session with initialize, and send its Mcp-Session-Id")
        # One of another length is not hashed, since hashes are cached.
        if len(session_id) != SESSION_ID_LENGTH:
            raise _not_found()
        return session_id

    def _check(self, session: Session) -> None:
        """Reject the session of another principal or server, as if it did not exist."""
        if session.principal != self.principal.key or session.server != self.server.name:
            raise _not_found()
        self._check_version_header(session)

    def _check_version_header(self, session: Session) -> None:
        """Reject a version that is not served; the session keeps the one it negotiated."""
        version = self.request.version
        if version is None or version == session.version or request_meta.is_stateless(version):
            return
        if BY_VERSION.get(version) not in self.server.revisions(Statefulness.SESSION):
            raise HttpError(400, f"This session speaks {session.version}, not {quoted(version)}")

    async def delete(self) -> None:
        session_id = self._session_id()

        def check(session: Session) -> None:
            if not self._may_take_over(session):
                self._check(session)

        if not await stores.sessions().delete_checked(session_id, check):
            raise _not_found()
        await self._ended(address(session_id))
        await self._plain().respond(204, b"", ())

    async def _end(self, session: Session) -> None:
        await stores.sessions().delete(session.id)
        await self._ended(session.address)

    async def _ended(self, session: str) -> None:
        for call in here().of(session):
            call.end(ENDED)
        await publisher.session_ended(self.server, session, self.principal.key)

    async def get(self) -> None:
        self.request.check_get()
        session = await self._session()
        position = await get_stream.find(self.request.header(b"last-event-id"), session)
        stream: ResumedStream | StandaloneStream
        if isinstance(position, EventId):
            stream = ResumedStream(self, session, position)
        else:
            end, server = partial(self._end, session), self.server
            stream = StandaloneStream(self, session, position, server, self._may_read, end)
        rejection = HttpError(429, "Too many streams are open: close one of them first")
        with stream.open_within(sse_stream.MAX_STREAMS, rejection):
            await stream.serve()

    async def _may_read(self, principal: Principal, session: Session, uri: str) -> bool:
        self.principal = principal
        updated = Notification("notifications/resources/updated", {"uri": uri})
        frame = frames.in_session(self._call(self._exchange(session)), updated, session)
        return await visibility.is_readable(frame, uri)

    def _call(self, exchange: HttpExchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    def _exchange(self, session: Session) -> SessionExchange:
        route = ResponseRoute(self.server, session)
        return SessionExchange(
            self.send, may_stream=self.may_stream, route=route, request=self.request
        )

    def _plain(self) -> HttpExchange:
        return HttpExchange(self.send, request=self.request)

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        exchange, message = self._plain(), jsonrpc.error(identity, revision.error(error))
        await exchange.finish(message, exchange.status_of(error, revision))


class _IsAnonymous(Exception):
    """The session is still that of an anonymous caller."""


class _IsTaken(Exception):
    """The session has got a principal meanwhile."""


def _full(error: StoreFull) -> HttpError:
    return HttpError(429, f"{error}: end one of them first")


def _not_found() -> HttpError:
    return HttpError(404, "This session has ended: open a new one with initialize")


def _engine() -> SessionEngine:
    return SessionEngine(site.get(), stores.sessions(), is_shared=True)


READ_EVERY = 4.0
"""Seconds after which a running call reads its session, which says that it is used, and whether
another worker has cancelled the call: the hint of that may be lost."""
INITIALIZED, CANCELLED = "notifications/initialized", "notifications/cancelled"
ENDED, GIVEN_UP = "The session has ended", session_engine.GIVEN_UP
TAKEN_OVER = "The caller of the session has logged in"


class SessionCall(InFlightRequest):
    def __init__(
        self, session: Session, request_id: RequestId, frame: Frame, exchange: SessionExchange
    ) -> None:
        super().__init__(session.address, request_id)
        self._in_flight = _in_flight.of(exchange.loop)
        self.cancelled_early = bool(session.cancelled) and self.is_noted(session)
        self.session_id = session.id
        self.principal = session.principal
        self.exchange = exchange
        exchange.request_id = request_id
        self.is_given_up = False
        """Whether the client cancelled it, and needs no response."""
        self.monitor: SessionCallMonitor | None = None
        self.task: asyncio.Task[None] | None = None
        self._frame = frame

    def is_noted(self, session: Session) -> bool:
        """Whether a note of the session cancels this request, and no earlier one with its id."""
        is_noted = session.cancelled.get(self.key, 0.0) > stores.sessions().now()
        return is_noted and not self._in_flight.has_answered(self.session, self.key)

    def cancel(self, reason: str | None) -> None:
        self.is_given_up = True
        self.end(reason or GIVEN_UP)

    def end(self, reason: str) -> None:
        """Cancel it for another reason than that its client did."""
        if self.monitor is not None:
            self.monitor.end(reason)
        else:
            self.cancelled_early = True

    async def answer(
        self, engine: SessionEngine, receive: Receive, *, is_in_batch: bool = False
    ) -> None:
        """Answer while the connection is of use; InvalidRequest if the call must not begin."""
        self._in_flight.begin(self)
        # The calls of a batch do not share a scope: its thread would end with the first of them.
        has_own = is_in_batch and not pools.is_in_middleware_thread()
        scope = None if has_own else request_scope.hand_over()
        # All requests of a batch are in flight at once, whether they wait for something or not.
        answering, loop = self._answer(engine, receive, scope), self.exchange.loop
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
            if self.is_given_up:
                await self.exchange.finish_cancelled(reply.message)
            else:
                status = self.exchange.status_of(reply.error, self._frame.revision)
                await self.exchange.finish(reply.message, status)
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
            if self.cancelled_early:
                monitor.end(GIVEN_UP)
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
        elif self._call.is_noted(session):
            self._call.cancel(GIVEN_UP)

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


async def _cancel(session: Session, params: Iterable[Mapping[str, Any]]) -> None:
    """Cancel the requests that ``notifications/cancelled`` name, on whichever worker they run.

    One that names nothing is ignored (CANC-11); one that arrives early is remembered.
    """
    calls = here()
    named = dict(filter(None, map(session_engine.read_cancellation, params)))
    reasons = {key: reason or GIVEN_UP for key, reason in named.items()}
    elsewhere = {
        key: reason
        for key, reason in reasons.items()
        if not calls.cancel(session.address, key, reason)
    }
    if not elsewhere or channel_layer.shared() is None:
        return
    early = [key for key in elsewhere if not calls.has_answered(session.address, key)]
    if early:
        # First the note, then the event: a call first subscribes and then reads the note.
        await _note(session, early)
    await publisher.send_to_session(session.address, "cancelled", reasons=elsewhere)


async def _note(session: Session, keys: Iterable[str]) -> None:
    until = stores.sessions().now() + session_engine.REMEMBERED
    notes = [Change("cancelled", "note", key, until) for key in keys]
    await stores.sessions().update(session.id, notes)


_in_flight: PerLoop[InFlightRequests[SessionCall]]
_in_flight = PerLoop(partial(InFlightRequests, may_overtake=True))


def here() -> InFlightRequests[SessionCall]:
    return _in_flight.of(asyncio.get_running_loop())
