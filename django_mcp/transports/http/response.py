"""The response to one POST: JSON, or an SSE stream.

The stream is opened by the first notification. A call that sends none is answered as JSON, without
a task, a future or a queue.

| response | when | what moves it |
|---|---|---|
| none yet | nothing was written | ``write``, ``keep_alive``: stream; ``finish``: closed |
| stream | its writer has events, or has started | ``finish``, or the client goes: closed |
| closed | its writer is closed | nothing; what is written later is dropped |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, TypeVar

from django_mcp.concurrency.coroutines import nothing
from django_mcp.dispatch.reply import encode_reply
from django_mcp.frame.frame import RequestInfo
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.errors import AuthenticationRequired, McpError
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.revisions import Revision
from django_mcp.runtime import request_scope
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http.request import HeaderPairs, HttpRequest, Send
from django_mcp.transports.http.stream_writer import StreamWriter
from django_mcp.transports.wsgi import waiting_thread

T = TypeVar("T")
Written = TypeVar("Written", bytes, dict[str, Any])

WAIT_FOR_LOOP_EVERY = 500
"""After so many messages a handler's thread waits for the event loop, but not for the client."""
LARGE = 64 * 1024
"""Bytes of a message after which a handler's thread waits for the event loop as well. So many bytes
of events are sent at once, and not kept for later events."""
COALESCING_TIME = 0.001
"""Seconds after a flush in which further events are kept, to be sent together."""
YIELD_EVERY = 16
"""After so many flushes a handler yields to the event loop, even if the network takes all."""

JSON_HEADERS: HeaderPairs = (
    (b"content-type", b"application/json"),
    # Proxies do not know cacheScope, and must not store what one client may read.
    (b"cache-control", b"no-store"),
)


class HttpExchange(LoopExchange):
    encodes = True
    _has_dropped = False
    _flushes = 0
    _flushed_at = 0.0
    _scope: request_scope.Scope | None = None
    """The request scope of a handler which waits for the client."""
    _written_by_threads = 0
    answers: RequestInfo | None = None
    """The request that it answers, once it is read: for the log."""
    silent_handler: Hashable | None = None
    """The handler of a call under WSGI that sends no notifications; it may run on the thread that
    waits for the response."""

    def __init__(
        self, send: Send, may_stream: bool = False, request: HttpRequest | None = None
    ) -> None:
        """``request`` is the request to answer; a challenge can only be sent if it is given."""
        self.loop = asyncio.get_running_loop()
        self.request = request
        self._send = send
        self._may_stream = may_stream
        self._writer = StreamWriter(send, self.loop)

    @property
    def may_listen(self) -> bool:  # type: ignore[override]
        """Whether a stream that belongs to no request may stay open."""
        return self.request is None or self.request.may_stay_open

    @property
    def request_headers(self) -> RequestHeaders | None:
        """The headers which have to repeat the body."""
        return None if self.request is None else self.request.headers

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent: the client has disconnected, or the response is complete."""
        return self._writer.is_closed

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream, or is about to become one."""
        return self._writer.is_used

    def run(self, function: Callable[..., T], /, *args: Any) -> Awaitable[T]:
        if self.silent_handler is None:
            return super().run(function, *args)
        return waiting_thread.run(self.loop, self.silent_handler, function, *args)

    # What a handler sends.

    def write(self, message: dict[str, Any], /) -> None:
        if self._may_stream:
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
                self._scope = request_scope.current()
                await writer.flush()
                self._scope = None
            # Only after the wait: with many handlers, the wait alone may exceed COALESCING_TIME.
            self._flushed_at = self.loop.time()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        raise ConnectionError("Requests to this client need a session")

    def _write_from_thread(self, write: Callable[[Written], None], data: Written) -> None:
        """Call ``write`` in the event loop.

        The event loop bounds what is kept for a client that does not read. The thread does not wait
        for such a client, because the calls of others need it.
        """
        self.loop.call_soon_threadsafe(write, data)
        self._written_by_threads += 1
        if self._written_by_threads % WAIT_FOR_LOOP_EVERY == 0 or len(data) > LARGE:
            self._wait_for_loop()

    def _enqueue(self, event: bytes) -> None:
        if not self._writer.write(event):
            self._overflow()

    def _overflow(self) -> None:
        """Drop a notification: nothing of it can be sent later."""
        if not self._has_dropped:
            self._has_dropped = True
            text = "Notifications are dropped: a handler sends more than the network takes"
            log_repeated(logging.WARNING, text)

    # The end of the response.

    def answer(
        self, message: dict[str, Any], error: McpError | None, revision: Revision
    ) -> Awaitable[None]:
        """Send the response. ``error`` is that in the message, if it has one."""
        if error is None:
            return self.finish(message)
        self.add_headers_of(error, revision)
        return self.finish(message, revision.http_status(error))

    def add_headers_of(self, error: McpError, revision: Revision) -> None:
        """Add the challenge of an error, or the header that says when to retry."""
        if isinstance(error, AuthenticationRequired) and self.request is not None:
            for name, value in self.request.challenge(error, revision):
                self.add_header(name, value)
        if error.retry_after is not None:
            self.advise_retry(error.retry_after)

    def advise_retry(self, seconds: int, /) -> None:
        self.add_header(b"retry-after", b"%d" % seconds)

    def add_header(self, name: bytes, value: bytes) -> None:
        self._writer.headers = (*self._writer.headers, (name, value))

    def finish(self, message: dict[str, Any], status: int = 200) -> Coroutine[Any, Any, None]:
        """Send the response: as JSON, or as the last event of its stream."""
        writer = self._writer
        if writer.is_used:
            return self._end_stream(sse.event(encode_reply(message, self.answers)))
        # A background task of the handler may still write, which is ignored.
        if not writer.close():
            return nothing()
        return self.respond(status, encode_reply(message, self.answers))

    async def _end_stream(self, last: bytes) -> None:
        scope = request_scope.current()
        if scope is not None:
            scope.release()
        await self._writer.end(last)

    async def respond(self, status: int, body: bytes, headers: HeaderPairs = JSON_HEADERS) -> None:
        pairs = [*headers, *self._writer.headers]
        if status != 204:  # It has no content, and so no length (RFC 9110, section 8.6).
            pairs.append((b"content-length", b"%d" % len(body)))
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": pairs})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        except OSError:
            self.disconnected()

    # What the monitor of the call sees, and does.

    @property
    def is_stalled(self) -> bool:
        """Whether the client takes nothing of what is sent."""
        return self._writer.is_stalled

    @property
    def silence(self) -> float:
        """For how many seconds the client has taken nothing of what is sent."""
        return self._writer.silence

    @property
    def may_be_resumed(self) -> bool:
        """Whether the client can read the rest of the response over another connection."""
        return False

    def release_thread(self) -> None:
        """Lend the thread for ORM calls of a handler that waits for the client."""
        if self._scope is not None:
            self._scope.release()

    def keep_alive(self) -> None:
        """Send a keepalive comment, so that proxies keep the connection of a slow call open."""
        if self._may_stream:
            self._enqueue(sse.KEEP_ALIVE)

    def disconnected(self) -> None:
        """Note that the client has disconnected."""
        self._writer.lose()

    def cut_off(self) -> None:
        """Send nothing more to a client that does not read."""
        self._writer.cut_off()
        self.disconnected()
