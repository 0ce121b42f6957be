"""A connection in memory: calls of the session engine, in the task of the test."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import Any, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.dispatch.reply import Reply, encode_reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import Cancelled, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Notification, Request
from django_mcp.protocol.revisions import NEWEST
from django_mcp.protocol.subscriptions import UPDATED
from django_mcp.pubsub import announcements, bus, pending_requests, publisher
from django_mcp.pubsub.pending_requests import ConnectionRoute
from django_mcp.server.server import Server
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.testing.asgi import Message, http_scope
from django_mcp.testing.connections.base import Connection, Facts, Listener, forever
from django_mcp.transports import frames, site
from django_mcp.transports.connection.request import TIMED_OUT, ConnectionExchange
from django_mcp.transports.http.request import ScopeTransport
from django_mcp.transports.session_engine import CLIENT_CANCELLED, NO_BATCHES, SessionEngine


class MemoryExchange(ConnectionExchange):
    """The Exchange of one request whose client responds in the same task."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(self._receive, ConnectionRoute())
        self._listener = listener

    async def send_request(self, method: str, params: Message, /, *, timeout: float) -> Any:
        encoded = jsonrpc.encode(jsonrpc.request(f"question-{next(NUMBERS)}", method, params))
        async with asyncio.timeout(timeout):
            response = await self._listener.answer_request(jsonrpc.decode(encoded))
        return pending_requests.read(response)

    def _receive(self, encoded: bytes) -> None:
        self._listener.receive_notification(jsonrpc.decode(encoded))


NUMBERS = count(1)
"""Of the requests to clients; none is used twice."""


class MemoryConnection(Connection):
    """Calls of the session engine. A handler receives a request over HTTP to ``testserver``.

    It is no ``transports.connection``, which lives in one event loop: each call of a SyncClient
    has a loop of its own, and a request is answered in the task, and on the thread, of its caller.
    """

    name = "memory"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        self._store = MemorySessionStore(
            idle_timeout=inf, initialize_timeout=inf, limit_per_principal=1
        )
        functions = replace(site.get(), commit=self._commit, publish=self._publish)
        self._engine = SessionEngine(functions, self._store, is_shared=False)
        scope = http_scope(path=facts.path, headers=facts.headers, query=facts.query)
        self._origin = frames.RequestOrigin(
            principal=facts.principal or Principal(scheme="memory", user=AnonymousUser()),
            transport=ScopeTransport(scope),
            session=facts.session,
        )

    async def send(self, data: bytes) -> Message | None:
        try:
            value = jsonrpc.decode(data)
            if isinstance(value, list):
                raise InvalidRequest(NO_BATCHES)
            message = jsonrpc.read(value)
        except McpError as error:
            return error.to_json_rpc(getattr(error, "request_id", None), NEWEST)
        exchange = MemoryExchange(self.listener)
        call = frames.IncomingRequest(self.facts.server, self._origin, exchange)
        session = await self._store.load(self.session_id or "")
        if isinstance(message, Request):
            return await self._answer(call, message, session)
        if isinstance(message, Notification) and session is not None:
            if message.method != "notifications/initialized":
                await self._engine.notified(call, message, session)
            elif not await self._engine.initialized(call, message, session):
                await self._store.delete(session.id)
        return None

    async def listen(self, ready: Callable[[], None]) -> None:
        session = await self._store.load(self.session_id or "")
        assert session is not None
        group = publisher.of_session(session.address)
        server = self.facts.server
        try:
            await bus.here().subscribe(group, self._receive)
            for uri in (None, *session.subscriptions):
                await announcements.here().subscribe(server, uri, self._receive)
            ready()
            await forever()
        finally:
            bus.here().unsubscribe(group, self._receive)
            for uri in (None, *session.subscriptions):
                announcements.here().unsubscribe(server, uri, self._receive)

    def _receive(self, message: bus.Message) -> None:
        """Receive a notification of the server, of this session or of a resource."""
        if "text" in message:
            self.listener.receive_notification(json.loads(message["text"]))
        elif "said" in message:
            self.listener.receive_notification(message["said"])
        elif "uri" in message:
            updated = jsonrpc.notification(UPDATED, {"uri": message["uri"]})
            self.listener.receive_notification(updated)

    async def _answer(
        self, call: frames.IncomingRequest, request: Request, session: Session | None
    ) -> Message:
        try:
            frame = frames.of_request(call, request, session)
            async with asyncio.timeout(conf.get().handler_timeout):
                reply = await self._reply(frame)
        except McpError as error:
            return error.to_json_rpc(request.id, self.listener.revision)
        except TimeoutError:
            call.cancellation.request(TIMED_OUT)
            return Cancelled().to_json_rpc(request.id, self.listener.revision)
        except asyncio.CancelledError:
            call.cancellation.request(CLIENT_CANCELLED)
            raise
        return cast(Message, jsonrpc.decode(encode_reply(reply.message, reply.frame.message)))

    async def _reply(self, frame: Frame) -> Reply:
        if frame.message.method != "initialize":
            return await self._engine.answer(frame)
        session_id = publisher.CONNECTION_BOUND.join(("memory", secrets.token_urlsafe(9)))
        reply, session = await self._engine.open(frame, session_id)
        self.session_id = None if session is None else session.id
        return reply

    async def _commit(self, session_id: str, _: str, changes: Sequence[Change]) -> Session | None:
        return await self._store.update(session_id, changes)

    async def _publish(self, server: Server, _: str, changes: Sequence[Change]) -> None:
        for message in publisher.lists_changed(server, changes):
            self.listener.receive_notification(message)
