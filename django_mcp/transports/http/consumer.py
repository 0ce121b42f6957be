"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It has a ``__call__`` of its own: that of ``AsyncHttpConsumer`` spends four fifths of the throughput
of a bare application on a channel and a dispatch loop per request, and receives nothing while a
handler runs. This one uses the channel layer only where a call needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from channels.consumer import AsyncConsumer

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.dispatch import dispatcher, handle
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.frame import Frame
from django_mcp.protocol import jsonrpc, request_meta
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest, McpError
from django_mcp.protocol.headers import SESSION_ID, RequestHeaders
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId, Response
from django_mcp.protocol.revisions import NEWEST, Statefulness
from django_mcp.runtime import threads
from django_mcp.server.server import Server
from django_mcp.transports import frames, site
from django_mcp.transports.http import cors, listen_stream
from django_mcp.transports.http.listen_stream import ListenExchange
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import (
    ClientDisconnected,
    HeaderPairs,
    HttpError,
    HttpRequest,
)
from django_mcp.transports.http.response import JSON_HEADERS, HttpExchange, Send
from django_mcp.transports.http.session.handler import SessionHttp
from django_mcp.transports.http.sse_stream import AuthenticatedRequest

logger = logging.getLogger("django_mcp")


class HttpConsumer(AsyncConsumer):
    """One HTTP request to one Server: its authentication, and its rejection."""

    request: HttpRequest
    _send: Send
    _has_begun = False
    _request_id: RequestId | None = None
    """The id of the request, once it is parsed."""

    def __init__(self, *, server: Server, authentication: Authentication) -> None:
        self.server = server
        self.authentication = authentication

    def _read(self, scope: Any, receive: Any, send: Any) -> None:
        self.request = HttpRequest(scope, receive)
        self.request.authentication = self.authentication
        self._send = send

    def _check_origin(self) -> None:
        self.request.check_origin()
        origin = self.request.headers.get(b"origin")
        if origin is not None:
            self._send = cors.allowing(origin, self._send)

    def send_message(self, message: dict[str, Any]) -> Awaitable[None]:
        self._has_begun = True
        return self._send(message)

    async def _fail(self, error: Exception) -> None:
        """Answer with the error. It is raised for the server if the response has begun."""
        if isinstance(error, ClientDisconnected):
            return
        if self._has_begun:
            raise error
        if isinstance(error, HttpError):
            await self._reject(error.status, InvalidRequest(error.message), error.headers)
        elif isinstance(error, McpError):
            await self._reject(NEWEST.http_status(error), error)
        else:
            logger.error("An HTTP request could not be answered", exc_info=error)
            await self._reject(500, InternalError())

    async def _reject(self, status: int, error: McpError, headers: HeaderPairs = ()) -> None:
        body = jsonrpc.encode(jsonrpc.error(self._id_for(error), NEWEST.error(error)))
        exchange = HttpExchange(self._send, may_stream=False)
        exchange.status_of(error, NEWEST)  # It adds Retry-After.
        await exchange.respond(status, body, (*JSON_HEADERS, *headers))

    def _id_for(self, error: McpError) -> RequestId | None:
        """The id of the request that failed, if it could be read; it may not be parsed yet."""
        request_id: RequestId | None = getattr(error, "request_id", None)
        if request_id is None:
            request_id = self._request_id
        if request_id is None and self.request.content:
            with suppress(McpError):
                limit = conf.get().max_json_values
                message = jsonrpc.read(jsonrpc.decode_received(self.request.content, limit))
                request_id = message.id if isinstance(message, Request) else None
        return request_id


