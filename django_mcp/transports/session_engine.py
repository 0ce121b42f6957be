"""Opening and initializing sessions, and their requests in flight, for every transport.

``initialize`` opens a session. ``notifications/initialized`` makes it ready: then its client may be
sent notifications. A request is in flight until it is answered or cancelled.
"""

# A session, as the store has it:
#
# | state | in the store | next, and what moves it |
# |---|---|---|
# | opened | a row, ``initialized`` is false | ``initialized``: ready, or claimed with a hook |
# | claimed | ``initializer`` names a call of ``init`` | ``call_init``: ready; its failure: ended |
# | ready | ``initialized`` is true | DELETE, expiry, the end of a connection: ended |
# | ended | no row | nobody: a session never comes back |
#
# The rules:
#
# 1. The row in the store is the session. A ``Session`` is a copy of it, which may be out of date; a
#    change is a ``Change``, which the store applies to the row that is there then.
# 2. A change names the principal for whom it is made. A session that was taken over has another
#    one, and does not get what the handlers of the former caller assign.
# 3. The ``init`` hook is called once, by the holder of the claim. A failure ends the session. When
#    a principal takes an anonymous session over, the hook is called again.
# 4. ``initialized`` is stored after the hook has returned, together with its assigns: from then on
#    streams send notifications.
# 5. A request is in flight from ``begin`` to ``end``, on one event loop and under one key. Only
#    this loop changes the table, so it has no lock.
# 6. ``answer`` returns a response for every exception. Exceptions of other methods reach the
#    transport, which knows how to refuse.

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from django_mcp import conf
from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import handle
from django_mcp.core.dispatch.handle import Site
from django_mcp.core.dispatch.invocation import call_hook
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.session import Change, Session
from django_mcp.core.frame.transport import Transport
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InternalError, InvalidRequest, McpError, TooManyRequests
from django_mcp.core.protocol.jsonrpc import Message, Notification, Request, RequestId, Response
from django_mcp.core.protocol.limits import quoted
from django_mcp.core.server.server import Server, server_of
from django_mcp.pubsub import publisher
from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import SessionStore, digest
from django_mcp.transports import frames, session_lock
from django_mcp.transports.loop_exchange import LoopExchange

MAX_CONCURRENT_IN_BATCH = 20
"""Requests of a batch that run at once, so that a long batch leaves room for other requests."""
MAX_REASON = 200
"""Characters that are kept of the reason for a cancellation."""
CLIENT_CANCELLED = "The client cancelled the request"
"""The reason of a cancellation that has none."""
NO_BATCHES = "Send one message at a time: this revision has no batches"
INITIALIZED = Change("initialized", "set", value=True)


