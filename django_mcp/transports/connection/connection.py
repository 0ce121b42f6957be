"""One client's conversation over a connection of its own, until it closes.

The session, its subscriptions and its requests in flight end with the connection. A transport
passes each message to ``receive`` and provides a sink for those that are sent.

| state of the session | meaning | who moves it |
|---|---|---|
| none | only stateless requests and ``ping`` are answered | ``initialize``: opening |
| opening | ``initialize`` is answered; further messages are held | its end: open, or none |
| open | requests are answered; no notifications are sent | ``initialized``: initializing |
| initializing | ``init`` of the server runs; requests wait | ``_initialize``: ready, or none |
| ready | notifications are sent | ``close`` |

A connection that is closed sends nothing more, whatever its session was.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Protocol

from django_mcp import conf
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import handle, visibility
from django_mcp.core.dispatch.calls_in_flight import calls_in_flight
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change, Session
from django_mcp.core.frame.transport import Transport
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InternalError, InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import Message, Notification, Request, RequestId
from django_mcp.core.protocol.revisions import BY_VERSION, NEWEST, Feature
from django_mcp.core.protocol.subscriptions import UPDATED
from django_mcp.core.server.server import Server
from django_mcp.pubsub import announcements, bus, publisher, session_messages
from django_mcp.pubsub.pending_requests import ConnectionRoute
from django_mcp.runtime import background, request_scope
from django_mcp.stores.base import unpack_changes
from django_mcp.stores.memory import MemorySessionStore
from django_mcp.transports import frames, session_engine, site
from django_mcp.transports.connection.request import (
    SESSION,
    ConnectionExchange,
    Send,
    yield_once,
)
from django_mcp.transports.session_engine import InFlightRequests, Keepalive, SessionEngine

Task = asyncio.Task[None]


class MessageSink(Protocol):
    """Sends whole messages, one after the other."""

    @property
    def is_stuck(self) -> bool:
        """Whether the previous message has not been accepted yet."""

    def write(self, message: bytes, /) -> None:
        """Send one message; never blocks for long."""

    def end(self) -> None:
        """Close the connection, because the client does not respond."""


NOT_OPEN_YET = "Too many messages before initialize was answered: wait for its response"
GRACE = 1.0
"""Seconds that running requests of a connection have at most after its client has closed it: the
official clients kill a process that does not end within two."""


def grace_period() -> float:
    return min(conf.get().shutdown_timeout, GRACE)


MAX_HELD = 1000
"""Messages that a client may send before ``initialize`` is answered."""


class Connection:
    def __init__(
        self,
        server: Server,
        sink: MessageSink,
        principal: Principal,
        transport: Transport | None,
        session: Any = None,
        *,
        scheme: str,
    ) -> None:
        """``session`` is the Django session of the client; ``scheme`` names the transport."""
        self.server = server
        self.session: Session | None = None
        self.responses = ConnectionRoute()
        self._sink = sink
        self._principal = principal
        self._transport = transport
        self._django_session = session
        self._scheme = scheme
        self._in_flight: InFlightRequests[ConnectionExchange] = InFlightRequests()
        self._groups: list[str] = []
        """The groups of the message bus that were joined for the session."""
        self._announced: dict[str | None, bus.Receiver] = {}
        """The receivers of changes, by the URI of the resource; of the lists without one."""
        self._coalescer = announcements.Coalescer(self._send_change)
        self._is_open = True
        self._store = MemorySessionStore(
            idle_timeout=inf, initialize_timeout=inf, limit_per_principal=1
        )
        functions = replace(site.get(), commit=self._commit, publish=self._publish)
        self._engine = SessionEngine(functions, self._store, is_shared=False)
        self._opening: Task | None = None
        """Answers ``initialize``."""
        self._held: deque[Any] = deque()
        """The messages that came meanwhile: clients may send several without waiting."""
        self._initializing: asyncio.Future[None] | None = None
        """Runs the server's ``init``; requests wait for it."""
        self._keepalive = Keepalive(server, send=self._send_keepalive, give_up=self._give_up)

    def receive(self, data: bytes | str) -> None:
        """Accept one message or batch; one that is invalid is answered with an error."""
        try:
            value = jsonrpc.decode_messages(data)
            if self._opening is None:
                self._take_value(value)
            elif len(self._held) < MAX_HELD:
                self._held.append(value)
            else:
                message = jsonrpc.read(value)
                raise InvalidRequest(NOT_OPEN_YET, request_id=getattr(message, "id", None))
        except McpError as error:
            self._reject(error)

    def _reject(self, error: McpError) -> None:
        self.write(jsonrpc.encode(error.to_json_rpc(error.request_id, NEWEST)))

    def write(self, message: bytes) -> None:
        if self._is_open:
            self._sink.write(message)

    def reauthenticated(self, principal: Principal) -> None:
        """Process further messages with the current user and scopes of the caller."""
        self._principal = principal

    @property
    def is_busy(self) -> bool:
        """Whether requests are being answered, besides those that listen."""
        requests = self._in_flight.of(SESSION)
        return any(not request.is_listening for request in requests)

    async def flush(self) -> None:
        """Wait until the client has read enough that more may be sent."""
        await yield_once()

    async def close(self, *, grace: float | None = None) -> None:
        """End subscriptions with their results; give other requests time to finish."""
        grace = grace_period() if grace is None else grace
        self._keepalive.stop()
        await self._finish_requests(grace)
        telemetry = self._engine.site.telemetry
        if telemetry is not None and self._is_open and self.session is not None:
            telemetry.session_ended(self.session, self._transport)
        self._is_open = False
        for request in self._in_flight.of(SESSION):
            request.stop("The client has gone")
        self._coalescer.close()
        for uri in tuple(self._announced):
            self._leave(uri)
        for group in self._groups:
            bus.here().unsubscribe(group, self._on_session_event)

    async def _finish_requests(self, grace: float) -> None:
        """Wait for the requests in flight, and for those that are held until they are answered."""
        loop = asyncio.get_running_loop()
        until = loop.time() + grace
        while requests := self._in_flight.of(SESSION):
            for request in requests:
                request.end_listening()
            tasks = [request.task for request in requests if request.task is not None]
            _, running = await asyncio.wait(tasks, timeout=max(until - loop.time(), 0))
            if running:
                return

    def _take_value(self, value: Any) -> None:
        """Process a message or a batch; raises McpError for an invalid one."""
        if isinstance(value, list):
            self._take_batch(value)
            return
        message = jsonrpc.read(value)
        task = self._take(message, self.write)
        if task is not None and isinstance(message, Request) and message.method == "initialize":
            self._opening = task
            task.add_done_callback(self._take_held)

    def _take_held(self, _: Task) -> None:
        """Process the messages that came while ``initialize`` was answered, in their order."""
        self._opening = None
        while self._held and self._opening is None and self._is_open:
            try:
                self._take_value(self._held.popleft())
            except McpError as error:
                self._reject(error)

    def _take(self, message: Message, send: Send) -> Task | None:
        """Process a message; return the task which answers it, if it is a request that began."""
        if isinstance(message, Request):
            return self._start(message, send)
        if isinstance(message, Notification):
            self._take_notification(message)
        else:
            self.responses.deliver(message)
        return None

    def _take_batch(self, values: Sequence[Any]) -> None:
        """Answer a batch with one array, when its last request is answered (RPC-B5)."""
        if self.session is None or not BY_VERSION[self.session.version].has(Feature.BATCHES):
            raise InvalidRequest(session_engine.NO_BATCHES)
        messages, errors = session_engine.read_batch(values)
        replies = [self._encoded_error(error, error.request_id) for error in errors]
        waiting = iter(messages)
        tasks = self._take_some(waiting, replies, set())
        background.spawn(self._finish_batch(waiting, replies, tasks))

    def _take_some(
        self, waiting: Iterator[Message], replies: list[bytes], tasks: set[Task]
    ) -> set[Task]:
        """Process messages of a batch until as many requests run as may run at once.

        The rest of a batch is dropped when the client has gone. Return the tasks that answer them,
        with ``tasks``, those that are running already.
        """
        limit = session_engine.concurrent_in_batch()
        while self._is_open and len(tasks) < limit and (message := next(waiting, None)) is not None:
            task = self._take(message, replies.append)
            if task is not None:
                tasks.add(task)
        return tasks

    async def _finish_batch(
        self, waiting: Iterator[Message], replies: list[bytes], tasks: set[Task]
    ) -> None:
        while tasks:
            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            tasks = self._take_some(waiting, replies, tasks)
        if replies:
            self.write(b"[%b]" % b",".join(replies))

    def _start(self, request: Request, send: Send) -> Task | None:
        exchange = self._exchange()
        exchange.request_id = request.id
        exchange.request_key = session_engine.key_of(request.id)
        exchange.is_initialize = request.method == "initialize"
        loop = exchange.loop
        try:
            frame = frames.of_request(exchange, request, self.session)
            self._in_flight.begin(exchange)
            try:
                calls_in_flight(loop).begin(exchange, conf.get().max_in_flight, loop)
            except McpError:
                self._in_flight.end(exchange)
                raise
        except McpError as error:
            send(self._encoded_error(error, request.id))
            return None
        task = asyncio.ensure_future(request_scope.run(self._answer, frame, exchange, send))
        exchange.task = task
        limit = conf.get().handler_timeout
        if limit is not None:
            exchange.timer = loop.call_later(limit, exchange.expire)
        task.add_done_callback(lambda _: self._end(frame, exchange, send))
        return task

    def _end(self, frame: Frame, exchange: ConnectionExchange, send: Send) -> None:
        self._in_flight.end(exchange)
        calls_in_flight(exchange.loop).end(exchange)
        task = exchange.task
        exchange.task = None  # They refer to each other.
        if exchange.timer is not None:
            exchange.timer.cancel()
        if task is not None and not task.cancelled() and task.exception() is not None:
            # Such as GeneratorExit, which closes all coroutines of the task.
            self.server.report("A request could not be answered", task.exception())
            send(handle.encode_error(frame, InternalError()))

    async def _answer(self, frame: Frame, exchange: ConnectionExchange, send: Send) -> None:
        try:
            body = await self._reply(frame)
        except asyncio.CancelledError:
            return  # A cancelled request is not answered (CANC-06, STD-05).
        except Exception as error:
            self.server.report("A request could not be answered", error)
            body = handle.encode_error(frame, InternalError())
        if exchange.requested and exchange.ended_by is None:
            return
        send(body)
        if exchange.is_listening:
            # Only after the result: clients take the notification alone for a loss (CAN-05).
            params = {"requestId": frame.request_id, "reason": "The server ends the subscription"}
            self.write(jsonrpc.encode(jsonrpc.notification("notifications/cancelled", params)))

    async def _reply(self, frame: Frame) -> bytes:
        if frame.message.method == "initialize":
            return await self._open_session(frame)
        if frame.get_mcp_session_id() is not None:
            if self._initializing is not None and not frame.initialized:
                try:
                    await asyncio.shield(self._initializing)
                except asyncio.CancelledError as raised:
                    return handle.encode_raised(frame, raised)
            if self.session is None:
                return handle.encode_error(frame, InvalidRequest("The session has ended"))
            if not frame.initialized:
                frame = frames.with_session(frame, self.session)
        return await self._engine.answer(frame)

    async def _open_session(self, frame: Frame) -> bytes:
        session_id = session_messages.CONNECTION_BOUND.join(
            (self._scheme, secrets.token_urlsafe(24))
        )
        body, self.session = await self._engine.open(frame, session_id)
        if self.session is not None:
            group = session_messages.of_session(self.session.address)
            self._groups.append(group)
            await bus.here().subscribe(group, self._on_session_event)
        return body

    async def _commit(
        self, session_id: str, principal: str, changes: Sequence[Change]
    ) -> Session | None:
        # The session belongs to the connection, whose principal never changes.
        self.session = await self._store.update(session_id, changes)
        if self.session is not None:
            await self._subscribe_to(self.session.subscriptions)
        return self.session

    async def _publish(self, server: Server, _: str, changes: Sequence[Change]) -> None:
        messages = session_messages.lists_changed(server, changes)
        if messages:
            # After the response to the request which made the changes.
            asyncio.get_running_loop().call_soon(self._notify_all, messages)

    def _notify_all(self, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            self._notify(message["method"], jsonrpc.encode(message))

    def _notify(self, method: str, message: bytes) -> None:
        # Before a client is ready it should be sent nothing (LIFE-10).
        session = self.session
        if (
            session is not None
            and session.initialized
            and session_messages.supports(session, method)
        ):
            self.write(message)

    def _take_notification(self, message: Notification) -> None:
        if message.method == "notifications/cancelled":
            cancellation = session_engine.read_cancellation(message.params)
            if cancellation is not None:  # One that names no request is ignored (CANC-11).
                self._in_flight.cancel(SESSION, *cancellation)
        elif self.session is None:
            return
        elif message.method != "notifications/initialized":
            background.spawn(self._engine.notified(self._exchange(), message, self.session))
        elif self._initializing is None:
            self._initializing = background.create_task(self._initialize(message, self.session))

    async def _initialize(self, message: Notification, session: Session) -> None:
        """Start to send notifications, or end the session if the server's ``init`` failed."""
        if not await self._engine.initialized(self._exchange(), message, session):
            await self._store.delete(session.id)
            self.session = None
            self._initializing = None
            return
        if not self._is_open:
            return  # The client has gone meanwhile.
        self._keepalive.start()
        await self._join(None, self._on_server_event)
        if self.server.notify_lists_on_initialize:
            self._notify_all([*map(jsonrpc.notification, session_messages.advertised(self.server))])

    def _exchange(self) -> ConnectionExchange:
        exchange = ConnectionExchange(
            self.server, self._principal, self._transport, self._django_session
        )
        exchange.connect(self.write, self.responses, self.flush)
        return exchange

    async def _subscribe_to(self, uris: frozenset[str]) -> None:
        """Receive updates of these resources, and of no others."""
        joined = {uri for uri in self._announced if uri is not None}
        for uri in joined - uris:
            self._leave(uri)
        for uri in uris - joined:
            await self._join(uri, self._on_update)

    def _on_session_event(self, message: bus.Message) -> None:
        if message["event"] == "said":
            self._notify(message["method"], message["text"].encode())
        elif message["event"] == "changed":
            background.spawn(self._change(unpack_changes(message["changes"])))

    async def _change(self, changes: Sequence[Change]) -> None:
        """Commit a task's changes of the session, after the request that began the task."""
        if self.session is not None:
            await self._commit(self.session.id, self.session.principal, changes)
            await self._publish(self.server, self.session.id, changes)

    def _on_server_event(self, message: bus.Message) -> None:
        if message["method"] in publisher.METHODS:
            self._coalescer.add((message["method"], message["text"]))
        else:
            self._notify(message["method"], message["text"].encode())

    def _on_update(self, message: bus.Message) -> None:
        self._coalescer.add((UPDATED, message["uri"]))

    def _send_change(self, change: Any) -> None:
        method, text = change
        if method == UPDATED:
            background.spawn(self._notify_updated(text))
        else:
            self._notify(method, text.encode())

    async def _notify_updated(self, uri: str) -> None:
        """Send an update of a resource, if the client may still read it."""
        if self.session is None:
            return
        updated = Notification(UPDATED, {"uri": uri})
        frame = frames.in_session(self._exchange(), updated, self.session)
        if await visibility.is_readable(frame, uri):
            self._notify(UPDATED, jsonrpc.encode(jsonrpc.notification(UPDATED, {"uri": uri})))

    def _send_keepalive(self, message: bytes) -> bool:
        if self._sink.is_stuck:
            return False
        self.write(message)
        return True

    async def _give_up(self) -> None:
        await self.close(grace=0)
        self._sink.end()

    async def _join(self, uri: str | None, receiver: bus.Receiver) -> None:
        if uri not in self._announced:
            self._announced[uri] = receiver
            try:
                await announcements.here().subscribe(self.server, uri, receiver)
            except BaseException:
                self._leave(uri)  # The next change of the session subscribes again.
                raise

    def _leave(self, uri: str | None) -> None:
        receiver = self._announced.pop(uri, None)
        if receiver is not None:
            announcements.here().unsubscribe(self.server, uri, receiver)

    def _encoded_error(self, error: McpError, request_id: RequestId | None) -> bytes:
        revision = NEWEST if self.session is None else BY_VERSION[self.session.version]
        return jsonrpc.encode(error.to_json_rpc(request_id, revision))