class StreamableHttpConsumer(HttpConsumer):
    accepts_stream = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._read(scope, receive, send)
        thread = threads.enter_scope()
        try:
            self._check_origin()
            if scope["method"] == "OPTIONS":
                await cors.preflight(self.request, self._send, ALLOWED)
                return
            verb = self._verb(scope["method"])
            self.principal = await self.request.authenticate()
            await verb(self)
        except Exception as error:
            await self._fail(error)
        finally:
            if (closing := thread.leave()) is not None:
                await closing

    def _verb(self, method: str) -> Verb:
        """The handler of an HTTP method; without sessions there is only POST (HTTP-15)."""
        stateless = method != "POST" and (
            self._is_stateless() or not self.server.revisions(Statefulness.SESSION)
        )
        verb = None if stateless else VERBS.get(method)
        if verb is None:
            allowed = b"POST" if stateless else ALLOWED
            raise HttpError(405, "This cannot be done here", ((b"allow", allowed),))
        return verb

    def _is_stateless(self) -> bool:
        """Whether the version header is that of a revision without sessions.

        A gateway may send it in an open session too, whose revision then holds.
        """
        request = self.request
        return (
            request_meta.is_stateless(request.version) and request.headers.get(SESSION_ID) is None
        )

    async def post(self) -> None:
        # First the body: errors of the other checks have the id of the request.
        site_settings = conf.get()
        late = self.request.read_body(site_settings.max_body_size)
        if late is not None:
            await late
        self.accepts_stream = self.request.check_media_types()
        value = jsonrpc.decode_received(self.request.content, site_settings.max_json_values)
        self.request.content = b""  # Its response may be a stream which is open for hours.
        if isinstance(value, list):
            await self.in_session().take_batch(value)
            return
        message = jsonrpc.read(value)
        self._request_id = message.id if isinstance(message, Request) else None
        del value  # A listen request may be waited for longer than its message has to be kept.
        if not isinstance(message, Response) and (
            request_meta.has_request_meta(message.params) or self._is_stateless()
        ):
            await self._stateless(message)
        else:
            await self.in_session().take(message)

    async def _stateless(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            # Ignored: clients choose the ids of their requests, so that a posted
            # cancellation could cancel the request of another caller (CAN-08).
            await self._exchange(None).respond(202, b"", ())
            return
        if message.method == listen_stream.METHOD:
            await self._listen(message)
            return
        exchange = self._exchange(self.request.headers)
        meta = self._read_meta(message)
        await self._monitored(frames.stateless(self._call(exchange), message, meta), exchange)

    def _read_meta(self, message: Request) -> request_meta.RequestMeta:
        server = self.server
        headers, versions = self.request.headers, server.options.versions
        return request_meta.read(message, headers, server.stateless, versions)

    async def _listen(self, message: Request) -> None:
        meta = self._read_meta(message)
        if not self.accepts_stream:
            raise HttpError(406, "Accept text/event-stream to listen")
        http = AuthenticatedRequest(
            self.request, self.send_message, self.principal, self.request.authenticate, self.server
        )
        exchange = ListenExchange(http)
        frame = frames.stateless(self._call(exchange), message, meta)
        reply = await handle.answer(frame, site.get())
        await exchange.finish(reply.message, exchange.status_of(reply.error, frame.revision))

    def in_session(self) -> SessionHttp:
        return SessionHttp(
            request=self.request,
            send=self.send_message,
            principal=self.principal,
            reauthenticate=self.request.authenticate,
            server=self.server,
            may_stream=self.accepts_stream,
        )

    def _exchange(self, request_headers: RequestHeaders | None) -> HttpExchange:
        exchange = HttpExchange(
            self.send_message, may_stream=self.accepts_stream, request_headers=request_headers
        )
        exchange.request = self.request
        return exchange

    def _call(self, exchange: Exchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    async def _monitored(self, frame: Frame, exchange: HttpExchange) -> None:
        monitor = CallMonitor(self.request.receive, frame, exchange)
        try:
            reply = await handle.answer(frame, site.get())
            status = 200 if reply.error is None else exchange.status_of(reply.error, frame.revision)
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            # HTTP cannot leave a cancelled request unanswered.
            reply, status = dispatcher.error_reply(frame, Cancelled()), 200
        finally:
            monitor.stop()
        await exchange.finish(reply.message, status)


Verb = Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]

VERBS: Mapping[str, Verb] = {
    "POST": StreamableHttpConsumer.post,
    "GET": lambda consumer: consumer.in_session().get(),
    "DELETE": lambda consumer: consumer.in_session().delete(),
}
ALLOWED = ", ".join(VERBS).encode()
