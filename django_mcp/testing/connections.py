"""The connections of a test client to its server, all in this process: memory, HTTP and stdio."""

from __future__ import annotations

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from types import SimpleNamespace
from typing import Any, BinaryIO, ClassVar, Protocol, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf, registry, routing
from django_mcp.auth.base import Principal
from django_mcp.components.tool import ToolComponent
from django_mcp.dispatch.reply import Reply, encode_reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import headers, jsonrpc
from django_mcp.protocol.errors import Cancelled, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId
from django_mcp.protocol.revisions import NEWEST, Feature, Revision
from django_mcp.protocol.subscriptions import UPDATED
from django_mcp.pubsub import announcements, bus, pending_requests, publisher
from django_mcp.pubsub.pending_requests import ConnectionRoute
from django_mcp.runtime import background
from django_mcp.server.server import Server
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.testing.asgi import TIMEOUT, Exchange, Message, http_scope
from django_mcp.transports import frames, site
from django_mcp.transports.connection import stdio
from django_mcp.transports.connection.request import TIMED_OUT, ConnectionExchange
from django_mcp.transports.http.consumer import StreamableHttpConsumer
from django_mcp.transports.http.request import ScopeTransport
from django_mcp.transports.session_engine import GIVEN_UP, NO_BATCHES, SessionEngine


class Listener(Protocol):
    """The client of a connection."""

    @property
    def revision(self) -> Revision: ...
    def receive_notification(self, message: Message) -> None: ...
    async def answer_request(self, message: Message) -> Message: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What a connection knows of its server and its client."""

    server: Server
    principal: Principal | None
    """None: the transport authenticates the client, as in production."""
    headers: Mapping[str, str]
    query: str
    session: Any

    @property
    def path(self) -> str:
        return "/" + self.server.path.strip("/")


class Connection(ABC):
    """The connection of one client to its server."""

    name: ClassVar[str]

    def __init__(self, facts: Facts, listener: Listener) -> None:
        self.facts = facts
        self.listener = listener
        self.session_id: str | None = None
        self.status: int | None = None
        """The HTTP status of the newest response, where there is one."""

    async def open(self) -> None:  # noqa: B027 - most have nothing to do.
        """Connect."""

    async def close(self) -> None:  # noqa: B027
        """Disconnect, and end the session."""

    async def request(self, message: Message) -> Message:
        """The response to a request; a cancellation of this is sent to the server."""
        response = await self.send(jsonrpc.encode(message))
        if response is None:
            raise ConnectionError(f"The server accepted a request without a response: {message}")
        return response

    async def notify(self, message: Message) -> None:
        """Send a notification or a response."""
        if (response := await self.send(jsonrpc.encode(message))) is not None:
            raise ConnectionError(f"The server did not accept what is not answered: {response}")

    async def _respond(self, request: Message) -> None:
        await self.notify(await self.listener.answer_request(request))

    async def listen(self, ready: Callable[[], None]) -> None:
        """Receive notifications of the session until cancelled; calls ``ready`` once subscribed."""
        ready()
        await _forever()

    @abstractmethod
    async def send(self, data: bytes) -> Message | None:
        """Send bytes without changes, and return the response, if there is one."""


# In memory.


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
            await _forever()
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
            call.cancellation.request(GIVEN_UP)
            raise
        return cast(Message, jsonrpc.decode(encode_reply(reply.message)))

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


# Over HTTP.


@dataclass(frozen=True, eq=False)
class FixedAuthentication:
    """Authenticates every request as the principal of the test."""

    principal: Principal

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        return self.principal


class HttpConnection(Connection):
    """Requests to the ASGI application of the server's endpoint."""

    name = "http"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        if facts.principal is None:
            self._application = routing.endpoint(facts.server)
        else:
            self._application = StreamableHttpConsumer.as_asgi(
                server=facts.server,
                authentication=registry.authentication_by(
                    facts.server, (FixedAuthentication(facts.principal),)
                ),
            )

    async def listen(self, ready: Callable[[], None]) -> None:
        async with self._exchange("GET", EVENT_STREAM) as exchange:
            self.status = await exchange.status()
            if self.status != 200:
                raise ConnectionError(f"HTTP {self.status}: {await exchange.body()!r}")
            ready()
            async for event in exchange.events():
                if event.data:
                    await self._receive(json.loads(event.data))

    async def close(self) -> None:
        if self.session_id is not None:
            async with self._exchange("DELETE", {}) as exchange:
                self.status = await exchange.status()

    async def send(self, data: bytes) -> Message | None:
        try:
            message = jsonrpc.decode(data)
        except McpError:
            message = None
        accepted = "application/json, text/event-stream"
        usual = {"content-type": "application/json", "accept": accepted}
        revision = self.listener.revision
        if revision.has(Feature.REQUEST_HEADERS):
            usual |= request_headers(self.facts.server, revision.version, message)
        async with self._exchange("POST", usual, data) as exchange:
            try:
                return await self._response(exchange)
            except asyncio.CancelledError:
                if revision.has(Feature.DISCONNECT_CANCELS):
                    exchange.disconnect()
                    await exchange.wait_closed()
                elif isinstance(message, dict) and "id" in message:
                    await self.notify(_cancelled(message))
                raise

    def _exchange(self, method: str, extra: Mapping[str, str], body: bytes = b"") -> Exchange:
        session = {} if self.session_id is None else {"mcp-session-id": self.session_id}
        if session and self.listener.revision.has(Feature.VERSION_HEADER):
            session["mcp-protocol-version"] = self.listener.revision.version
        sent = {**session, **extra, **self.facts.headers}
        scope = http_scope(method, self.facts.path, headers=sent, query=self.facts.query)
        return Exchange(self._application, scope, body)

    async def _response(self, exchange: Exchange) -> Message | None:
        self.status = await exchange.status()
        received = await exchange.headers()
        self.session_id = received.get("mcp-session-id", self.session_id)
        if received.get("content-type") == "text/event-stream":
            return await self._streamed_response(exchange)
        body = await exchange.body()
        if self.status == 202 and not body:
            return None
        try:
            return cast(Message, json.loads(body))
        except ValueError as error:
            raise ConnectionError(f"HTTP {self.status}: {body[:200]!r}") from error

    async def _streamed_response(self, exchange: Exchange) -> Message:
        """The response on a stream, which is resumed where the server closes the connection."""
        event_id = ""
        async for event in exchange.events():
            event_id = event.id
            # An event without data only has the id after which the stream is resumed.
            message = await self._receive(json.loads(event.data)) if event.data else None
            if message is not None:
                return message
        if not event_id:
            raise ConnectionError("The stream ended without the response")
        async with self._exchange("GET", {**EVENT_STREAM, "last-event-id": event_id}) as resumed:
            return await self._streamed_response(resumed)

    async def _receive(self, message: Message) -> Message | None:
        """The message if it is a response; requests of the server are answered."""
        if "method" not in message:
            return message
        if "id" in message:
            await self._respond(message)
        else:
            self.listener.receive_notification(message)
        return None


