"""A conversation over a connection of its own: messages in, messages out, until it closes.

The session, its subscriptions and its running calls live and die with the connection. The
transports that have one give each message to ``receive`` and bring a way out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from django_mcp import conf
from django_mcp.dispatch import dispatcher, visibility
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session
from django_mcp.protocol import jsonrpc, request_meta
from django_mcp.protocol.errors import Cancelled, InvalidRequest, McpError
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.jsonrpc import Message, Notification, Request, RequestId
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Feature, Revision, Statefulness
from django_mcp.protocol.subscriptions import UPDATED, Filter
from django_mcp.pubsub import bus, publisher
from django_mcp.pubsub.pending_requests import ConnectionRoute, PendingRequests
from django_mcp.server.server import Server
from django_mcp.stores.base import pack, unpack
from django_mcp.transports import frames, session_hooks
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http.session import batch, session_lock
from django_mcp.transports.keepalive import Keepalive
from django_mcp.transports.session_hooks import SessionWriter
from django_mcp.transports.subscription import Subscription

logger = logging.getLogger("django_mcp")

GRACE = 1.0
"""Seconds that running calls are given to end after the client has closed its side."""
TOO_LONG = "The call took too long"
EARLY = 20
"""How many cancellations are remembered whose requests have not come."""

RequestKey = tuple[type, RequestId]


class MessageSink(Protocol):
    """The way out: whole messages, one after the other."""

    @property
    def is_stuck(self) -> bool:
        """Whether what was written before has not been taken yet."""
        ...

    def write(self, message: bytes, /) -> None:
        """Send one message; never blocks for long."""
        ...

    def end(self) -> None:
        """Close the connection, because nobody seems to be there."""
        ...


class ConnectionExchange(LoopExchange):
    """The Exchange of one request of such a conversation."""

    encodes = True
    request_headers: RequestHeaders | None = None

    def __init__(self, conversation: Connection) -> None:
        super().__init__()
        self._conversation = conversation
        self._questions = PendingRequests()
        self.clock: asyncio.Timeout | None = None
        """What ends the call when it takes too long."""
        self._listening: asyncio.Future[None] | None = None

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification, before the answer; those of several requests interleave."""
        encoded = jsonrpc.encode(message)
        if self._is_here():
            self._conversation.write(encoded)
        else:
            self.loop.call_soon_threadsafe(self._conversation.write, encoded)

    async def flush(self) -> None:
        """Let what was written by now be written."""
        await asyncio.sleep(0)

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Ask the client; its answer comes back over the same connection."""
        returns = self._conversation.returns
        return await self._questions.send_request(
            returns, self.write, method, params, timeout=timeout
        )

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Announce until the client gives the request up, or ``end_listening``."""
        subscription = Subscription(frame, wanted, self._conversation.write)
        self._listening = self.loop.create_future()
        if self.clock is not None:
            self.clock.reschedule(None)  # A subscription lasts as long as somebody listens.
        try:
            await subscription.open()
            await self._listening
        finally:
            subscription.close()

    @property
    def is_listening(self) -> bool:
        """Whether the request is a subscription, which ends only when somebody ends it."""
        return self._listening is not None

    def end_listening(self) -> None:
        """Let a subscription end with its result."""
        if self._listening is not None and not self._listening.done():
            self._listening.set_result(None)

    def abandon(self, reason: str) -> None:
        """Let no handler wait for an answer any more."""
        self._questions.abandon(reason)


class InFlightRequest:
    """One request that is being answered."""

    def __init__(
        self, frame: Frame, exchange: ConnectionExchange, task: asyncio.Task[None]
    ) -> None:
        self.frame = frame
        self.exchange = exchange
        self.task = task
        self.has_expired = False
        self.timer: asyncio.TimerHandle | None = None

    def cancel(self, reason: str | None) -> None:
        """Stop it, and what it waits for."""
        self.frame.cancellation.request(reason)
        self.exchange.abandon(reason or "The call was cancelled")
        self.task.cancel()

    def expire(self) -> None:
        """Stop it because it took too long, which its client should know."""
        if not self.exchange.is_listening:
            self.has_expired = True
            self.cancel("The call took too long")


