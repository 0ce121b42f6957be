"""How the messages of a test client reach its server: by a call, over HTTP, or over a pipe.

All of it happens in this process. A connection carries messages and knows what its transport
adds to them; what they mean is the client's business.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, BinaryIO, ClassVar, Protocol, TypeVar, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf, routing
from django_mcp.auth.base import Principal
from django_mcp.components.tool import ToolComponent
from django_mcp.dispatch import dispatcher
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import headers, jsonrpc
from django_mcp.protocol.errors import Cancelled, InvalidRequest, McpError
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId
from django_mcp.protocol.revisions import NEWEST, Feature, Revision
from django_mcp.protocol.subscriptions import UPDATED, Filter
from django_mcp.pubsub import bus, pending_requests, publisher
from django_mcp.server.server import Server
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.testing.asgi import TIMEOUT, Application, Exchange, Message, http_scope
from django_mcp.transports import frames, site
from django_mcp.transports.connection import stdio
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http.consumer import StreamableHttpConsumer
from django_mcp.transports.http.request import ScopeTransport
from django_mcp.transports.session_engine import NO_BATCHES, SessionEngine
from django_mcp.transports.subscription import Subscription

T = TypeVar("T")


class Listener(Protocol):
    """The client, as its connection sees it."""

    @property
    def revision(self) -> Revision:
        """The revision it speaks."""
        ...

    def receive_notification(self, message: Message) -> None:
        """Take a notification of the server."""
        ...

    async def answer_request(self, message: Message) -> Message:
        """The response to a request of the server."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Whom the client calls, and as whom."""

    server: Server
    principal: Principal | None = None
    """None leaves it to the transport to find out, as it does in production."""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    session: Any = None

    @property
    def path(self) -> str:
        """The path at which the server is mounted."""
        return "/" + self.server.path.strip("/")


class Connection(ABC):
    """One client's way to its server."""

    name: ClassVar[str]

    def __init__(self, facts: Facts, listener: Listener) -> None:
        self.facts = facts
        self.listener = listener
        self.session_id: str | None = None
        self.status: int | None = None
        """The HTTP status of the newest response, where there is one."""

    async def open(self) -> None:  # noqa: B027 - most have nothing to do.
        """Get ready to carry messages."""

    async def close(self) -> None:  # noqa: B027
        """Carry no more messages."""

    @abstractmethod
    async def request(self, message: Message) -> Message:
        """The response to a request. Who cancels this gives the request up, and says so."""

    @abstractmethod
    async def notify(self, message: Message) -> None:
        """Say something that is not answered: a notification, or a response."""

    async def listen(self, ready: Callable[[], None]) -> None:
        """Hear what belongs to no request, until cancelled; calls ``ready`` when it can."""
        ready()
        await _for_ever()

    @abstractmethod
    async def send(self, data: bytes) -> Message | None:
        """Send bytes as they are, however wrong; what the server answers, if it does."""


# By a call.