class SessionEngine:
    def __init__(self, site: Site, store: SessionStore, *, is_shared: bool) -> None:
        """``is_shared``: whether other workers have sessions in the same store."""
        self.site = site
        self.store = store
        self.is_shared = is_shared

    async def open(self, frame: Frame, session_id: str) -> tuple[bytes, Session | None]:
        """Answer ``initialize``: the response, and the session unless it is an error.

        Raises StoreFull.
        """
        body = await handle.answer(frame, self.site)
        opened = frame.exchange.opened
        frame.exchange.opened = None  # They refer to each other.
        if frame.exchange.error is not None or opened is None:
            return body, None
        server = server_of(frame)
        position = None
        if self.is_shared and not server.notify_lists_on_initialize:
            position = await publisher.position(server)
        session = Session(
            id=session_id,
            server=server.name,
            principal=frame.principal.key,
            version=opened.revision.version,
            caller=counted_as(server, frame.principal, frame.transport),
            anonymous_at=frame.principal.place if frame.principal.is_anonymous else None,
            client_info=opened.private["client_info"],
            client_capabilities=opened.private["client_capabilities"],
            init_meta=opened.private["init_meta"],
            log_position=position,
            opened_at=None if self.site.telemetry is None else time.time(),
        ).apply(opened.changes)
        await self.store.create(session)
        return body, session

    def answer(self, frame: Frame) -> Awaitable[bytes]:
        """The response to a request, as ``handle.answer`` returns it."""
        session_id = frame.get_mcp_session_id()
        if (
            not frame.server.serialize_requests
            or session_id is None
            or not session_lock.waits(frame.message.method)
        ):
            return handle.answer(frame, self.site)
        return self._answer_locked(frame, session_id)

    async def _answer_locked(self, frame: Frame, session_id: str) -> bytes:
        try:
            lock = session_lock.acquire(session_id, self.store, is_shared=self.is_shared)
            async with lock as session:
                return await handle.answer(frames.with_session(frame, session), self.site)
        except (McpError, asyncio.CancelledError) as error:
            return handle.encode_raised(frame, error)
        except Exception as error:
            frame.server.report("The session lock could not be acquired", error)
            return handle.encode_error(frame, InternalError())

    async def initialized(
        self, exchange: LoopExchange, message: Notification, session: Session
    ) -> bool:
        """Note that the client is ready, after the server's ``init``, which is called once.

        False if that failed: then the session must be ended.
        """
        if not exchange.server.has_hook("init"):
            await self.site.commit(session.id, session.principal, [INITIALIZED])
            return True
        token = secrets.token_urlsafe(9)
        claim = Change("initializer", "claim", value=token)
        claimed = await self.site.commit(session.id, session.principal, [claim])
        if claimed is None or claimed.initializer != token:
            # The session has ended, or an earlier notification has called the hook.
            return True
        return await self.call_init(exchange, message, claimed)

    async def call_init(
        self, exchange: LoopExchange, message: Notification, session: Session
    ) -> bool:
        """Call the server's ``init`` and keep its assigns; False if it failed."""
        server = exchange.server
        session = session._replace(initialized=True)
        try:
            frame = frames.in_session(exchange, message, session)
            async with asyncio.timeout(conf.get().handler_timeout):
                frame = await handle.prepare(frame, self.site)
                frame = await call_hook(server.init, session.client_info, frame=frame)
            # Not before, so that no stream sends notifications while the hook runs.
            await self.site.commit(session.id, session.principal, [INITIALIZED, *frame.changes])
            if not server.notify_lists_on_initialize:
                await self.site.publish(server, session.id, frame.changes)
        except StoreUnavailable:
            return False  # It is logged.
        except Exception as error:
            exchange.server.report("The init hook failed; its session is ended", error)
            return False
        return True

    async def notified(
        self, exchange: LoopExchange, message: Notification, session: Session
    ) -> None:
        """Call the server's ``handle_notification`` and keep its assigns."""
        server = exchange.server
        if not server.has_hook("handle_notification"):
            return
        try:
            frame = frames.in_session(exchange, message, session)
            hook = server.handle_notification
            async with asyncio.timeout(conf.get().handler_timeout):
                frame = await handle.prepare(frame, self.site)
                frame = await call_hook(hook, message.method, message.params, frame=frame)
            if frame.changes:
                await self.site.commit(session.id, session.principal, frame.changes)
                await self.site.publish(server, session.id, frame.changes)
        except Exception as error:
            server.report(f"handle_notification failed for {quoted(message.method)}", error)


def counted_as(server: Server, principal: Principal, transport: Transport | None) -> str:
    """The key of a session for the limit; empty if it is its principal.

    It is hashed, because it contains the network address of the caller.
    """
    if principal.subject:
        return ""
    return digest(frames.counted_as(server, principal, transport))


class InFlightRequest(Protocol):
    """The exchange of a request in a session, or on a connection, which has one at most."""

    session_address: str
    """The address of the session; empty on a connection."""
    request_id: RequestId | None
    request_key: str
    """``key_of`` its id."""

    def cancel(self, reason: str | None) -> None:
        """Stop it for its client, who needs no response, and stop its waits."""


R = TypeVar("R", bound=InFlightRequest)