EVENT_STREAM = {"accept": "text/event-stream"}


def request_headers(server: Server, version: str, message: Any) -> dict[str, str]:
    """The headers by which a client of a stateless revision repeats parts of its message."""
    repeated = {"mcp-protocol-version": version}
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return repeated
    repeated["mcp-method"] = message["method"]
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get(headers.NAME_SOURCES.get(message["method"], ""))
    if isinstance(name, str):
        repeated["mcp-name"] = headers.encode_value(name)
        repeated |= _argument_headers(server, name, params.get("arguments"))
    return repeated


def _argument_headers(server: Server, tool: str, arguments: Any) -> dict[str, str]:
    """The headers which repeat arguments, for tools which declare them."""
    component = server.components.find(ToolComponent.kind, tool)
    repeated: dict[str, str] = {}
    for param in component.param_headers if isinstance(component, ToolComponent) else ():
        value = arguments
        for name in param.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            repeated[param.header.decode()] = headers.encode_value(text)
    return repeated


# Over stdio.


class StdioConnection(Connection):
    """Lines to a connection over stdio, which is served in this process.

    The client must be opened and closed on the same event loop: use ``async with``.
    """

    name = "stdio"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        self.strays: list[Message] = []
        """Responses to unknown requests."""
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pending: dict[RequestId | None, asyncio.Future[Message]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        out = cast(BinaryIO, SimpleNamespace(write=self._receive, flush=lambda: None))
        connection = stdio.StdioConnection(self.facts.server, out, principal=self.facts.principal)
        self._serving = asyncio.ensure_future(connection.serve(self._iterate()))
        self._serving.add_done_callback(self._fail_pending)

    async def close(self) -> None:
        self._lines.put_nowait(None)
        if self._serving is not None:
            async with asyncio.timeout(TIMEOUT):
                await self._serving

    async def request(self, message: Message) -> Message:
        try:
            return await self._request(jsonrpc.encode(message), message["id"])
        except asyncio.CancelledError:
            await self.notify(_cancelled(message))
            raise

    async def notify(self, message: Message) -> None:
        self._write(jsonrpc.encode(message))

    async def send(self, data: bytes) -> Message | None:
        try:
            message = jsonrpc.read(jsonrpc.decode(data))
        except McpError:
            # The error has no id, or the one that could be read.
            return await self._request(data, None)
        if isinstance(message, Request):
            return await self._request(data, message.id)
        self._write(data)
        return None

    async def _request(self, data: bytes, request_id: RequestId | None) -> Message:
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = response
        self._write(data)
        try:
            return await response
        finally:
            del self._pending[request_id]

    def _write(self, data: bytes) -> None:
        self._lines.put_nowait(data + b"\n")

    async def _iterate(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line

    def _receive(self, line: bytes) -> int:
        message: Message = json.loads(line)
        if "method" not in message:
            response = self._pending.get(message.get("id"), self._pending.get(None))
            if response is None or response.done():
                self.strays.append(message)
            else:
                response.set_result(message)
        elif "id" in message:
            background.spawn(self._respond(message))
        else:
            self.listener.receive_notification(message)
        return len(line)

    def _fail_pending(self, serving: asyncio.Task[None]) -> None:
        for response in self._pending.values():
            if not response.done():
                response.set_exception(ConnectionError("The conversation has ended"))


def _cancelled(message: Message) -> Message:
    params = {"requestId": message["id"], "reason": GIVEN_UP}
    return jsonrpc.notification("notifications/cancelled", params)


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


CONNECTIONS: Mapping[str, type[Connection]] = {
    kind.name: kind for kind in (MemoryConnection, HttpConnection, StdioConnection)
}
