"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It has a ``__call__`` of its own: that of ``AsyncHttpConsumer`` spends four fifths of the throughput
of a bare application on a channel and a dispatch loop per request, and receives nothing while a
handler runs. This one uses the channel layer only where a call needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from channels.consumer import AsyncConsumer

from django_mcp import conf
from django_mcp.auth.base import Authenticator, Challenge, Principal
from django_mcp.dispatch import dispatcher, handle
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.frame import Frame
from django_mcp.protocol import jsonrpc, request_meta
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest, McpError
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId, Response
from django_mcp.protocol.revisions import NEWEST
from django_mcp.server.server import Server
from django_mcp.transports import frames, site
from django_mcp.transports.http import listen_stream
from django_mcp.transports.http.listen_stream import ListenExchange
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import HeaderPairs, HttpError, HttpRequest
from django_mcp.transports.http.response import JSON_HEADERS, HttpExchange, Send
from django_mcp.transports.http.session.handler import SessionHttp
from django_mcp.transports.http.sse_stream import AuthenticatedRequest

logger = logging.getLogger("django_mcp")


class HttpConsumer(AsyncConsumer):
    """One HTTP request to one Server: its authentication, and its rejection."""

    request: HttpRequest
    _send: Send

    def __init__(self, *, server: Server, authenticators: tuple[Authenticator, ...]) -> None:
        self.server = server
        self.authenticators = authenticators

    async def _authenticate(self) -> Principal:
        for authenticator in self.authenticators:
            found = await authenticator.authenticate(self.request.scope)
            if isinstance(found, Principal):
                return found
            if isinstance(found, Challenge):
                raise HttpError(found.status, found.message, found.headers)
        raise HttpError(401, "Authentication required")

    async def _reject(self, status: int, error: McpError, headers: HeaderPairs) -> None:
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(error)))
        await HttpExchange(self._send, may_stream=False).respond(status, body, headers)


class StreamableHttpConsumer(HttpConsumer):
    accepts_stream = True
    _has_begun = False
    _request_id: RequestId | None = None
    """The id of a stateless request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.request = HttpRequest(scope, receive)
        self._send = send
        try:
            self.request.check_origin()
            verb = self._verb(scope["method"])
            self.principal = await self._authenticate()
            await verb(self)
        except HttpError as error:
            headers = (*JSON_HEADERS, *error.headers)
            await self._reject(error.status, InvalidRequest(error.message), headers)
        except McpError as error:
            await self._fail(error)
        except Exception:
            # A response that is interrupted, by a disconnect for instance, is left to the server.
            if self._has_begun:
                raise
            logger.exception("An HTTP request could not be answered")
            await self._reject(500, InternalError(), JSON_HEADERS)

    def send_message(self, message: dict[str, Any]) -> Awaitable[None]:
        self._has_begun = True
        return self._send(message)

    def _verb(self, method: str) -> Verb:
        """The handler of an HTTP method; without sessions there is only POST (HTTP-15)."""
        stateless = method != "POST" and request_meta.is_stateless(self.request.version)
        verb = None if stateless else VERBS.get(method)
        if verb is None:
            allowed = b"POST" if stateless else ALLOWED
            raise HttpError(405, "This cannot be done here", ((b"allow", allowed),))
        return verb

    async def post(self) -> None:
        self.accepts_stream = self.request.check_media_types()
        site_settings = conf.get()
        body = await self.request.body(site_settings.max_body_size)
        value = jsonrpc.decode_received(body, site_settings.max_json_values)
        if isinstance(value, list):
            await self.in_session().take_batch(value)
            return
        message = jsonrpc.read(value)
        if not isinstance(message, Response) and (
            request_meta.has_request_meta(message.params)
            or request_meta.is_stateless(self.request.version)
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
        self._request_id = message.id
        if message.method == listen_stream.METHOD:
            await self._listen(message)
            return
        exchange = self._exchange(self.request.headers)
        meta = request_meta.read(message, self.request.headers, self.server.stateless)
        await self._monitored(frames.stateless(self._call(exchange), message, meta), exchange)

    async def _listen(self, message: Request) -> None:
        meta = request_meta.read(message, self.request.headers, self.server.stateless)
        if not self.accepts_stream:
            raise HttpError(406, "Accept text/event-stream to listen")
        http = AuthenticatedRequest(
            self.request, self.send_message, self.principal, self._authenticate
        )
        exchange = ListenExchange(http)
        frame = frames.stateless(self._call(exchange), message, meta)
        reply = await handle.answer(frame, site.get())
        status = 200 if reply.error is None else frame.revision.http_status(reply.error)
        await exchange.finish(reply.message, status)

    def in_session(self) -> SessionHttp:
        return SessionHttp(
            request=self.request,
            send=self.send_message,
            principal=self.principal,
            reauthenticate=self._authenticate,
            server=self.server,
            may_stream=self.accepts_stream,
        )

    def _exchange(self, request_headers: RequestHeaders | None) -> HttpExchange:
        return HttpExchange(
            self.send_message, may_stream=self.accepts_stream, request_headers=request_headers
        )

    def _call(self, exchange: Exchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    async def _monitored(self, frame: Frame, exchange: HttpExchange) -> None:
        monitor = CallMonitor(self.request.receive, frame, exchange)
        try:
            reply = await handle.answer(frame, site.get())
            status = 200 if reply.error is None else frame.revision.http_status(reply.error)
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            # HTTP cannot leave a cancelled request unanswered.
            reply, status = dispatcher.error_reply(frame, Cancelled()), 200
        finally:
            monitor.stop()
        await exchange.finish(reply.message, status)

    async def _fail(self, error: McpError) -> None:
        request_id = self._request_id
        if request_id is None:
            request_id = getattr(error, "request_id", None)
        message = jsonrpc.error(request_id, NEWEST.error(error))
        await self._exchange(None).finish(message, NEWEST.http_status(error))


Verb = Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]

VERBS: Mapping[str, Verb] = {
    "POST": StreamableHttpConsumer.post,
    "GET": lambda consumer: consumer.in_session().get(),
    "DELETE": lambda consumer: consumer.in_session().delete(),
}
ALLOWED = ", ".join(VERBS).encode()
