"""The consumer for streamable HTTP: POST, GET and DELETE on one endpoint.

It reads a request, finds out who sent it, and hands the message to the conversation. It is a
Channels consumer whose ``__call__`` is its own: the stock one spends four fifths of what a
bare application can do on a channel and a dispatch loop per request, and hears nothing else
while a handler runs. This one joins the channel layer only for what has to arrive through it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from channels.consumer import AsyncConsumer

from django_mcp import conf, stores
from django_mcp.auth.base import Authenticator, Challenge, Principal
from django_mcp.frame import Frame
from django_mcp.protocol import envelope, headers, jsonrpc
from django_mcp.protocol.errors import (
    Cancelled,
    InvalidRequest,
    McpError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import Notification, Request, Response
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Opening, Revision
from django_mcp.server import Server
from django_mcp.session import Session
from django_mcp.transports import base
from django_mcp.transports.http_exchange import HttpExchange
from django_mcp.transports.http_request import HttpRequest, Refused, ScopeTransport
from django_mcp.transports.watch import Watch


class StreamableHttpConsumer(AsyncConsumer):
    """One HTTP request to one Server."""

    def __init__(self, *, server: Server, authenticators: tuple[Authenticator, ...]) -> None:
        self.server = server
        self.authenticators = authenticators
        self.accepts_stream = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer the request; whatever goes wrong becomes an answer as well."""
        self.request = HttpRequest(scope, receive)
        self.send_message = send
        try:
            verb = VERBS.get(scope["method"])
            if verb is None:
                raise Refused(405, "Use POST", ((b"allow", ALLOWED),))
            self.request.check_origin(conf.get().allowed_origins)
            self.principal = await self._authenticate()
            await verb(self)
        except Refused as refused:
            await self._refuse(refused)
        except McpError as error:
            await self._fail(error, NEWEST, getattr(error, "request_id", None))

    # Who calls.

    async def _authenticate(self) -> Principal:
        for authenticator in self.authenticators:
            found = await authenticator.authenticate(self.request.scope)
            if isinstance(found, Principal):
                return found
            if isinstance(found, Challenge):
                raise Refused(found.status, found.message, found.headers)
        raise Refused(401, "Authentication required")

    # POST

    async def post(self) -> None:
        """Take one message, or in the revision that has them a batch of several."""
        self.accepts_stream = self.request.check_media_types()
        value = jsonrpc.decode(await self.request.body(conf.get().max_body_size))
        if isinstance(value, list):
            raise InvalidRequest("Send one message at a time: this revision has no batches")
        message = jsonrpc.read(value)
        if isinstance(message, Response):
            await self._answered(message)
        elif envelope.is_enveloped(message.params, self.request.version):
            await self._enveloped(message)
        else:
            await self._in_session(message)

    # POST, stateless: the message says everything about itself.

    async def _enveloped(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            # Nothing to act upon: ids are chosen by clients, so that to honour a posted
            # cancellation would let one caller cancel another's work (CAN-08).
            await self._accepted()
            return
        exchange = self._exchange(self.request.headers)
        try:
            opened = envelope.read(message, self.request.headers, self.server.stateless)
            frame = base.enveloped(self._call(exchange), message, opened)
        except McpError as error:
            await self._fail(error, NEWEST, message.id)
            return
        await self._answer(frame, exchange)

    # POST, in a session.

    async def _in_session(self, message: Request | Notification) -> None:
        if message.method == "initialize" and isinstance(message, Request):
            await self._initialize(message)
            return
        session = await self._session()
        exchange = self._exchange(None)
        if isinstance(message, Notification):
            await self._notified(message, session)
            return
        revision = BY_VERSION[session.version]
        try:
            frame = base.in_session(self._call(exchange), message, session)
        except McpError as error:
            await self._fail(error, revision, message.id)
            return
        await self._answer(frame, exchange)

    async def _initialize(self, request: Request) -> None:
        if self.request.header(headers.SESSION_ID) is not None:
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self._exchange(None)
        reply = await base.answer(base.opening(self._call(exchange), request))
        if reply.error is not None:
            await exchange.finish(reply.message)
            return
        session = base.new_session(reply.frame, secrets.token_urlsafe(32))
        await stores.sessions().create(session)
        exchange.add_header(headers.SESSION_ID, session.id.encode())
        await exchange.finish(reply.message)

    async def _session(self) -> Session:
        """The session which the request names; somebody else's is as unknown as none."""
        named = self.request.header(headers.SESSION_ID)
        if named is None:
            raise Refused(400, "Open a session with initialize, and send its Mcp-Session-Id")
        session = await stores.sessions().load(named)
        if (
            session is None
            or session.principal != self.principal.key
            or session.server != self.server.name
        ):
            raise Refused(404, "This session has ended: open a new one with initialize")
        self._check_version_header(session)
        return session

    def _check_version_header(self, session: Session) -> None:
        version = self.request.version
        if version is None or version == session.version:
            return
        if BY_VERSION.get(version) in self.server.revisions(Opening.HANDSHAKE):
            raise Refused(400, f"This session speaks {session.version}, not {version}")
        raise UnsupportedProtocolVersion(
            data={
                "supported": [item.version for item in self.server.revisions(Opening.ENVELOPE)],
                "requested": version,
            }
        )

    async def _notified(self, message: Notification, session: Session) -> None:
        if message.method == "notifications/initialized":
            await stores.sessions().update(session.id, [base.INITIALIZED])
        await self._accepted()

    async def _answered(self, message: Response) -> None:
        await self._session()
        await self._accepted()

    # DELETE

    async def delete(self) -> None:
        """End the session."""
        session = await self._session()
        await stores.sessions().delete(session.id)
        await self._exchange(None).respond(204, b"", ())

    # Answering.

    def _exchange(self, mirrored: headers.Mirrored | None) -> HttpExchange:
        return HttpExchange(self.send_message, may_stream=self.accepts_stream, mirrored=mirrored)

    def _call(self, exchange: HttpExchange) -> base.Call:
        caller = base.Caller(
            principal=self.principal,
            transport=ScopeTransport(self.request.scope),
            session=self.request.browser_session(),
        )
        return base.Call(server=self.server, caller=caller, exchange=exchange)

    async def _answer(self, frame: Frame, exchange: HttpExchange) -> None:
        """Answer the request on ``frame``, for as long as somebody waits for the answer.

        Without sessions, a closed connection cancels the request. In a session it does not
        (T-HTTP-28): there the work goes on in a task of its own, whatever the server does to
        the task of the connection.
        """
        if frame.revision.has(Feature.DISCONNECT_CANCELS):
            await self._watched(frame, exchange)
        else:
            await asyncio.shield(asyncio.ensure_future(self._watched(frame, exchange)))

    async def _watched(self, frame: Frame, exchange: HttpExchange) -> None:
        site = conf.get()
        watch = Watch(
            self.request.receive,
            frame,
            exchange,
            timeout=site.call_timeout,
            keepalive=site.keepalive_interval,
        )
        try:
            reply = await base.answer(frame)
            await base.commit(stores.sessions, reply)
        except asyncio.CancelledError:
            if watch.ended_by is None:
                raise
            watch.forgive()
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

    async def _refuse(self, refused: Refused) -> None:
        error = InvalidRequest(refused.message)
        body = jsonrpc.encode(jsonrpc.error(None, NEWEST.error(error)))
        await self._exchange(None).respond(
            refused.status, body, ((b"content-type", b"application/json"), *refused.headers)
        )


VERBS: Mapping[str, Callable[[StreamableHttpConsumer], Coroutine[Any, Any, None]]] = {
    "POST": StreamableHttpConsumer.post,
    "DELETE": StreamableHttpConsumer.delete,
}
ALLOWED = ", ".join(VERBS).encode()
