"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It has a ``__call__`` of its own: that of ``AsyncHttpConsumer`` spends four fifths of the throughput
of a bare application on a channel and a dispatch loop per request, and receives nothing while a
handler runs. This one uses the channel layer only where a call needs it.

| state | what is sent goes to | who moves it |
|---|---|---|
| ``UNANSWERED`` | the ASGI server; an error becomes the response | ``_within``: in the middleware |
| ``IN_MIDDLEWARE`` | the view, whose response the middleware may change | its end: unanswered |
| ``BEGUN`` | the ASGI server; an error is raised for it | nobody |

The first message for the ASGI server moves each state to ``BEGUN``: within the middleware, that is
the start of a stream. A listen stream stays open, so it begins after the middleware has ended: its
verb returns the stream instead of sending an answer.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any

from channels.consumer import AsyncConsumer
from django.core.signals import request_finished, request_started
from django.utils import translation

from django_mcp import conf
from django_mcp.auth.authentication import Authentication, AuthenticationFailed
from django_mcp.auth.base import Principal
from django_mcp.dispatch import handle
from django_mcp.dispatch.reply import error_reply
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.frame import Frame
from django_mcp.protocol import jsonrpc, request_meta
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest, McpError
from django_mcp.protocol.headers import SESSION_ID
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId, Response
from django_mcp.protocol.request_meta import RequestMeta
from django_mcp.protocol.revisions import NEWEST, Statefulness
from django_mcp.runtime import language, request_scope, request_signals
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.server.server import Server
from django_mcp.stores.base import is_outage, log_outage
from django_mcp.transports import frames, site
from django_mcp.transports.http import browser_page, cors, django_middleware, listen_stream
from django_mcp.transports.http.django_middleware import DjangoMiddleware, View
from django_mcp.transports.http.listen_stream import ListenExchange
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import (
    ClientDisconnected,
    HeaderPairs,
    HttpError,
    HttpRequest,
    Send,
)
from django_mcp.transports.http.response import JSON_HEADERS, HttpExchange
from django_mcp.transports.http.session.handler import SessionHttp
from django_mcp.transports.http.sse_stream import AuthenticatedRequest
from django_mcp.transports.wsgi.environ import IS_WSGI

logger = logging.getLogger("django_mcp")

OpenStream = Callable[[], Awaitable[None]]
"""Serves a stream until it is closed."""
Verb = Callable[[Any], Coroutine[Any, Any, OpenStream | None]]
"""Answers a request, given its consumer, or returns the stream which is the answer."""
ALLOWED = b"POST, GET, DELETE"


class State(Enum):
    UNANSWERED = auto()
    IN_MIDDLEWARE = auto()
    BEGUN = auto()


# Names of the module, which take a tenth of the time of an attribute of the Enum.
UNANSWERED = State.UNANSWERED
IN_MIDDLEWARE = State.IN_MIDDLEWARE
BEGUN = State.BEGUN


