"""One HTTP request from its headers to the end of its response: JSON, or an SSE stream.

The stream is opened by the first notification. A call that sends none is answered as JSON, without
a task, a future or a queue.

| response | when | transitions |
|---|---|---|
| none yet | nothing was written | ``write``, ``keep_alive``: stream; ``answer``: closed |
| stream | its writer has events, or has started | ``answer``, or the client goes: closed |
| closed | its writer is closed | none; later messages are dropped |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from django.utils.functional import SimpleLazyObject

from django_mcp import conf
from django_mcp.auth.authentication import Authentication
from django_mcp.auth.challenges import AuthenticationFailed
from django_mcp.auth.django_session import browser_session
from django_mcp.core.auth.base import Challenge, Principal
from django_mcp.core.concurrency.loops import nothing
from django_mcp.core.dispatch.calls_in_flight import TICK, CallsInFlight, calls_in_flight
from django_mcp.core.frame.frame import Frame
from django_mcp.core.frame.transport import Transport
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, request_meta, sse
from django_mcp.core.protocol.errors import (
    AuthenticationRequired,
    InternalError,
    InvalidRequest,
    McpError,
)
from django_mcp.core.protocol.headers import ACCEPT, RequestHeaders
from django_mcp.core.protocol.jsonrpc import Request, RequestId
from django_mcp.core.protocol.revisions import NEWEST, Feature, Revision
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import Serve
from django_mcp.core.server.server import Server
from django_mcp.runtime import request_scope
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.base import is_outage, log_outage
from django_mcp.transports import frames
from django_mcp.transports.http import django_middleware, open_streams
from django_mcp.transports.http.django_middleware import View
from django_mcp.transports.http.long_lived_stream import ListenStream
from django_mcp.transports.http.open_streams import TooManyStreams
from django_mcp.transports.http.request import (
    JSON,
    STREAM,
    WAITING_THREAD,
    ClientDisconnected,
    HeaderPairs,
    HttpError,
    Receive,
    Scope,
    ScopeTransport,
    Send,
    accepts,
)
from django_mcp.transports.http.sse_response import StreamWriter
from django_mcp.transports.loop_exchange import TIMED_OUT, LoopExchange

logger = logging.getLogger("django_mcp")

T = TypeVar("T")
Written = TypeVar("Written", bytes, dict[str, Any])

WAIT_FOR_LOOP_EVERY = 500
"""After so many messages a handler's thread waits for the event loop, but not for the client."""
LARGE = 64 * 1024
"""Bytes. From this size of a message on, a handler's thread waits for the event loop as well. So
many bytes of events are sent at once, and not kept for later events."""
COALESCING_TIME = 0.001
"""Seconds after a flush: further events are kept meanwhile, to be sent together."""
YIELD_EVERY = 16
"""After so many flushes a handler yields to the event loop, even if the network takes all."""

BODY_TIMEOUT = 30.0
"""Seconds for the arrival of a request's body."""
SILENT = 1.0
"""Seconds until a handler lends its thread while it waits for a client that does not read."""
NOT_READ = "The client does not read the response"

OTHER_SITES = frozenset({b"cross-site", b"same-site"})
"""Values of Sec-Fetch-Site for a request that a page of another site makes."""
USUAL_ACCEPT = b"application/json, text/event-stream"
"""The value that most clients send; it is compared before anything is parsed."""
JSON_HEADERS: HeaderPairs = (
    (b"content-type", b"application/json"),
    # Proxies do not know cacheScope, and must not store responses for one client.
    (b"cache-control", b"no-store"),
)


UNUSED = StreamWriter(None, None)  # type: ignore[arg-type]
"""The writer of a response that nothing was written of."""
CLOSED = StreamWriter(None, None)  # type: ignore[arg-type]
"""The writer of a complete response that was not a stream."""
CLOSED.close()


