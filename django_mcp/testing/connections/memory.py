"""A connection in memory: calls of the session engine, in the task of the test."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf
from django_mcp.core.auth import selection
from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change, Session
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import Notification, Request
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.protocol.subscriptions import UPDATED
from django_mcp.core.server.server import Server
from django_mcp.pubsub import announcements, bus, pending_requests, session_messages
from django_mcp.pubsub.pending_requests import ConnectionRoute
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.testing.asgi import Message, http_scope
from django_mcp.testing.connections.base import Connection, Facts, forever
from django_mcp.transports import frames, site
from django_mcp.transports.connection.request import ConnectionExchange, yield_once
from django_mcp.transports.http.request import ScopeTransport
from django_mcp.transports.session_engine import CLIENT_CANCELLED, NO_BATCHES, SessionEngine

if TYPE_CHECKING:
    from django_mcp.testing.client import Client


class MemoryExchange(ConnectionExchange):
    """A message whose client responds in the same task."""

    listener: Client

    def connect_to(self, listener: Client) -> None:
        self.listener = listener
        self.connect(self._receive, ConnectionRoute(), yield_once)

    async def send_request(self, method: str, params: Message, /, *, timeout: float) -> Any:
        encoded = jsonrpc.encode(jsonrpc.request(f"question-{next(NUMBERS)}", method, params))
        async with asyncio.timeout(timeout):
            response = await self.listener.answer_request(jsonrpc.decode(encoded))
        return pending_requests.read(response)

    def _receive(self, encoded: bytes) -> None:
        self.listener.receive_notification(jsonrpc.decode(encoded))


NUMBERS = count(1)
"""Of the requests to clients; none is used twice."""


class MemoryConnection(Connection):
    """Calls of the session engine. A handler receives a request over HTTP to ``testserver``.

    It is not a ``transports.connection``, which lives in one event loop: each call of a SyncClient
    has a loop of its own, and a request is answered in the task, and on the thread, of its caller.
    """

    name = "memory"

    def __init__(self, facts: Facts, listener: Client) -> None:
        super().__init__(facts, listener)
        self._store = MemorySessionStore(
            idle_timeout=inf, initialize_timeout=inf, limit_per_principal=1
        )
        functions = replace(site.get(), commit=self._commit, publish=self._publish)
        self._engine = SessionEngine(functions, self._store, is_shared=False)
        scope = http_scope(path=facts.path, headers=facts.headers, query=facts.query)
        principal = facts.principal or Principal(scheme="memory", user=AnonymousUser())
        selected = selection.narrowed(principal.selection, facts.query.encode())
        self._principal = replace(principal, selection=selected)
        self._transport = ScopeTransport(scope)

    async def send(self, data: bytes) -> Message | None:
        try:
            value = jsonrpc.decode(data)
            if isinstance(value, list):
                raise InvalidRequest(NO_BATCHES)
            message = jsonrpc.read(value)
        except McpError as error:
            return error.to_json_rpc(getattr(error, "request_id", None), NEWEST)
        facts = self.facts
        call = MemoryExchange(facts.server, self._principal, self._transport, facts.session)
        call.connect_to(self.listener)
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
        group = session_messages.of_session(session.address)
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
        elif "uri" in message:
            updated = jsonrpc.notification(UPDATED, {"uri": message["uri"]})
            self.listener.receive_notification(updated)

    async def _answer(
        self, call: MemoryExchange, request: Request, session: Session | None
    ) -> Message:
        try:
            frame = frames.of_request(call, request, session)
            with call.time_limit(conf.get().handler_timeout):
                body = await self._reply(frame)
        except McpError as error:
            return error.to_json_rpc(request.id, self.listener.revision)
        except asyncio.CancelledError:
            call.request(CLIENT_CANCELLED)
            raise
        return cast(Message, jsonrpc.decode(body))

    async def _reply(self, frame: Frame) -> bytes:
        if frame.message.method != "initialize":
            return await self._engine.answer(frame)
        session_id = session_messages.CONNECTION_BOUND.join(("memory", secrets.token_urlsafe(9)))
        body, session = await self._engine.open(frame, session_id)
        self.session_id = None if session is None else session.id
        return body

    async def _commit(self, session_id: str, _: str, changes: Sequence[Change]) -> Session | None:
        return await self._store.update(session_id, changes)

    async def _publish(self, server: Server, _: str, changes: Sequence[Change]) -> None:
        for message in session_messages.lists_changed(server, changes):
            self.listener.receive_notification(message)