class HttpConsumer(AsyncConsumer):
    """One HTTP request to one Server: its authentication, and its rejection."""

    request: HttpRequest
    principal: Principal
    allowed: bytes
    """The HTTP methods of the endpoint."""
    _send: Send
    _state = UNANSWERED
    _view: View
    """The view that the middleware surrounds; set while the state is IN_MIDDLEWARE."""
    _request_id: RequestId | None = None
    """The id of the request, once it is parsed."""

    def __init__(self, *, server: Server, authentication: Authentication) -> None:
        self.server = server
        self.authentication = authentication

    @classmethod
    def as_asgi(cls, **initkwargs: Any) -> Any:
        """Return the ASGI application, like that of Channels, with one coroutine fewer per call."""

        def application(scope: Any, receive: Any, send: Any) -> Coroutine[Any, Any, None]:
            consumer = cls(**initkwargs)
            return consumer(scope, receive, send)

        return application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.request = HttpRequest(scope, receive)
        self.request.authentication = self.authentication
        self._send = send
        work = request_scope.enter()
        headers = self.request.headers
        language_override = None
        if headers.get(b"accept-language") is not None or headers.get(b"cookie") is not None:
            language_override = self._activate_language()
        sends_signals = _sends_signals()
        try:
            if sends_signals:
                await request_signals.send_started(type(self), scope)
            await self._answer(scope["method"])
        except Exception as error:
            await self._fail(error)
        finally:
            if sends_signals:
                await request_signals.send_finished(type(self))
            if language_override is not None:
                language_override.__exit__(None, None, None)
            closing = work.leave()
            if closing is not None:
                await closing

    def _activate_language(self) -> translation.override | None:
        headers = self.request.headers
        return language.activate(headers.get(b"accept-language"), headers.get(b"cookie"))

    async def _answer(self, method: str) -> None:
        self.request.check_origin()
        origin = self.request.headers.get(b"origin")
        if origin is not None:
            self._send = cors.allowing(origin, self._send)
        if method == "OPTIONS":
            await cors.preflight(self.request, self._send, self.allowed)
            return
        if method == "GET" and browser_page.is_wanted(self.request):
            await browser_page.send(self.server, self.request, self._send)
            return
        verb = self._verb(method)
        self.principal = await self.authentication.authenticate(self.request.scope)
        middleware = django_middleware.get()
        if middleware is None:
            stream = await verb(self)
        else:
            stream = await self._within(middleware, verb)
        if stream is not None:
            await stream()

    @abstractmethod
    def _verb(self, method: str) -> Verb:
        """What answers an HTTP method; raises HttpError for one that is not allowed."""

    async def reauthenticate(self) -> Principal:
        """Authenticate the request again, for an open stream; raises HttpError."""
        return await django_middleware.check(self.request, await self.request.authenticate())

    async def _within(self, middleware: DjangoMiddleware, verb: Verb) -> OpenStream | None:
        """Answer within Django's middleware, or return the stream that begins after it."""
        if self.request.scope["method"] == "GET":
            self.principal = await django_middleware.check(self.request, self.principal)
            return await verb(self)
        stream = None

        async def serve(principal: Principal, view: View) -> None:
            nonlocal stream
            self.principal = principal
            self._view = view
            self._state = IN_MIDDLEWARE
            try:
                stream = await verb(self)
            except Exception as error:
                await self._fail(error)
            finally:
                if self._state is IN_MIDDLEWARE:
                    self._state = UNANSWERED

        await middleware.run(self.request, self.principal, self._send_to_server, serve)
        return stream

    def send_message(self, message: dict[str, Any]) -> Awaitable[None]:
        """Send a message to the ASGI server, or to the middleware around this request."""
        if self._state is IN_MIDDLEWARE:
            return self._view(message)
        self._state = BEGUN
        return self._send(message)

    def _send_to_server(self, message: dict[str, Any]) -> Awaitable[None]:
        self._state = BEGUN
        return self._send(message)

    async def _fail(self, error: Exception) -> None:
        """Answer with the error. It is raised for the server if the response has begun."""
        if isinstance(error, ClientDisconnected):
            return
        if self._state is BEGUN:
            raise error
        if isinstance(error, AuthenticationFailed):
            error = self.request.rejection(error)
        if isinstance(error, HttpError):
            await self._reject(error.status, InvalidRequest(error.message), error.headers)
        elif isinstance(error, McpError):
            await self._reject(NEWEST.http_status(error), error)
        elif is_outage(error):
            # An authenticator or a permission check has asked the database.
            log_outage(error)
            unavailable = StoreUnavailable()
            await self._reject(NEWEST.http_status(unavailable), unavailable)
        else:
            logger.error("An HTTP request could not be answered", exc_info=error)
            await self._reject(500, InternalError())

    async def _reject(self, status: int, error: McpError, headers: HeaderPairs = ()) -> None:
        body = jsonrpc.encode(jsonrpc.error(self._id_for(error), NEWEST.error(error)))
        exchange = HttpExchange(self.send_message, may_stream=False)
        exchange.add_headers_of(error, NEWEST)
        await exchange.respond(status, body, (*JSON_HEADERS, *headers))

    def _id_for(self, error: McpError) -> RequestId | None:
        """The id of the request that failed, if it could be read; it may not be parsed yet."""
        request_id: RequestId | None = getattr(error, "request_id", None)
        if request_id is None:
            request_id = self._request_id
        if request_id is None:
            request_id = self._id_in_body()
        return request_id

    def _id_in_body(self) -> RequestId | None:
        if self.request.content:
            with suppress(McpError):
                message = jsonrpc.read(jsonrpc.decode_received(self.request.content))
                return message.id if isinstance(message, Request) else None
        return None


def _sends_signals() -> bool:
    """Whether ``request_started`` and ``request_finished`` have receivers besides Django's own."""
    others = request_signals.OTHERS
    if others.seen != [request_started.receivers, request_finished.receivers]:
        others.update()
    return others.are_any