class InFlightRequests(Generic[R]):
    """The requests that are answered on one event loop, by session and key.

    A cancellation of any other request is ignored: it was answered, or has not arrived (CANC-08).
    """

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, R]] = {}

    def begin(self, request: R) -> None:
        """Add a request; raises InvalidRequest if there are too many, or one with this id."""
        requests = self._sessions.setdefault(request.session_address, {})
        if request.request_key in requests:
            raise InvalidRequest("A request with this id is running", request_id=request.request_id)
        if len(requests) >= conf.get().max_in_flight:
            raise TooManyRequests(request_id=request.request_id)
        requests[request.request_key] = request

    def end(self, request: R) -> None:
        requests = self._sessions[request.session_address]
        del requests[request.request_key]
        if not requests:
            del self._sessions[request.session_address]

    def cancel(self, session: str, key: str, reason: str | None) -> bool:
        """Cancel a request; False if it is not in flight here."""
        request = self._sessions.get(session, {}).get(key)
        if request is not None:
            request.cancel(reason)
        return request is not None

    def of(self, session: str) -> Sequence[R]:
        return tuple(self._sessions.get(session, {}).values())


def key_of(request_id: RequestId) -> str:
    """A request's id as a string which differs for ``1`` and ``"1"``."""
    kind = "s" if isinstance(request_id, str) else "i"
    return f"{kind}{request_id}"


def read_cancellation(params: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """The key and the reason in ``notifications/cancelled``; None if it names no request."""
    request_id = params.get("requestId")
    if not jsonrpc.is_id(request_id):
        return None
    reason = str(params.get("reason") or "")[:MAX_REASON]
    return key_of(request_id), reason or None


def concurrent_in_batch() -> int:
    """How many requests of a batch run at once."""
    return min(MAX_CONCURRENT_IN_BATCH, conf.get().max_in_flight)


def read_batch(values: Sequence[Any]) -> tuple[list[Message], list[InvalidRequest]]:
    """The messages of a batch, and the errors of its invalid elements (RPC-B1 to -B6).

    Raises InvalidRequest for a batch which is invalid as a whole.
    """
    if not values:
        raise InvalidRequest("A batch has at least one message")
    jsonrpc.check_batch_size(values)
    messages: list[Message] = []
    errors: list[InvalidRequest] = []
    for value in values:
        try:
            message = jsonrpc.read(value)
            if isinstance(message, Request) and message.method == "initialize":
                raise InvalidRequest("initialize is sent alone", request_id=message.id)
            messages.append(message)
        except InvalidRequest as error:
            errors.append(error)
    responses = [message for message in messages if isinstance(message, Response)]
    if responses and len(responses) < len(messages):
        raise InvalidRequest("A batch holds responses, or requests and notifications, not both")
    return messages, errors


# The experimental ``notifications/keepalive``, on one connection of a session. A server declares it
# with ``Server.set_keepalive``. The keepalive comments of SSE streams do not depend on it.

KEEPALIVE = "notifications/keepalive"
UNANSWERED = "Keepalive failure threshold reached; closing transport"
"""The reason which the server's ``handle_error`` receives, as the seeds have it."""


class Keepalive:
    """Sends the notification at an interval, until it fails too often in a row."""

    def __init__(
        self, server: Server, send: Callable[[bytes], bool], give_up: Callable[[], Awaitable[None]]
    ) -> None:
        """``send`` sends a message, and returns whether the previous one has been sent.

        ``give_up`` closes the connection and ends its session.
        """
        self._server = server
        self._send = send
        self._give_up = give_up
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._server.keepalive is not None and self._timer is None:
            self._schedule(self._server.keepalive.interval_ms)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, interval_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        keepalive = self._server.keepalive
        if keepalive is None:
            return
        try:
            is_sent = self._send(jsonrpc.encode(jsonrpc.notification(KEEPALIVE)))
        except OSError:
            is_sent = False
        self._failures = 0 if is_sent else self._failures + 1
        if self._failures < keepalive.failure_threshold:
            self._schedule(keepalive.interval_ms)
            return
        self._server.report(UNANSWERED)
        background.spawn(self._give_up())  # type: ignore[arg-type]
