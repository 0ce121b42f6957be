"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It reads a request, finds out who sent it, and hands the message to the conversation. It is a
Channels consumer whose ``__call__`` is its own: the stock one spends four fifths of what a
bare application can do on a channel and a dispatch loop per request, and hears nothing else
while a handler runs. This one joins the channel layer only for what has to arrive through it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from channels.consumer import AsyncConsumer

from django_mcp import conf, stores
from django_mcp.auth.base import Authenticator, Challenge, Principal
from django_mcp.dispatch import dispatcher
from django_mcp.frame.exchange import Exchange
from django_mcp.frame.frame import Frame
from django_mcp.protocol import headers, jsonrpc, request_meta, sse
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Notification, Request, Response
from django_mcp.protocol.revisions import NEWEST, Revision
from django_mcp.server.server import Server
from django_mcp.transports import frames
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
        """Answer the request; whatever goes wrong becomes an answer as well."""
        self.request = HttpRequest(scope, receive)
        self._send = send
        self._has_begun = False
        try:
            self.request.check_origin()
            verb = self._verb(scope["method"])
            self.principal = await self._authenticate()
            await verb(self)
        except HttpError as refused:
            await self._refuse(refused)
        except McpError as error:
            await self._fail(error, NEWEST, getattr(error, "request_id", None))
        except Exception:
            # What breaks off a response, a client that went for instance, is the server's business.
            if self._has_begun:
                raise
            await self._break_down()

    def send_message(self, message: dict[str, Any]) -> Awaitable[None]:
        """Hand a part of the response to the server."""
        self._has_begun = True
        sent: Awaitable[None] = self._send(message)
        return sent

    def _verb(self, method: str) -> Verb:
        """What the request does; without sessions there is only one thing to do (HTTP-15)."""
        stateless = method != "POST" and request_meta.is_stateless(self.request.version)
        verb = None if stateless else VERBS.get(method)
        if verb is None:
            allowed = b"POST" if stateless else ALLOWED
            raise HttpError(405, "This cannot be done here", ((b"allow", allowed),))
        return verb

    # Who calls.

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
        """Take one message, or in the revision that has them a batch of several."""
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
            await self._enveloped(message)
        else:
            await self._in_session().take(message)

    # POST, stateless: the message says everything about itself.

    async def _enveloped(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            # Nothing to act upon: ids are chosen by clients, so that to honour a posted
            # cancellation would let one caller cancel another's work (CAN-08).
            await self._accepted()
            return
        if message.method == listen_stream.METHOD:
            await self._listen(message)
            return
        exchange = self._exchange(self.request.headers)
        try:
            opened = request_meta.read(message, self.request.headers, self.server.stateless)
            frame = frames.stateless(self._call(exchange), message, opened)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        await self._watched(frame, exchange)

    async def _listen(self, message: Request) -> None:
        """Keep a stream open for announcements; nothing ends it but its two sides."""
        exchange = ListenExchange(
            self.request.headers,
            send=self.send_message,
            receive=self.request.receive,
            principal=self.principal,
            reauthenticate=self._authenticate,
        )
        try:
            opened = request_meta.read(message, self.request.headers, self.server.stateless)
            if not self.accepts_stream:
                raise HttpError(406, "Accept text/event-stream to listen")
            frame = frames.stateless(self._call(exchange), message, opened)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        reply = await frames.answer(frame)
        if exchange.stream is not None:
            await exchange.stream.finish(sse.event(dispatcher.encode(reply.message)))
        else:
            assert reply.error is not None
            status = frame.revision.http_status(reply.error)
            await self._exchange(None).finish(reply.message, status)

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

    def _exchange(self, mirrored: headers.RequestHeaders | None) -> HttpExchange:
        return HttpExchange(
            self.send_message, may_stream=self.accepts_stream, request_headers=mirrored
        )

    def _call(self, exchange: Exchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(self.server, self.request.caller(self.principal), exchange)

    async def _watched(self, frame: Frame, exchange: HttpExchange) -> None:
        """Answer the request on ``frame``, for as long as somebody waits for the answer."""
        site = conf.get()
        watch = CallMonitor(
            self.request.receive,
            frame,
            exchange,
            timeout=site.handler_timeout,
            keepalive=site.sse_ping_interval,
        )
        try:
            reply = await frames.answer(frame)
            if reply.frame.changes:
                await frames.commit(stores.sessions, reply)
        except asyncio.CancelledError:
            if watch.ended_by is None:
                raise
            watch.uncancel()
            await self._end(frame, exchange)
            return
        finally:
            watch.stop()
        status = 200 if reply.error is None else frame.revision.http_status(reply.error)
        await exchange.finish(reply.message, status)

    async def _end(self, frame: Frame, exchange: HttpExchange) -> None:
        """End the response of a cancelled request, which HTTP cannot leave unanswered."""
        assert frame.request is not None
        error = jsonrpc.error(frame.request.id, frame.revision.error(Cancelled()))
        await exchange.finish(error)

    async def _accepted(self) -> None:
        await self._exchange(None).respond(202, b"", ())

    async def _fail(self, error: McpError, revision: Revision, identity: Any) -> None:
        message = jsonrpc.error(identity, revision.error(error))
        await self._exchange(None).finish(message, revision.http_status(error))

    async def _break_down(self) -> None:
        """Say of what is broken here no more than that; the log says what it is."""
        logger.exception("An HTTP request could not be answered")
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(InternalError())))
        await self._exchange(None).respond(500, body)

    async def _refuse(self, refused: HttpError) -> None:
        error = InvalidRequest(refused.message)
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(error)))
        pairs = (*JSON_HEADERS, *refused.headers)
        await self._exchange(None).respond(refused.status, body, pairs)


Verb = Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]

VERBS: Mapping[str, Verb] = {
    "POST": StreamableHttpConsumer.post,
    "GET": StreamableHttpConsumer.get,
    "DELETE": StreamableHttpConsumer.delete,
}
ALLOWED = ", ".join(VERBS).encode()