class StreamableHttpConsumer(HttpConsumer):
    """One HTTP request to the endpoint: stateless, or in a session."""

    allowed = ALLOWED
    accepts_stream = True
    """Whether the client accepts an SSE stream as the response to its POST."""

    def _verb(self, method: str) -> Verb:
        """The handler of an HTTP method; without sessions there is only POST (HTTP-15)."""
        allowed = ALLOWED
        verb = VERBS.get(method)
        if method != "POST" and (
            self._is_stateless() or not self.server.revisions(Statefulness.SESSION)
        ):
            allowed = b"POST"
            verb = None
        if verb is None:
            message = f"Method not allowed: use {allowed.decode()}"
            raise HttpError(405, message, ((b"allow", allowed),))
        return verb

    def _is_stateless(self) -> bool:
        """Whether the version header is that of a revision without sessions.

        A gateway may send it in an open session too. Then the revision of the session holds.
        """
        request = self.request
        return (
            request_meta.is_stateless(request.version) and request.headers.get(SESSION_ID) is None
        )

    async def post(self) -> OpenStream | None:
        request = self.request
        # First the body: errors of the other checks have the id of the request.
        await request.read_body(conf.get().max_body_size)
        self.accepts_stream = request.check_media_types()
        value = jsonrpc.decode_received(request.content)
        request.content = b""  # Its response may be a stream which is open for hours.
        if type(value) is list:
            await self.in_session().take_batch(value)
            return None
        message = jsonrpc.read(value)
        self._request_id = message.id if type(message) is Request else None
        if type(message) is not Response and (
            request_meta.has_request_meta(message.params) or self._is_stateless()
        ):
            return await self._stateless(message)
        await self.in_session().take(message)
        return None

    async def get(self) -> None:
        await self.in_session().get()

    async def delete(self) -> None:
        await self.in_session().delete()

    async def _stateless(self, message: Request | Notification) -> OpenStream | None:
        if type(message) is Notification:
            # Ignored: clients choose the ids of their requests, so that a posted
            # cancellation could cancel the request of another caller (CAN-08).
            await HttpExchange(self.send_message, may_stream=False).respond(202, b"", ())
            return None
        request = self.request
        server = self.server
        meta = request_meta.read(
            message, request.headers, server.stateless, server.options.versions
        )
        if message.method == listen_stream.METHOD:
            return self._listening(message, meta)
        exchange = HttpExchange(self.send_message, self.accepts_stream, request)
        frame = self._frame(message, meta, exchange)
        if IS_WSGI in request.scope:
            exchange.silent_handler = _silent_handler(frame, meta)
        monitor = CallMonitor(request.receive, frame, exchange)
        try:
            reply = await handle.answer(frame, site.get())
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            # HTTP cannot leave a cancelled request unanswered.
            reply = error_reply(frame, Cancelled())
        finally:
            monitor.stop()
        await exchange.answer(reply.message, reply.error, frame.revision)
        return None

    def _frame(self, message: Request, meta: RequestMeta, exchange: Exchange) -> Frame:
        caller = self.request.caller(self.principal)
        call = frames.IncomingRequest(self.server, caller, exchange)
        return frames.stateless(call, message, meta)

    def _listening(self, message: Request, meta: RequestMeta) -> OpenStream:
        if not self.accepts_stream:
            raise HttpError(406, "Accept text/event-stream to listen")
        return partial(self._listen, message, meta)

    async def _listen(self, message: Request, meta: RequestMeta) -> None:
        http = AuthenticatedRequest(
            self.request, self.send_message, self.principal, self.reauthenticate, self.server
        )
        exchange = ListenExchange(http)
        frame = self._frame(message, meta, exchange)
        reply = await handle.answer(frame, site.get())
        await exchange.answer(reply.message, reply.error, frame.revision)

    def in_session(self) -> SessionHttp:
        return SessionHttp(
            request=self.request,
            send=self.send_message,
            principal=self.principal,
            reauthenticate=self.reauthenticate,
            server=self.server,
            may_stream=self.accepts_stream,
        )


def _silent_handler(frame: Frame, meta: RequestMeta) -> Hashable | None:
    """The tool of a call for which the client has asked for neither progress nor log messages."""
    call = frame.message
    sends = meta.log_level is not None or "progressToken" in call.params.get("_meta", ())
    return None if sends or call.method != "tools/call" else (frame.server, call.params.get("name"))


VERBS: Mapping[str, Verb] = {
    "POST": StreamableHttpConsumer.post,
    "GET": StreamableHttpConsumer.get,
    "DELETE": StreamableHttpConsumer.delete,
}
