"""The HTTP requests of a session: open it, send messages, open streams, end it.

In a session a closed connection cancels nothing (T-HTTP-28), so each call has a task of its own.
It is cancelled by a notification, which may have reached another worker: a call that takes
longer than most subscribes to the events of its session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp import conf, signals, stores
from django_mcp.auth.base import Principal
from django_mcp.dispatch import dispatcher, visibility
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import headers, jsonrpc
from django_mcp.protocol.errors import (
    Cancelled,
    InvalidRequest,
    McpError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId, Response
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Revision, Statefulness
from django_mcp.pubsub import bus, publisher
from django_mcp.pubsub.pending_requests import ResponseRoute, deliver
from django_mcp.server.server import Server
from django_mcp.stores.base import StoreFull
from django_mcp.transports import frames, site
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import HttpError, HttpRequest, Receive
from django_mcp.transports.http.response import HttpExchange, Send
from django_mcp.transports.http.session import batch, get_stream
from django_mcp.transports.http.session.response import NotificationExchange, SessionExchange
from django_mcp.transports.http.sse_stream import Reauthenticate
from django_mcp.transports.session_engine import (
    GIVEN_UP,
    NO_BATCHES,
    REMEMBERED,
    InFlightRequest,
    InFlightRequests,
    SessionEngine,
    read_batch,
    read_cancellation,
)


class SessionHttp:
    """One HTTP request which belongs to a session, or opens one."""

    def __init__(
        self,
        *,
        server: Server,
        request: HttpRequest,
        send: Send,
        principal: Principal,
        reauthenticate: Reauthenticate,
        may_stream: bool,
    ) -> None:
        self.server = server
        self.request = request
        self.principal = principal
        self._send = send
        self._reauthenticate = reauthenticate
        self._may_stream = may_stream
        self._engine = SessionEngine(site.get(), stores.sessions(), is_shared=True)

    # One message.

    async def take(self, message: Request | Notification | Response) -> None:
        """Answer a request, or accept a notification or a response."""
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(message)
            return
        session = await self._session()
        if isinstance(message, Request):
            await self._request(message, session)
        else:
            await self._accept(message, session)
            await self._plain().respond(202, b"", ())

    async def _request(self, message: Request, session: Session) -> None:
        exchange = self._exchange(session)
        try:
            await self._answer(message, session, exchange, self.request.receive)
        except McpError as error:
            await self._fail(error, BY_VERSION[session.version], message.id)

    async def _answer(
        self, message: Request, session: Session, exchange: SessionExchange, receive: Receive
    ) -> None:
        frame = frames.in_session(self._call(exchange), message, session)
        await SessionCall(session, message.id, frame, exchange).answer(self._engine, receive)

    async def _accept(self, message: Notification | Response, session: Session) -> None:
        """Process it; raises HttpError for a response to no request of ours (T-HTTP-15)."""
        if isinstance(message, Response):
            if not await deliver(ResponseRoute(self.server, session), message):
                raise HttpError(400, "This answers no request of ours")
        elif message.method == "notifications/initialized":
            await self._initialized(message, session)
        elif message.method == "notifications/cancelled":
            await _cancel(session, message.params)
        else:
            await self._engine.notified(self._notification(session), message, session)

    async def _initialized(self, message: Notification, session: Session) -> None:
        """Start to send notifications, or end the session if the server's ``init`` failed."""
        if await self._engine.initialized(self._notification(session), message, session):
            await publisher.send_to_session(session.address, "initialized")
        else:
            await self._end(session)

    def _notification(self, session: Session) -> frames.IncomingRequest:
        response_route = ResponseRoute(self.server, session)
        return self._call(NotificationExchange(self._send, response_route=response_route))

    # Several messages.

    async def take_batch(self, values: Sequence[Any]) -> None:
        """Answer the requests of a batch, where the session's revision has batches."""
        if self.request.header(headers.SESSION_ID) is None:
            raise InvalidRequest(NO_BATCHES)
        session = await self._session()
        revision = BY_VERSION[session.version]
        if not revision.has(Feature.BATCHES):
            raise InvalidRequest(NO_BATCHES)
        messages, errors = read_batch(values)
        for message in messages:
            if not isinstance(message, Request):
                await self._accept(message, session)

        async def answer_one(request: Request, exchange: SessionExchange, receive: Receive) -> None:
            await self._answer(request, session, exchange, receive)

        await batch.answer(
            [message for message in messages if isinstance(message, Request)],
            errors,
            self._exchange(session),
            ResponseRoute(self.server, session),
            self.request.receive,
            answer_one,
            lambda error, identity: jsonrpc.error(identity, revision.error(error)),
        )

    # The session.

    async def _initialize(self, request: Request) -> None:
        if self.request.header(headers.SESSION_ID) is not None:
            await self._session()  # 404 for one that does not exist, as for any other request.
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self._plain()
        try:
            frame = frames.for_initialize(self._call(exchange), request)
        except McpError as error:
            revision = (NEWEST, *self.server.revisions(Statefulness.SESSION))[-1]
            await self._fail(error, revision, request.id)
            return
        try:
            reply, session = await self._engine.open(frame, secrets.token_urlsafe(32))
        except StoreFull as error:
            raise HttpError(429, f"{error}: end one of them first") from error
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
        await exchange.finish(reply.message)

    async def _session(self) -> Session:
        """The session which the request names; that of another principal is not found either."""
        session_id = self.request.header(headers.SESSION_ID)
        if session_id is None:
            raise HttpError(400, "Open a session with initialize, and send its Mcp-Session-Id")
        session = await stores.sessions().load(session_id)
        if (
            session is None
            or session.principal != self.principal.key
            or session.server != self.server.name
        ):
            raise HttpError(404, "This session has ended: open a new one with initialize")
        self._check_version_header(session)
        return session

    def _check_version_header(self, session: Session) -> None:
        version = self.request.version
        if version is None or version == session.version:
            return
        if BY_VERSION.get(version) in self.server.revisions(Statefulness.SESSION):
            raise HttpError(400, f"This session speaks {session.version}, not {version}")
        raise UnsupportedProtocolVersion(
            data={
                "supported": [
                    item.version for item in self.server.revisions(Statefulness.STATELESS)
                ],
                "requested": version,
            }
        )

    async def delete(self) -> None:
        """End the session with its calls and streams."""
        await self._end(await self._session())
        await self._plain().respond(204, b"", ())

    async def _end(self, session: Session) -> None:
        await stores.sessions().delete(session.id)
        await signals.session_ended.asend_robust(
            self.server, address=session.address, principal=session.principal
        )
        await _end_all(session)
        await stores.events().forget(session.address)

    # Streams.

    async def get(self) -> None:
        """Open the session's GET stream, or resume a stream that was interrupted."""
        self.request.check_accepts_stream()
        session = await self._session()
        stream = await get_stream.open_stream(
            self.request.header(LAST_EVENT_ID),
            server=self.server,
            session=session,
            may_read=self._may_read,
            end_session=partial(self._end, session),
            send=self._send,
            receive=self.request.receive,
            principal=self.principal,
            reauthenticate=self._reauthenticate,
        )
        await stream.serve()

    async def _may_read(self, principal: Principal, session: Session, uri: str) -> bool:
        self.principal = principal
        updated = Notification("notifications/resources/updated", {"uri": uri})
        frame = frames.in_session(self._call(self._exchange(session)), updated, session)
        return await visibility.is_readable(frame, uri)

    # Responses.

    def _call(self, exchange: HttpExchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    def _exchange(self, session: Session) -> SessionExchange:
        response_route = ResponseRoute(self.server, session)
        return SessionExchange(
            self._send, may_stream=self._may_stream, response_route=response_route
        )

    def _plain(self) -> HttpExchange:
        return HttpExchange(self._send, may_stream=False)

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        message = jsonrpc.error(identity, revision.error(error))
        await self._plain().finish(message, revision.http_status(error))


LAST_EVENT_ID = b"last-event-id"


# One request.

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

    def tick(self) -> None:
        """Subscribe to the events of the session at the first tick that counts."""
        super().tick()
        if self._joining is None and self._waiting is not None:
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


async def _cancel(session: Session, params: Mapping[str, Any]) -> None:
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


async def _end_all(session: Session) -> None:
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