class HttpExchange(LoopExchange):
    """One HTTP request: its headers and body, the actions of its call, and its response.

    | phase | meaning | transitions |
    |---|---|---|
    | new | its headers are checked | ``read_body`` |
    | arriving | its body has to arrive within ``BODY_TIMEOUT`` | ``read_body``, at its end |
    | read | its message is parsed, and its Frame is made | ``begin`` |
    | running | it counts as a call of its caller; ``tick`` looks after it | ``stop`` |
    | ended | ``end`` has cancelled its task, for the reason ``ended_by`` | ``stop`` |
    | over | its response is being sent | nobody |
    """

    server: Server
    authentication: Authentication
    content = b""
    """The body, from when it is read until it is parsed: an error has the id of its request."""
    to_server: Send
    """Sends to the ASGI server, past the middleware."""
    accepts_stream: bool
    """Whether the client accepts an SSE stream as the response to its POST."""
    revision: Revision
    """The revision of the message, once it is known."""
    request_id: RequestId | None = None
    """The id of the message, once it is parsed."""
    waiting_handler: Hashable = None
    """The key of a handler which may run on the thread of a WSGI server, if it is fast."""
    _is_opening = False
    """Whether it counts as a call, up to the start of the session or the stream that it opens."""
    _in_flight: CallsInFlight
    _has_responded = False
    """Whether a message for the ASGI server was sent: an error is then raised for it."""
    _view: View | None
    """Where messages go within Django's middleware, which may change the response. A stream goes
    past it to the ASGI server, and so does everything after its start."""
    _writer: StreamWriter
    _stream: ListenStream | None
    """The stream of a request to listen that was accepted."""
    _headers: HeaderPairs
    """Headers of the response besides the usual ones."""
    _has_dropped = False
    _flushes = 0
    _flushed_at = 0.0
    _lending: request_scope.Scope | None = None
    """The request scope of a handler which waits for the client."""
    _arrives_since: float | None = None
    """The time of the loop at its first tick, while its body arrives."""
    _ticks = 0
    _keepalive_at = 0.0
    """The age in seconds for the next keepalive comment."""
    _waiting: asyncio.Task[None] | None
    """Waits for the disconnect, once the call takes long."""

    def __init__(
        self,
        server: Server,
        authentication: Authentication,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self.server = server
        self.authentication = authentication
        self.scope = scope
        self.receive = receive
        self.headers = self.request_headers = RequestHeaders.of(scope["headers"])
        self.to_server = send
        self.loop = asyncio.get_running_loop()
        # Every request reads these: attributes of an object are read faster than those of a class.
        self.accepts_stream = True
        self.encodes = True
        self.is_cancelled = False
        self.error = None
        self.revision = NEWEST
        self._view = None
        self._writer = UNUSED
        self._stream = None
        self._headers = ()
        self._waiting = None

    @property
    def occupies_thread(self) -> bool:
        """Whether a thread of the server waits for the response, as under WSGI."""
        return WAITING_THREAD in self.scope

    @property
    def may_listen(self) -> bool:  # type: ignore[override]
        """Whether a stream may stay open that belongs to no request, without an end of its own."""
        return not self.occupies_thread or conf.get().wsgi_streams > 0

    def check_may_listen(self) -> None:
        if not self.may_listen:
            message = "This server has no streams besides those of calls: poll instead"
            raise HttpError(405, message, ((b"allow", b"POST, DELETE"),))

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent: the client has disconnected, or the response is complete."""
        return self._writer.is_closed

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream, or is about to become one."""
        return self._writer.is_used

    # Its caller.

    @cached_property
    def transport(self) -> Transport | None:  # type: ignore[override]
        return ScopeTransport(self.scope)

    @cached_property
    def session(self) -> Any:
        """The Django session, if there is one. It is loaded on first access."""
        scope = self.scope
        if self.headers.get(b"cookie") is None and "session" not in scope:
            return None
        return SimpleLazyObject(lambda: browser_session(scope))

    @property
    def stream_key(self) -> str:
        """The key that counts the open streams of the caller."""
        return frames.counted_as(self.server, self.principal, self.transport)

    async def authenticate(self) -> Principal:
        """The caller; raises HttpError with a challenge."""
        try:
            return await self.authentication.authenticate(self.scope)
        except AuthenticationFailed as failed:
            raise self.rejection(failed) from None

    def rejection(self, failed: AuthenticationFailed) -> HttpError:
        """The HTTP error, with its challenge, for a caller who could not be authenticated."""
        challenge = failed.challenge
        headers = self.authentication.headers(self.scope, challenge)
        return HttpError(challenge.status, challenge.message, headers)

    async def reauthenticate(self) -> Principal:
        """Authenticate the request again, for an open stream; raises HttpError."""
        return await django_middleware.check(self)

    def challenge(self, error: AuthenticationRequired, revision: Revision) -> HeaderPairs:
        """The headers of a response with ``error``, which name the rights that the caller needs."""
        status = revision.http_status(error)
        name = error.reason if status == 403 else ""
        challenge = Challenge(status=status, message=error.message, error=name, scopes=error.scopes)
        return self.authentication.headers(self.scope, challenge)

    # Its headers and its body.

    def check_media_types(self) -> bool:
        """Return whether the client accepts a stream.

        Raises HttpError for a body that is not JSON, and for a client that does not accept JSON.
        """
        content_type = self.headers.get(b"content-type") or b""
        if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
            raise HttpError(415, "Send JSON: Content-Type: application/json")
        accept = self.headers.get(ACCEPT) or b"*/*"
        if accept == USUAL_ACCEPT:
            return True
        if not accepts(accept, JSON):
            raise HttpError(406, "Accept application/json and text/event-stream")
        return accepts(accept, STREAM)

    def check_get(self) -> None:
        """Reject a GET which accepts no stream, or which a page of another site makes.

        For an image, a script or a link, a browser sends cookies, but no Origin.
        """
        headers = self.headers
        is_of_other_site = headers.get(b"sec-fetch-site") in OTHER_SITES
        has_cookie = headers.get(b"cookie") is not None
        if is_of_other_site and has_cookie and headers.get(b"origin") is None:
            raise HttpError(403, "A page of another site may not open a stream with cookies")
        if not accepts(headers.get(ACCEPT) or b"", STREAM):
            raise HttpError(406, "Accept text/event-stream")

    async def read_body(self, limit: int) -> bytes:
        """Return the body, which is the ``content`` until it is parsed.

        Raises HttpError if it is longer than ``limit`` bytes or takes longer than BODY_TIMEOUT, and
        ClientDisconnected if the client disconnects before its end.
        """
        loop = self.loop
        # With the loop, because finding it costs a system call before Python 3.12.
        self.task = asyncio.current_task(loop)
        self._in_flight = in_flight = calls_in_flight(loop)
        in_flight.arriving[self] = None
        if not in_flight.is_ticking:
            in_flight.start_ticking(loop)
        try:
            message = await self.receive()
            body: bytes = message.get("body", b"")
            if not body or message.get("more_body"):
                body = await self._read_parts(message, limit)
        except asyncio.CancelledError:
            if self.ended_by is None:
                raise
            if self.task is not None:
                self.task.uncancel()
            self.ended_by = None
            raise self._body_timeout() from None
        finally:
            del in_flight.arriving[self]
        if len(body) > limit:
            raise HttpError(413, f"A message may have at most {limit} bytes")
        self.content = body
        return body

    async def _read_parts(self, message: Mapping[str, Any], limit: int) -> bytes:
        """The body, with ``message`` as its first part; ends early above ``limit``."""
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit or not message.get("more_body"):
                return b"".join(parts)
            message = await self.receive()

    def _body_timeout(self) -> HttpError:
        """The error for a client that has not sent its whole message in time."""
        # Versions other than 1 have no such header (RFC 9113, section 8.2.2).
        is_first_version = self.scope.get("http_version", "1.1").startswith("1")
        headers = ((b"connection", b"close"),) if is_first_version else ()
        return HttpError(408, f"Send the body within {BODY_TIMEOUT:g} s", headers)

    # Its call.

    def begin(self) -> None:
        """Count as a call from now on; raises TooManyRequests or ServerBusy if it is too many."""
        self._in_flight.begin(self, conf.get().max_in_flight, self.loop)

    def stop(self) -> None:
        """Be no call any more: its response is known."""
        self._in_flight.end(self)
        if self._waiting is not None:
            self._waiting.cancel()

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Count as a call that opens a session or a stream; raises as ``begin``.

        Nothing is sent for it meanwhile: that would begin the response, without the id of the
        session, or before the acknowledgement (SUB-08).
        """
        self.accepts_stream = False
        # Middleware may run what follows in another task than what has read the body.
        self.task = asyncio.current_task(self.loop)
        self.begin()
        self._is_opening = True
        try:
            yield
        finally:
            self._has_opened()

    def _has_opened(self) -> None:
        if self._is_opening:
            self._is_opening = False
            self.stop()

    def tick(self) -> None:
        """Check the time limit and the client; wait for a disconnect from the second tick on."""
        self._ticks += 1
        age = self._ticks * TICK
        if self._ticks == 2:
            self._waiting = self.loop.create_task(self._await_disconnect())
        limit = conf.get().handler_timeout
        if limit is not None and age >= limit:
            self.end(TIMED_OUT)
            return
        writer = self._writer
        if writer.silence > SILENT and self._lending is not None:
            # Lend the thread for ORM calls of a handler that waits for the client.
            self._lending.release()
        if writer.is_stalled:
            self.cut_off()
            if not self.may_be_resumed:
                self.end(NOT_READ)
        else:
            self._keep_alive_at(age)

    def tick_while_arriving(self) -> None:
        """Check that the body arrives in time."""
        now = self.loop.time()
        if self._arrives_since is None:
            self._arrives_since = now
        is_late = now - self._arrives_since >= BODY_TIMEOUT
        if is_late and self.ended_by is None and self.task is not None:
            self.ended_by = "The body has not arrived in time"
            self.task.cancel()

    def _keep_alive_at(self, age: float) -> None:
        interval = conf.get().sse_ping_interval
        if interval is not None and age >= (self._keepalive_at or interval):
            self._keepalive_at = age + interval
            self.keep_alive()

    async def _await_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.disconnected()
        if self.revision.has(Feature.DISCONNECT_CANCELS):
            self.end("The client closed the connection")

    def use_waiting_thread(self, frame: Frame) -> None:
        """Let a tool run on the thread of the server, if it sends nothing before its result."""
        call = frame.message
        if call.method == "tools/call" and self.is_silent(frame):
            self.waiting_handler = (self.server, call.params.get("name"))

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        """Run a synchronous handler: on the thread of the server, where it may, or in a pool."""
        request_scope.begin_handler()
        # A call that may go on as a task has threads of its own.
        if self.waiting_handler is not None and self.in_pool is LoopExchange.in_pool:
            run = self.scope[WAITING_THREAD].run
            return run(self, self.waiting_handler, function, *args)  # type: ignore[no-any-return]
        return self.in_pool(function, *args)

    def is_silent(self, frame: Frame) -> bool:
        """Whether the client of a call has asked for neither progress nor log messages."""
        meta = frame.message.params.get("_meta", ())
        return request_meta.LOG_LEVEL not in meta and "progressToken" not in meta

    # Messages of a handler.

    def write(self, message: dict[str, Any], /) -> None:
        if self.accepts_stream:
            event = sse.event(jsonrpc.encode(message))
            if self._is_here():
                self._enqueue(event)
            else:
                self._write_from_thread(self._enqueue, event)

    async def flush(self) -> None:
        """Wait until the stream has room again.

        Events that follow a flush within COALESCING_TIME are sent together, later.
        """
        writer = self._writer
        self._flushes += 1
        if (
            self._flushes % YIELD_EVERY == 0
            or self.loop.time() > self._flushed_at + COALESCING_TIME
            or writer.size > LARGE
            or writer.is_blocked
        ):
            await asyncio.sleep(0)  # Here the server accepts the events, unless it has to wait.
            if writer.is_sending:
                self._lending = request_scope.current()
                await writer.flush()
                self._lending = None
            # Only after the wait: with many handlers, the wait alone may exceed COALESCING_TIME.
            self._flushed_at = self.loop.time()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        raise ConnectionError("Requests to this client need a session")

    def _write_from_thread(self, write: Callable[[Written], None], data: Written) -> None:
        """Call ``write`` in the event loop.

        The event loop bounds the messages for a client that does not read. The thread does not wait
        for such a client, because the calls of others need it.
        """
        self.loop.call_soon_threadsafe(write, data)
        self.written_by_threads += 1
        if self.written_by_threads % WAIT_FOR_LOOP_EVERY == 0 or len(data) > LARGE:
            self._wait_for_loop()

    def open_writer(self) -> StreamWriter:
        """The writer of the response, which is made when it becomes a stream."""
        writer = self._writer
        if writer is UNUSED:
            self._writer = writer = StreamWriter(self.send, self.loop)
            writer.headers = self._headers
        return writer

    def _enqueue(self, event: bytes) -> None:
        if not self.open_writer().write(event):
            self._overflow()

    def _overflow(self) -> None:
        """Drop a notification: nothing of it can be sent later."""
        if not self._has_dropped:
            self._has_dropped = True
            text = "Notifications are dropped: a handler sends more than the network takes"
            log_repeated(logging.WARNING, text)

    # The end of the response.

    def answer(self, body: bytes) -> Coroutine[Any, Any, None]:
        """Send the response: as JSON, or as the last event of its stream.

        JSON has the status of the error in it, if it has one.
        """
        status = 200
        error = self.error
        if error is not None:
            self.add_headers_of(error, self.revision)
            status = self.revision.http_status(error)
        writer = self._writer
        if self._stream is not None:
            return self._stream.finish(sse.event(body))
        if writer.is_used:
            return self._end_stream(sse.event(body))
        if writer is not UNUSED:
            return nothing()  # It was closed: the client has gone.
        # A background task of the handler may still write, which is ignored.
        self._writer = CLOSED
        return self.respond(status, body)

    def add_headers_of(self, error: McpError, revision: Revision) -> None:
        """Add the challenge of an error, or the header that says when to retry."""
        if isinstance(error, AuthenticationRequired):
            for name, value in self.challenge(error, revision):
                self.add_header(name, value)
        if error.retry_after is not None:
            self.advise_retry(error.retry_after)

    def advise_retry(self, seconds: int, /) -> None:
        self.add_header(b"retry-after", b"%d" % seconds)

    def add_header(self, name: bytes, value: bytes) -> None:
        self._headers = (*self._headers, (name, value))
        if self._writer is not UNUSED and self._writer is not CLOSED:
            self._writer.headers = self._headers

    async def listen(self, frame: Frame, wanted: Filter | Serve, /) -> None:
        stream = ListenStream(self, frame, wanted)
        with stream.open_within(open_streams.MAX_STREAMS, TooManyStreams()):
            self._stream = stream
            self._has_opened()
            await stream.serve()

    async def _end_stream(self, last: bytes) -> None:
        scope = request_scope.current()
        if scope is not None:
            scope.release()
        writer = self._writer
        await writer.end(last)
        self._writer = CLOSED  # They refer to each other.

    async def respond(self, status: int, body: bytes, headers: HeaderPairs = JSON_HEADERS) -> None:
        """Send a whole response to the ASGI server, or to the middleware around this request."""
        send: Send | None = self._view
        if send is None:
            send = self.to_server
            self._has_responded = True
        pairs = (*headers, *self._headers, (b"content-length", b"%d" % len(body)))
        if status == 204:  # It has no content, and so no length (RFC 9110, section 8.6).
            pairs = pairs[:-1]
        try:
            await send({"type": "http.response.start", "status": status, "headers": pairs})
            sent = b"" if self.scope["method"] == "HEAD" else body
            await send({"type": "http.response.body", "body": sent, "more_body": False})
        except OSError:
            self.disconnected()

    def send(self, message: dict[str, Any]) -> Awaitable[None]:
        """Send a message to the ASGI server, or to the middleware around this request."""
        if self._view is not None:
            return self._view(message)
        self._has_responded = True
        return self.to_server(message)

    def send_to_server(self, message: dict[str, Any]) -> Awaitable[None]:
        """Send a message past the middleware."""
        self._view = None
        self._has_responded = True
        return self.to_server(message)

    @contextmanager
    def sending_to(self, view: View) -> Iterator[None]:
        """Send to the view that the middleware surrounds."""
        self._view = view
        try:
            yield
        finally:
            self._view = None

    # The client.

    @property
    def may_be_resumed(self) -> bool:
        """Whether the client can read the rest of the response over another connection."""
        return False

    def keep_alive(self) -> None:
        """Send a keepalive comment, so that proxies keep the connection of a slow call open."""
        if self.accepts_stream:
            self._enqueue(sse.KEEP_ALIVE)

    def disconnected(self) -> None:
        """Note that the client has disconnected."""
        if self._writer is UNUSED:
            self._writer = CLOSED
        elif self._writer is not CLOSED:
            self._writer.lose()

    def cut_off(self) -> None:
        """Send nothing more to a client that does not read."""
        if self._writer is not UNUSED:
            self._writer.cut_off()
        self.disconnected()

    # Errors.

    async def fail(self, error: Exception) -> None:
        """Answer with the error. It is raised for the server if the response has begun."""
        if isinstance(error, ClientDisconnected):
            return
        if self._has_responded:
            raise error
        if isinstance(error, AuthenticationFailed):
            error = self.rejection(error)
        if isinstance(error, HttpError):
            await self._reject(error.status, InvalidRequest(error.message), error.headers)
        elif isinstance(error, McpError):
            await self._reject(NEWEST.http_status(error), error)
        elif is_outage(error):
            # An authenticator or a permission check has asked the database.
            log_outage(error)
            unavailable = StoreUnavailable()
            await self._reject(NEWEST.http_status(unavailable), unavailable)
        else:
            logger.error("An HTTP request could not be answered", exc_info=error)
            await self._reject(500, InternalError())

    async def _reject(self, status: int, error: McpError, headers: HeaderPairs = ()) -> None:
        body = jsonrpc.encode(jsonrpc.error(self._id_for(error), NEWEST.error(error)))
        self._headers = ()
        self.add_headers_of(error, NEWEST)
        await self.respond(status, body, (*JSON_HEADERS, *headers))

    def _id_for(self, error: McpError) -> RequestId | None:
        """The id of the request that failed, if it could be read; it may not be parsed yet."""
        request_id = self.request_id if error.request_id is None else error.request_id
        if request_id is None and self.content:
            with suppress(McpError):
                message = jsonrpc.read(jsonrpc.decode_received(self.content))
                request_id = message.id if isinstance(message, Request) else None
        return request_id