class MemoryExchange(LoopExchange):
    """The Exchange of one request whose client is in the same process."""

    encodes = True
    request_headers: RequestHeaders | None = None

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def write(self, message: Message, /) -> None:
        """Let the client hear a notification, as it would read it."""
        copied = _copied(message)
        if self._is_here():
            self._listener.receive_notification(copied)
        else:
            self.loop.call_soon_threadsafe(self._listener.receive_notification, copied)

    async def flush(self) -> None:
        """There is always room."""
        await asyncio.sleep(0)

    async def send_request(self, method: str, params: Message, /, *, timeout: float) -> Any:
        """Ask the client; raises ClientRefused for its refusal."""
        question = _copied(jsonrpc.request(f"question-{next(NUMBERS)}", method, params))
        async with asyncio.timeout(timeout):
            response = await self._listener.answer_request(question)
        return pending_requests.read(response)

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Let the client hear announcements, until it gives the request up."""
        subscription = Subscription(frame, wanted, lambda data: self.write(jsonrpc.decode(data)))
        try:
            await subscription.open()
            await _for_ever()
        finally:
            subscription.close()


NUMBERS = count(1)
"""Of the questions which servers ask; none is used twice."""


class MemoryConnection(Connection):
    """Straight into the conversation. A handler sees a request over HTTP to ``testserver``.

    It is no ``transports.conversation``, which lives in one event loop: each call of a SyncClient
    has a loop of its own, and a request is answered in the task, and on the thread, of its caller.
    """

    name = "memory"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        self._store = MemorySessionStore(idle_timeout=float("inf"), limit_per_principal=1)
        functions = replace(site.get(), commit=self._store.update, publish=self._publish)
        self._engine = SessionEngine(functions, self._store, is_shared=False)
        self._caller = frames.RequestOrigin(
            principal=facts.principal or Principal(scheme="memory", user=AnonymousUser()),
            transport=ScopeTransport(
                http_scope(path=facts.path, headers=facts.headers, query=facts.query)
            ),
            session=facts.session,
        )

    async def request(self, message: Message) -> Message:
        answer = await self.send(jsonrpc.encode(message))
        assert answer is not None
        return answer

    async def notify(self, message: Message) -> None:
        await self.send(jsonrpc.encode(message))

    async def send(self, data: bytes) -> Message | None:
        try:
            value = jsonrpc.decode(data)
            if isinstance(value, list):
                raise InvalidRequest(NO_BATCHES)
            message = jsonrpc.read(value)
        except McpError as error:
            return _error(error, NEWEST, getattr(error, "request_id", None))
        if isinstance(message, Request):
            return await self._answer(message)
        if isinstance(message, Notification):
            await self._notified(message)
        return None

    async def listen(self, ready: Callable[[], None]) -> None:
        session = await self._load()
        assert session is not None
        groups = [
            publisher.of_server(self.facts.server),
            publisher.of_session(session.address),
            *(publisher.of_resource(self.facts.server, uri) for uri in session.subscriptions),
        ]
        for group in groups:
            await bus.here().subscribe(group, self._receive)
        try:
            ready()
            await _for_ever()
        finally:
            for group in groups:
                bus.here().unsubscribe(group, self._receive)

    def _receive(self, message: bus.Message) -> None:
        """Take what is announced to everybody, to this session, or of a resource."""
        if "text" in message:
            self.listener.receive_notification(json.loads(message["text"]))
        elif "said" in message:
            self.listener.receive_notification(message["said"])
        elif "uri" in message:
            self.listener.receive_notification(
                jsonrpc.notification(UPDATED, {"uri": message["uri"]})
            )

    async def _answer(self, request: Request) -> Message:
        """The response to a request, made in the task of whoever awaits it."""
        call = self._call()
        try:
            frame = frames.of_request(call, request, await self._load())
            async with asyncio.timeout(conf.get().handler_timeout):
                reply = await self._reply(frame)
        except McpError as error:
            return _error(error, self.listener.revision, request.id)
        except TimeoutError:
            call.cancellation.request("The call took too long")
            return _error(Cancelled(), self.listener.revision, request.id)
        except asyncio.CancelledError:
            call.cancellation.request("The client gave the request up")
            raise
        answer: Message = jsonrpc.decode(dispatcher.encode(reply.message))
        return answer

    async def _reply(self, frame: Frame) -> Reply:
        if frame.message.method != "initialize":
            return await self._engine.answer(frame)
        session_id = publisher.CONNECTION_BOUND.join(("memory", secrets.token_urlsafe(9)))
        reply, session = await self._engine.open(frame, session_id)
        self.session_id = None if session is None else session.id
        return reply

    def _call(self) -> frames.IncomingRequest:
        exchange = MemoryExchange(self.listener)
        return frames.IncomingRequest(self.facts.server, self._caller, exchange)

    async def _load(self) -> Session | None:
        return await self._store.load(self.session_id or "")

    async def _publish(self, server: Server, _: str, changes: Sequence[Change]) -> None:
        for message in publisher.lists_changed(server, changes):
            self.listener.receive_notification(message)

    async def _notified(self, message: Notification) -> None:
        session = await self._load()
        if session is None:
            return
        if message.method != "notifications/initialized":
            await self._engine.notified(self._call(), message, session)
        elif not await self._engine.initialized(self._call(), message, session):
            await self._store.delete(session.id)


# Over HTTP.


class Known:
    """An authenticator which knows who calls."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        """Whoever the test said."""
        return self._principal


class HttpConnection(Connection):
    """The ASGI application of the server's endpoint, driven in process."""

    name = "http"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        self._application = _endpoint(facts)

    async def request(self, message: Message) -> Message:
        answer = await self._post(jsonrpc.encode(message), message)
        if answer is None:
            raise ConnectionError(
                f"The server accepted a request, and did not answer it: {message}"
            )
        return answer

    async def notify(self, message: Message) -> None:
        answer = await self._post(jsonrpc.encode(message), message)
        if answer is not None:
            raise ConnectionError(f"The server did not accept what is not answered: {answer}")

    async def send(self, data: bytes) -> Message | None:
        try:
            message = jsonrpc.decode(data)
        except McpError:
            message = None
        return await self._post(data, message)

    async def listen(self, ready: Callable[[], None]) -> None:
        async with self._exchange("GET", {"accept": "text/event-stream"}, b"") as exchange:
            self.status = await exchange.status()
            if self.status != 200:
                raise ConnectionError(f"HTTP {self.status}: {await exchange.body()!r}")
            ready()
            async for event in exchange.events():
                if event.data:
                    await self._take(json.loads(event.data))

    async def close(self) -> None:
        """End the session."""
        if self.session_id is not None:
            async with self._exchange("DELETE", {}, b"") as exchange:
                self.status = await exchange.status()

    async def _post(self, data: bytes, message: Any) -> Message | None:
        async with self._exchange("POST", self._headers(message), data) as exchange:
            try:
                return await self._answer(exchange)
            except asyncio.CancelledError:
                await self._give_up(exchange, message)
                raise

    def _exchange(self, method: str, extra: Mapping[str, str], body: bytes) -> Exchange:
        session = {} if self.session_id is None else {"mcp-session-id": self.session_id}
        if session and self.listener.revision.has(Feature.VERSION_HEADER):
            session["mcp-protocol-version"] = self.listener.revision.version
        sent = {**session, **extra, **self.facts.headers}
        scope = http_scope(method, self.facts.path, headers=sent, query=self.facts.query)
        return Exchange(self._application, scope, body)

    def _headers(self, message: Any) -> dict[str, str]:
        usual = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if self.listener.revision.has(Feature.REQUEST_HEADERS):
            usual |= request_headers(self.facts.server, self.listener.revision.version, message)
        return usual

    async def _answer(self, exchange: Exchange) -> Message | None:
        self.status = await exchange.status()
        received = await exchange.headers()
        self.session_id = received.get("mcp-session-id", self.session_id)
        if received.get("content-type") == "text/event-stream":
            return await self._last(exchange)
        body = await exchange.body()
        if self.status == 202 and not body:
            return None
        try:
            return cast(Message, json.loads(body))
        except ValueError as error:
            raise ConnectionError(f"HTTP {self.status}: {body[:200]!r}") from error

    async def _last(self, exchange: Exchange) -> Message:
        """The response at the end of a stream; what comes before it is taken or answered."""
        came_to = ""
        async for event in exchange.events():
            came_to = event.id
            # An event without data only says from where to go on.
            message = await self._take(json.loads(event.data)) if event.data else None
            if message is not None:
                return message
        if not came_to:
            raise ConnectionError("The stream ended without the response")
        return await self._go_on_after(came_to)

    async def _go_on_after(self, event_id: str) -> Message:
        """The response at the end of a stream whose connection was closed on the way."""
        extra = {"accept": "text/event-stream", "last-event-id": event_id}
        async with self._exchange("GET", extra, b"") as exchange:
            return await self._last(exchange)

    async def _take(self, message: Message) -> Message | None:
        """The message if it is a response; anything else is heard, or answered."""
        if "method" not in message:
            return message
        if "id" in message:
            await self.notify(await self.listener.answer_request(message))
        else:
            self.listener.receive_notification(message)
        return None

    async def _give_up(self, exchange: Exchange, message: Any) -> None:
        """Say, as the revision has it, that nobody waits for the answer any more."""
        if self.listener.revision.has(Feature.DISCONNECT_CANCELS):
            exchange.disconnect()
            await exchange.wait_closed()
        elif isinstance(message, dict) and "id" in message:
            await self.notify(_cancelled(message))


