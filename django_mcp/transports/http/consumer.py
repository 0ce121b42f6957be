"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It reads a request, authenticates its sender and passes the message on. It is a Channels
consumer with a ``__call__`` of its own: that of ``AsyncHttpConsumer`` spends four fifths of the
throughput of a bare application on a channel and a dispatch loop per request, and receives
nothing while a handler runs. This one uses the channel layer only where a call needs it.
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
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.frame import Frame
from django_mcp.protocol import headers, jsonrpc, request_meta, sse
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Notification, Request, Response
from django_mcp.protocol.revisions import NEWEST, Revision
from django_mcp.server.server import Server
from django_mcp.transports import frames, site
from django_mcp.transports.http import listen_stream
from django_mcp.transports.http.listen_stream import ListenExchange
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import HttpError, HttpRequest
from django_mcp.transports.http.response import JSON_HEADERS, HttpExchange
from django_mcp.transports.http.session.handler import SessionHttp

logger = logging.getLogger("django_mcp")


class StreamableHttpConsumer(AsyncConsumer):
    """One HTTP request to one Server."""

    def __init__(self, *, server: Server, authenticators: tuple[Authenticator, ...]) -> None:
        self.server = server
        self.authenticators = authenticators
        self.accepts_stream = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer the request; errors are answered as well."""
        self.request = HttpRequest(scope, receive)
        self._send = send
        self._has_begun = False
        try:
            self.request.check_origin()
            verb = self._verb(scope["method"])
            self.principal = await self._authenticate()
            await verb(self)
        except HttpError as error:
            await self._reject(error)
        except McpError as error:
            await self._fail(error, NEWEST, getattr(error, "request_id", None))
        except Exception:
            # A response that is interrupted, by a disconnect for instance, is left to the server.
            if self._has_begun:
                raise
            await self._fail_internally()

    def send_message(self, message: dict[str, Any]) -> Awaitable[None]:
        """Send a part of the response."""
        self._has_begun = True
        sent: Awaitable[None] = self._send(message)
        return sent

    def _verb(self, method: str) -> Verb:
        """The handler of an HTTP method; without sessions there is only POST (HTTP-15)."""
        stateless = method != "POST" and request_meta.is_stateless(self.request.version)
        verb = None if stateless else VERBS.get(method)
        if verb is None:
            allowed = b"POST" if stateless else ALLOWED
            raise HttpError(405, "This cannot be done here", ((b"allow", allowed),))
        return verb

    # Authentication.

    async def _authenticate(self) -> Principal:
        for authenticator in self.authenticators:
            found = await authenticator.authenticate(self.request.scope)
            if isinstance(found, Principal):
                return found
            if isinstance(found, Challenge):
                raise HttpError(found.status, found.message, found.headers)
        raise HttpError(401, "Authentication required")

    # POST

    async def post(self) -> None:
        """Read one message, or a batch in the revision that has them."""
        self.accepts_stream = self.request.check_media_types()
        value = jsonrpc.decode(await self.request.body(conf.get().max_body_size))
        if isinstance(value, list):
            await self._in_session().take_batch(value)
            return
        message = jsonrpc.read(value)
        if isinstance(message, Response):
            await self._in_session().take(message)
        elif request_meta.has_request_meta(message.params) or request_meta.is_stateless(
            self.request.version
        ):
            await self._stateless(message)
        else:
            await self._in_session().take(message)

    # POST, stateless: the message carries its own metadata.

    async def _stateless(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            # Ignored: clients choose the ids of their requests, so that a posted
            # cancellation could cancel the request of another caller (CAN-08).
            await self._accepted()
            return
        if message.method == listen_stream.METHOD:
            await self._listen(message)
            return
        exchange = self._exchange(self.request.headers)
        try:
            meta = request_meta.read(message, self.request.headers, self.server.stateless)
            frame = frames.stateless(self._call(exchange), message, meta)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        await self._monitored(frame, exchange)

    async def _listen(self, message: Request) -> None:
        """Keep a stream open for notifications, until the client or the server closes it."""
        exchange = ListenExchange(
            self.request.headers,
            send=self.send_message,
            receive=self.request.receive,
            principal=self.principal,
            reauthenticate=self._authenticate,
        )
        try:
            meta = request_meta.read(message, self.request.headers, self.server.stateless)
            if not self.accepts_stream:
                raise HttpError(406, "Accept text/event-stream to listen")
            frame = frames.stateless(self._call(exchange), message, meta)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        reply = await handle.answer(frame, site.get())
        if exchange.stream is not None:
            await exchange.stream.finish(sse.event(dispatcher.encode(reply.message)))
        else:
            await self._finish(self._exchange(None), frame.revision, reply)

    # In a session.

    async def get(self) -> None:
        """Open a stream of a session."""
        await self._in_session().get()

    async def delete(self) -> None:
        """End a session."""
        await self._in_session().delete()

    def _in_session(self) -> SessionHttp:
        return SessionHttp(
            server=self.server,
            request=self.request,
            send=self.send_message,
            principal=self.principal,
            reauthenticate=self._authenticate,
            may_stream=self.accepts_stream,
        )

    # Answering.

    def _exchange(self, request_headers: headers.RequestHeaders | None) -> HttpExchange:
        return HttpExchange(
            self.send_message, may_stream=self.accepts_stream, request_headers=request_headers
        )

    def _call(self, exchange: Exchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    async def _monitored(self, frame: Frame, exchange: HttpExchange) -> None:
        """Answer the request on ``frame``, until the client disconnects or it times out."""
        settings = conf.get()
        monitor = CallMonitor(
            self.request.receive,
            frame,
            exchange,
            timeout=settings.handler_timeout,
            keepalive=settings.sse_ping_interval,
        )
        try:
            reply = await handle.answer(frame, site.get())
        except asyncio.CancelledError:
            if monitor.ended_by is None:
                raise
            monitor.uncancel()
            # HTTP cannot leave a cancelled request unanswered.
            await exchange.finish(dispatcher.error_reply(frame, Cancelled()).message)
            return
        finally:
            monitor.stop()
        await self._finish(exchange, frame.revision, reply)

    async def _finish(self, exchange: HttpExchange, revision: Revision, reply: Reply) -> None:
        status = 200 if reply.error is None else revision.http_status(reply.error)
        await exchange.finish(reply.message, status)

    async def _accepted(self) -> None:
        await self._exchange(None).respond(202, b"", ())

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        message = jsonrpc.error(identity, revision.error(error))
        await self._exchange(None).finish(message, revision.http_status(error))

    async def _fail_internally(self) -> None:
        """Answer with an error without details, which are logged."""
        logger.exception("An HTTP request could not be answered")
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(InternalError())))
        await self._exchange(None).respond(500, body)

    async def _reject(self, error: HttpError) -> None:
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(InvalidRequest(error.message))))
        pairs = (*JSON_HEADERS, *error.headers)
        await self._exchange(None).respond(error.status, body, pairs)


Verb = Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]

VERBS: Mapping[str, Verb] = {
    "POST": StreamableHttpConsumer.post,
    "GET": StreamableHttpConsumer.get,
    "DELETE": StreamableHttpConsumer.delete,
}
ALLOWED = ", ".join(VERBS).encode()
