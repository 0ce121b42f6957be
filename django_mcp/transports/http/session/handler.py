"""The HTTP requests of a session: opening it, its messages, its streams, its end."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django_mcp import stores
from django_mcp.auth.base import Principal
from django_mcp.dispatch import call_log, visibility
from django_mcp.frame.session import Session
from django_mcp.protocol import headers, jsonrpc
from django_mcp.protocol.errors import InvalidRequest, McpError, UnsupportedProtocolVersion
from django_mcp.protocol.jsonrpc import Notification, Request, Response
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Revision, Statefulness
from django_mcp.pubsub import publisher
from django_mcp.pubsub.pending_requests import ResponseRoute, deliver
from django_mcp.server.server import Server
from django_mcp.stores.base import StoreFull
from django_mcp.transports import frames, session_engine, session_hooks
from django_mcp.transports.http.request import HttpError, HttpRequest, Receive
from django_mcp.transports.http.response import HttpExchange, Send
from django_mcp.transports.http.session import batch, get_stream
from django_mcp.transports.http.session.response import NotificationExchange, SessionExchange
from django_mcp.transports.http.sse_stream import Reauthenticate
from django_mcp.transports.session_engine import key_of
from django_mcp.transports.session_hooks import SessionWriter

logger = logging.getLogger("django_mcp")


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

    # One message.

    async def take(self, message: Request | Notification | Response) -> None:
        """Answer a request, or accept what is not answered."""
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
        key = key_of(message.id)
        frame = frames.in_session(self._call(exchange), message, session)
        if session.cancelled and session_engine.is_noted(session, key):
            session_engine.here().cancel(session.address, key, session_engine.GIVEN_UP)
        await session_engine.answer(frame, exchange, receive, key)

    async def _accept(self, message: Notification | Response, session: Session) -> None:
        """Take what is not answered; raises Refused for an answer to nothing (T-HTTP-15)."""
        if isinstance(message, Response):
            if not await deliver(ResponseRoute(self.server, session), message):
                raise HttpError(400, "This answers no request of ours")
        elif message.method == "notifications/initialized":
            await self._initialized(message, session)
        elif message.method == "notifications/cancelled":
            await session_engine.cancel(session, message.params)
        else:
            await session_hooks.notified(
                self._aside(session), message, session, self._keeper(session)
            )

    async def _initialized(self, message: Notification, session: Session) -> None:
        """Begin to announce, unless the server's author finds that the session must end."""
        call = self._aside(session)
        if await session_hooks.initialized(call, message, session, self._keeper(session)):
            await publisher.send_to_session(session.address, "initialized")
        else:
            await self._end(session)

    def _keeper(self, session: Session) -> SessionWriter:
        return SessionWriter(
            keep=lambda changes: stores.sessions().update(session.id, changes),
            tell=lambda changes: publisher.components_changed(
                self.server, session.address, changes
            ),
        )

    def _aside(self, session: Session) -> frames.IncomingRequest:
        """What a notification's Frame is made with."""
        response_route = ResponseRoute(self.server, session)
        return self._call(NotificationExchange(self._send, response_route=response_route))

    # Several messages.

    async def take_batch(self, values: Sequence[Any]) -> None:
        """Answer the requests of a batch, where the session's revision has batches."""
        if self.request.header(headers.SESSION_ID) is None:
            raise InvalidRequest(batch.NO_BATCHES)
        session = await self._session()
        revision = BY_VERSION[session.version]
        if not revision.has(Feature.BATCHES):
            raise InvalidRequest(batch.NO_BATCHES)
        messages, errors = batch.read(values)
        for message in messages:
            if not isinstance(message, Request):
                await self._accept(message, session)

        async def answer_one(request: Request, exchange: SessionExchange, receive: Receive) -> None:
            await self._answer(request, session, exchange, receive)

        await batch.answer(
            batch.requests_of(messages),
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
            await self._session()  # One that has ended is answered like any other request to it.
            raise InvalidRequest("This session is already open", request_id=request.id)
        exchange = self._plain()
        try:
            frame = frames.for_initialize(self._call(exchange), request)
        except McpError as error:
            spoken = (NEWEST, *self.server.revisions(Statefulness.SESSION))[-1]
            await self._fail(error, spoken, request.id)
            return
        reply = await frames.answer(frame)
        if reply.error is not None:
            await exchange.finish(reply.message)
            return
        session = frames.new_session(reply.frame, secrets.token_urlsafe(32))
        if not self.server.notify_lists_on_initialize:
            session = replace(
                session, active_stream={"position": await publisher.position(self.server)}
            )
        try:
            await stores.sessions().create(session)
        except StoreFull as error:
            raise HttpError(429, f"{error}: end one of them first") from error
        await call_log.session_started(reply.frame, session)
        exchange.add_header(headers.SESSION_ID, session.id.encode())
        await exchange.finish(reply.message)

    async def _session(self) -> Session:
        """The session which the request names; somebody else's is as unknown as none."""
        named = self.request.header(headers.SESSION_ID)
        if named is None:
            raise HttpError(400, "Open a session with initialize, and send its Mcp-Session-Id")
        session = await stores.sessions().load(named)
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
        """End the session, and everything that belongs to it."""
        await self._end(await self._session())
        await self._plain().respond(204, b"", ())

    async def _end(self, session: Session) -> None:
        await stores.sessions().delete(session.id)
        await call_log.session_ended(self.server, session)
        await session_engine.end_all(session)
        await stores.events().forget(session.address)

    # Its streams.

    async def get(self) -> None:
        """Open the session's own stream, or go on with one that was interrupted."""
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
        asked = Notification("notifications/resources/updated", {"uri": uri})
        frame = frames.in_session(self._call(self._exchange(session)), asked, session)
        return await visibility.is_readable(frame, uri)

    # Answering.

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