def _endpoint(facts: Facts) -> Application:
    """The endpoint of the server, which asks its authenticators unless the test said who calls."""
    if facts.principal is None:
        return routing.endpoint(facts.server)
    application: Application = StreamableHttpConsumer.as_asgi(
        server=facts.server, authenticators=(Known(facts.principal),)
    )
    return application


def request_headers(server: Server, version: str, message: Any) -> dict[str, str]:
    """The headers by which a client of a stateless revision repeats parts of its message."""
    found = {"mcp-protocol-version": version}
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return found
    found["mcp-method"] = message["method"]
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get(headers.NAME_SOURCES.get(message["method"], ""))
    if isinstance(name, str):
        found["mcp-name"] = headers.encode_value(name)
        found |= _argument_headers(server, name, params.get("arguments"))
    return found


def _argument_headers(server: Server, tool: str, arguments: Any) -> dict[str, str]:
    """Those for arguments, of the tools which ask for them."""
    component = server.components.find(ToolComponent.kind, tool)
    found: dict[str, str] = {}
    for param in component.param_headers if isinstance(component, ToolComponent) else ():
        value = arguments
        for name in param.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            found[param.header.decode()] = headers.encode_value(text)
    return found


# Over a pipe.


class StdioConnection(Connection):
    """Lines to a conversation over stdio, which runs in this process.

    The client must be opened and closed on the same event loop: use ``async with``.
    """

    name = "stdio"

    def __init__(self, facts: Facts, listener: Listener) -> None:
        super().__init__(facts, listener)
        self.strays: list[Message] = []
        """Responses to nothing that was asked."""
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting: dict[RequestId | None, asyncio.Future[Message]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        out = cast(BinaryIO, _Out(self._read))
        conversation = stdio.StdioConnection(self.facts.server, out, principal=self.facts.principal)
        self._serving = asyncio.ensure_future(conversation.serve(self._iterate()))
        self._serving.add_done_callback(self._ended)

    async def close(self) -> None:
        """Close the pipe, and wait until the conversation has ended."""
        self._lines.put_nowait(None)
        if self._serving is not None:
            async with asyncio.timeout(TIMEOUT):
                await self._serving

    async def request(self, message: Message) -> Message:
        try:
            return await self._ask(jsonrpc.encode(message), message["id"])
        except asyncio.CancelledError:
            await self.notify(_cancelled(message))
            raise

    async def notify(self, message: Message) -> None:
        self._write(jsonrpc.encode(message))

    async def send(self, data: bytes) -> Message | None:
        # What cannot be read is answered without an id, or with the one that could be read.
        identity = _answered_under(data)
        if identity is not NEVER:
            return await self._ask(data, identity)
        self._write(data)
        return None

    async def _ask(self, data: bytes, identity: RequestId | None) -> Message:
        waiting = self._waiting[identity] = asyncio.get_running_loop().create_future()
        self._write(data)
        try:
            answer: Message = await waiting
            return answer
        finally:
            del self._waiting[identity]

    def _write(self, data: bytes) -> None:
        self._lines.put_nowait(data + b"\n")

    async def _iterate(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line

    def _read(self, line: bytes) -> None:
        """Take a line of the server."""
        message: Message = json.loads(line)
        if "method" not in message:
            self._take(message)
        elif "id" in message:
            task = asyncio.ensure_future(self._reply(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            self.listener.receive_notification(message)

    def _take(self, response: Message) -> None:
        waiting = self._waiting.get(response.get("id"), self._waiting.get(None))
        if waiting is None or waiting.done():
            self.strays.append(response)
        else:
            waiting.set_result(response)

    async def _reply(self, question: Message) -> None:
        await self.notify(await self.listener.answer_request(question))

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """Let nobody wait for a conversation that broke down."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("The conversation has ended"))


NEVER: Any = object()


def _answered_under(data: bytes) -> RequestId | None:
    """The id of the request that ``data`` is; None for what is refused, NEVER for the rest."""
    try:
        message = jsonrpc.read(jsonrpc.decode(data))
    except McpError:
        return None
    return message.id if isinstance(message, Request) else cast(None, NEVER)


class _Out:
    """What the conversation writes to: whole lines, which are read at once."""

    def __init__(self, read: Callable[[bytes], None]) -> None:
        self._take = read

    def write(self, line: bytes) -> int:
        self._take(line)
        return len(line)

    def flush(self) -> None:
        """Nothing waits."""


def _cancelled(message: Message) -> Message:
    params = {"requestId": message["id"], "reason": "The client gave the request up"}
    return jsonrpc.notification("notifications/cancelled", params)


def _error(error: McpError, revision: Revision, request_id: RequestId | None) -> Message:
    return jsonrpc.error(request_id, revision.error(error))


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def _copied(message: Message) -> Message:
    """The message as the other side reads it; raises ValueError for what JSON cannot say."""
    copied: Message = jsonrpc.decode(jsonrpc.encode(message))
    return copied


CONNECTIONS: Mapping[str, type[Connection]] = {
    kind.name: kind for kind in (MemoryConnection, HttpConnection, StdioConnection)
}