class Connection:
    """One client's conversation with one Server."""

    def __init__(
        self, server: Server, pipe: MessageSink, caller: frames.RequestOrigin, *, scheme: str
    ) -> None:
        self.server = server
        self.session: Session | None = None
        self.returns = ConnectionRoute()
        self._pipe = pipe
        self._caller = caller
        self._scheme = scheme
        self._running: dict[RequestKey, InFlightRequest] = {}
        self._early: OrderedDict[RequestKey, None] = OrderedDict()
        self._joined: dict[str, bus.Receiver] = {}
        self._is_open = True
        self._initializing: asyncio.Future[None] | None = None
        """What the session waits for before it is answered, since its client is ready."""
        self._keepalive = Keepalive(server, send=self._send_keepalive, give_up=self._give_up)

    # In and out.

    def receive(self, data: bytes | str) -> None:
        """Take what came in one piece; what cannot be read is refused, and the next is read."""
        try:
            value = jsonrpc.decode(data)
            if isinstance(value, list):
                self._take_batch(value)
            else:
                self._take(jsonrpc.read(value))
        except McpError as error:
            self._fail(error, NEWEST, getattr(error, "request_id", None))

    def write(self, message: bytes) -> None:
        """Send a message, as long as there is somebody to read it."""
        if self._is_open:
            self._pipe.write(message)

    async def close(self, *, grace: float = GRACE) -> None:
        """End it: subscriptions with their results, calls when they are done or time is up."""
        self._keepalive.stop()
        for running in tuple(self._running.values()):
            running.exchange.end_listening()
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        self._is_open = False
        for running in tuple(self._running.values()):
            running.cancel("The client has gone")
        for group in tuple(self._joined):
            self._leave(group)

    def _take(self, message: Message) -> None:
        if isinstance(message, Request):
            self._start(message, self.write)
        elif isinstance(message, Notification):
            self._notified(message)
        else:
            self.returns.deliver(message)

    def _take_batch(self, values: Sequence[Any]) -> None:
        """Answer a batch with one array, when its last request is answered (RPC-B5)."""
        if self.session is None or not self._revision.has(Feature.BATCHES):
            raise InvalidRequest(batch.NO_BATCHES)
        messages, errors = batch.read(values)
        replies = [jsonrpc.encode(self._refusal(error, error.request_id)) for error in errors]
        tasks = []
        for message in messages:
            if isinstance(message, Request):
                tasks.append(self._start_in_batch(message, replies))
            else:
                self._take(message)
        bus.spawn(self._finish_batch([task for task in tasks if task is not None], replies))

    def _start_in_batch(self, request: Request, replies: list[bytes]) -> asyncio.Task[None] | None:
        try:
            return self._start(request, replies.append)
        except InvalidRequest as error:
            replies.append(jsonrpc.encode(self._refusal(error, request.id)))
            return None

    async def _finish_batch(
        self, tasks: Sequence[asyncio.Task[None]], replies: list[bytes]
    ) -> None:
        if tasks:
            await asyncio.wait(tasks)
        if replies:
            self.write(b"[%b]" % b",".join(replies))

    # Requests.

    def _start(self, request: Request, reply: Callable[[bytes], None]) -> asyncio.Task[None] | None:
        """Begin to answer; raises InvalidRequest when that must not be."""
        place = (type(request.id), request.id)
        if place in self._running:
            raise InvalidRequest("A request with this id is running", request_id=request.id)
        if len(self._running) >= conf.get().max_in_flight:
            raise InvalidRequest("Too many requests are running", request_id=request.id)
        if self._early.pop(place, self) is None:
            return None  # It was given up before it came, so that nobody wants an answer.
        exchange = ConnectionExchange(self)
        try:
            frame = self._frame(request, exchange)
        except McpError as error:
            reply(jsonrpc.encode(self._refusal(error, request.id)))
            return None
        task = asyncio.ensure_future(self._answer(frame, exchange, reply))
        running = self._running[place] = InFlightRequest(frame, exchange, task)
        task.add_done_callback(lambda _: self._done(place, running, reply))
        limit = conf.get().handler_timeout
        if limit is not None:
            running.timer = exchange.loop.call_later(limit, running.expire)
        return task

    def _done(
        self, place: RequestKey, running: InFlightRequest, reply: Callable[[bytes], None]
    ) -> None:
        self._running.pop(place, None)
        if running.timer is not None:
            running.timer.cancel()
        if running.has_expired:
            refused = dispatcher.error_reply(running.frame, Cancelled())
            reply(jsonrpc.encode(refused.message))

    def _frame(self, request: Request, exchange: ConnectionExchange) -> Frame:
        call = self._call(exchange)
        if request_meta.has_request_meta(request.params):
            return frames.stateless(call, request, self._envelope(request))
        if request.method == "initialize" and self.session is not None:
            raise InvalidRequest("This session is already open")
        if self.session is not None:
            return frames.in_session(call, request, self.session)
        if request.method in OPENING:
            return frames.for_initialize(call, request)
        handshakes = self.server.revisions(Statefulness.SESSION)
        if not handshakes or request.method not in handshakes[-1].requests:
            return frames.stateless(call, request, self._envelope(request))
        raise InvalidRequest("Open the session with initialize first")

    def _envelope(self, request: Request) -> request_meta.RequestMeta:
        return request_meta.read(request, None, self.server.stateless)

    async def _answer(
        self, frame: Frame, exchange: ConnectionExchange, reply: Callable[[bytes], None]
    ) -> None:
        try:
            async with asyncio.timeout(conf.get().handler_timeout) as exchange.clock:
                answer = await self._answer_in_turn(frame)
        except asyncio.CancelledError:
            # Whoever cancelled does not want an answer (CANC-06, STD-05).
            return
        except TimeoutError:
            self._end(frame, exchange, reply)
            return
        if frame.cancellation.requested:
            return
        reply(dispatcher.encode(answer.message))
        await self._tell_changed(answer.frame.changes)
        if exchange.is_listening:
            # Only after the result: clients take the notification alone for a loss (CAN-05).
            self._end_subscription(frame)

    async def _answer_in_turn(self, frame: Frame) -> Reply:
        """Answer, after what has to be finished before, and remember what that changed."""
        in_session = frame.get_mcp_session_id() is not None
        if in_session and self._initializing is not None and not frame.initialized:
            await asyncio.shield(self._initializing)
            frame = frame if self.session is None else frames.with_session(frame, self.session)
        if in_session and self.session is None:
            return dispatcher.error_reply(frame, InvalidRequest("The session has ended"))
        async with session_lock.acquire(frame, self._load, shared=False) as ready:
            reply = await frames.answer(ready)
            return reply if frame.cancellation.requested else await self._keep(frame, reply)

    async def _load(self) -> Session | None:
        return self.session

    def _end(
        self, frame: Frame, exchange: ConnectionExchange, reply: Callable[[bytes], None]
    ) -> None:
        """Tell a client which still waits that it waits for nothing."""
        assert frame.request is not None
        frame.cancellation.request(TOO_LONG)
        exchange.abandon(TOO_LONG)
        reply(jsonrpc.encode(self._refusal(Cancelled(), frame.request.id)))

    async def _keep(self, frame: Frame, reply: Reply) -> Reply:
        """Remember what the answer changed: the session it opened, or its assigns."""
        assert frame.request is not None
        if frame.request.method == "initialize" and reply.error is None:
            await self._open_session(reply.frame)
        elif self.session is not None and frame.get_mcp_session_id() is not None:
            try:
                await self._change(reply.frame.changes)
            except TypeError:
                return frames.commit_failed_reply(reply)
        return reply

    async def _change(self, changes: Sequence[Change]) -> Session | None:
        """Apply changes to the session; raises TypeError for what JSON cannot say."""
        if self.session is not None:
            changed = pack(self.session.apply(changes))
            self.session = unpack(changed, session_id=self.session.id)
            await self._hear_of(self.session.subscriptions)
        return self.session

    async def _open_session(self, frame: Frame) -> None:
        identity = publisher.CONNECTION_BOUND.join((self._scheme, secrets.token_urlsafe(24)))
        self.session = frames.new_session(frame, identity)
        await self._join(publisher.of_session(self.session.address), self._hear)

    def _end_subscription(self, frame: Frame) -> None:
        assert frame.request is not None
        params = {"requestId": frame.request.id, "reason": "The server ends the subscription"}
        ended = jsonrpc.notification("notifications/cancelled", params)
        self.write(jsonrpc.encode(ended))

    # Notifications.

    def _notified(self, message: Notification) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(message.params)
        elif message.method == "notifications/initialized" and self.session is not None:
            if self._initializing is None:
                self._initializing = asyncio.ensure_future(self._initialized(message))
        elif self.session is not None:
            call = self._call(ConnectionExchange(self))
            bus.spawn(session_hooks.notified(call, message, self.session, self._keeper))

    async def _initialized(self, message: Notification) -> None:
        """Begin to announce, unless the server's author finds that the session must end."""
        assert self.session is not None
        call = self._call(ConnectionExchange(self))
        if await session_hooks.initialized(call, message, self.session, self._keeper):
            await self._begin_to_announce()
        else:
            self.session, self._initializing = None, None

    @property
    def _keeper(self) -> SessionWriter:
        return SessionWriter(keep=self._change, tell=self._tell_changed)

    def _call(self, exchange: ConnectionExchange) -> frames.IncomingRequest:
        return frames.IncomingRequest(server=self.server, caller=self._caller, exchange=exchange)

    def _cancel(self, params: Mapping[str, Any]) -> None:
        """Stop the request which the client has given up; an unknown one is ignored (CANC-11)."""
        identity = params.get("requestId")
        if not jsonrpc.is_id(identity):
            return
        running = self._running.get((type(identity), identity))
        if running is None:
            self._early[type(identity), identity] = None
            if len(self._early) > EARLY:
                self._early.popitem(last=False)
        elif running.frame.request is None or running.frame.request.method != "initialize":
            running.cancel(str(params.get("reason") or "")[:200] or None)

    # Announcements.

    async def _begin_to_announce(self) -> None:
        self._keepalive.start()
        await self._join(publisher.of_server(self.server), self._hear_all)
        for method in (
            publisher.advertised(self.server) if self.server.notify_lists_on_initialize else ()
        ):
            self._tell(method, jsonrpc.encode(jsonrpc.notification(method)))

    async def _hear_of(self, uris: frozenset[str]) -> None:
        """Listen to changes of these resources, and of no others."""
        wanted = {publisher.of_resource(self.server, uri) for uri in uris}
        here = {group for group, receiver in self._joined.items() if receiver == self._hear_updated}
        for group in here - wanted:
            self._leave(group)
        for group in wanted - here:
            await self._join(group, self._hear_updated)

    def _hear(self, message: bus.Message) -> None:
        if message["event"] == "said":
            self._tell(message["said"]["method"], jsonrpc.encode(message["said"]))

    def _hear_all(self, message: bus.Message) -> None:
        self._tell(message["method"], message["text"].encode())

    def _hear_updated(self, message: bus.Message) -> None:
        bus.spawn(self._tell_of(message["uri"]))

    async def _tell_of(self, uri: str) -> None:
        """Tell of a change to a resource, if the client may still read it."""
        if self.session is None:
            return
        asked = Notification(UPDATED, {"uri": uri})
        call = self._call(ConnectionExchange(self))
        if await visibility.is_readable(frames.in_session(call, asked, self.session), uri):
            message = jsonrpc.notification(UPDATED, {"uri": uri})
            self._tell(UPDATED, jsonrpc.encode(message))

    async def _tell_changed(self, changes: Sequence[Change]) -> None:
        for message in publisher.lists_changed(self.server, changes):
            self._tell(message["method"], jsonrpc.encode(message))

    def _tell(self, method: str, message: bytes) -> None:
        # Before a client is ready it should be sent nothing (LIFE-10).
        session = self.session
        if session is not None and session.initialized and publisher.supports(session, method):
            self.write(message)

    def _send_keepalive(self, message: bytes) -> bool:
        if self._pipe.is_stuck:
            return False
        self.write(message)
        return True

    async def _give_up(self) -> None:
        await self.close(grace=0)
        self._pipe.end()

    async def _join(self, group: str, receiver: bus.Receiver) -> None:
        self._joined[group] = receiver
        await bus.here().subscribe(group, receiver)

    def _leave(self, group: str) -> None:
        receiver = self._joined.pop(group, None)
        if receiver is not None:
            bus.here().unsubscribe(group, receiver)

    # Refusals.

    @property
    def _revision(self) -> Revision:
        return NEWEST if self.session is None else BY_VERSION[self.session.version]

    def _refusal(self, error: McpError, identity: RequestId | None) -> dict[str, Any]:
        return jsonrpc.error(identity, self._revision.error(error))

    def _fail(self, error: McpError, revision: Revision, identity: RequestId | None) -> None:
        self.write(jsonrpc.encode(jsonrpc.error(identity, revision.error(error))))


OPENING = ("initialize", "ping")
"""What may be called before a session is open (LIFE-01, LIFE-11)."""
