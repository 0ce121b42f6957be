"""The response to one POST: JSON, or an SSE stream.

The SSE stream is opened by the first notification. A call that sends none is answered as JSON,
without a task, a future or a queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from django_mcp.dispatch.reply import encode_reply
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.errors import AuthenticationRequired, McpError
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.revisions import Revision
from django_mcp.runtime import request_scope
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http.request import HeaderPairs, HttpRequest, resume

Send = Callable[[dict[str, Any]], Awaitable[None]]
Written = TypeVar("Written", bytes, dict[str, Any])

MAX_WAITING = 1024 * 1024
"""Bytes of notifications that may wait for the network."""
STALLED = 60.0
"""Seconds after which a client that takes none of what is sent counts as disconnected."""
SILENT = 1.0
"""Seconds after which a handler that waits for such a client lends its thread for ORM calls."""
LOOP_EVERY = 500
"""After so many messages a handler's thread waits for the event loop, but not for the client."""
LARGE = 64 * 1024
"""Bytes after which it waits as well, and after which events are not kept for later ones."""
TOGETHER = 0.001
"""Seconds in which events that follow others are sent together, once the event loop is reached."""
YIELD_EVERY = 8
"""After so many flushes a handler yields to the event loop, even if the network takes all."""

JSON_HEADERS: HeaderPairs = (
    (b"content-type", b"application/json"),
    # Proxies do not know cacheScope, and must not store what one client may read.
    (b"cache-control", b"no-store"),
)
STREAM_HEADERS: HeaderPairs = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies like nginx buffer responses otherwise.
    (b"x-accel-buffering", b"no"),
)


class HttpExchange(LoopExchange):
    encodes = True
    streaming = False
    """Whether the response has become a stream."""
    gone = False
    """Whether nothing can be sent: the client has disconnected, or the response is complete."""
    is_cut_off = False
    """Whether nothing is sent any more because the client does not read."""
    _headers: HeaderPairs = ()
    _waiting: bytes | bytearray = b""
    """The events that wait for the network. Nearly always it is one, which is not copied."""
    _pump: asyncio.Task[None] | None = None
    _sending = 0
    """The number of the body that the pump sends, or 0."""
    _seen: tuple[object, int] = (None, 0)
    _seen_at = 0.0
    _is_scheduled = False
    _has_dropped = False
    _flushes = 0
    _drained_at = 0.0
    _scope: request_scope.Scope | None = None
    """That of a handler which waits for the client."""
    _written_by_threads = 0

    def __init__(
        self, send: Send, may_stream: bool = False, request: HttpRequest | None = None
    ) -> None:
        """``request`` is the one which is answered, where a challenge may be the answer."""
        self.loop = asyncio.get_running_loop()
        self.request = request
        self._send = send
        self._may_stream = may_stream

    @property
    def request_headers(self) -> RequestHeaders | None:
        """The headers which have to repeat the body."""
        return None if self.request is None else self.request.headers

    def write(self, message: dict[str, Any], /) -> None:
        if self._may_stream and not self.gone:
            event = sse.event(jsonrpc.encode(message))
            if self._is_here():
                self._enqueue(event)
            else:
                self._write_from_thread(self._enqueue, event)

    async def flush(self) -> None:
        """Wait until the stream has room again.

        Events which follow others at once are sent with them, when the handler next waits.
        """
        if self._pump is None and self._waiting:
            self._flushes += 1
            yields, now = self._flushes % YIELD_EVERY == 0, self.loop.time()
            if yields or now > self._drained_at + TOGETHER or len(self._waiting) > LARGE:
                self._drained_at = now
                self._pump = self._start_draining()
            if yields:
                await asyncio.sleep(0)
        if self._pump is not None:
            await self._until_drained()

    async def _send_waiting(self) -> None:
        """Wait until everything written so far has been passed to the ASGI server."""
        if self._pump is None and self._waiting:
            self._pump = self._start_draining()
        await self._until_drained()

    async def _until_drained(self) -> None:
        self._scope = request_scope.current()
        while self._pump is not None:
            await asyncio.shield(self._pump)
        self._scope = None

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        raise ConnectionError("Requests to this client need a session")

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        if self._pump is not None or self._waiting:
            await self._flush_in_time()
        if self.gone:
            return
        # A background task of the handler may still write, which is ignored.
        self.gone = True
        if self.streaming:
            await self._send_last(sse.event(encode_reply(message)))
        else:
            await self.respond(status, encode_reply(message))

    async def respond(self, status: int, body: bytes, headers: HeaderPairs = JSON_HEADERS) -> None:
        pairs = [*headers, *self._headers]
        if status != 204:  # It has no content, and so no length (RFC 9110, section 8.6).
            pairs.append((b"content-length", b"%d" % len(body)))
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": pairs})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        except OSError:
            self.disconnected()

    def status_of(self, error: McpError | None, revision: Revision) -> int:
        """The status of a response; adds its challenge, or the header that says when to retry."""
        if error is None:
            return 200
        if isinstance(error, AuthenticationRequired) and self.request is not None:
            self._headers = (*self._headers, *self.request.challenge(error, revision))
        if error.retry_after is not None:
            self.add_header(b"retry-after", b"%d" % error.retry_after)
        return revision.http_status(error)

    def add_header(self, name: bytes, value: bytes) -> None:
        self._headers = (*self._headers, (name, value))

    def keep_alive(self) -> None:
        """Send a keepalive comment, so that proxies keep the connection of a slow call open."""
        if self._may_stream and not self.gone:
            self._enqueue(sse.KEEP_ALIVE)

    def disconnected(self) -> None:
        self.gone = True
        self._waiting = b""

    @property
    def may_be_resumed(self) -> bool:
        """Whether the client can read the rest of the response over another connection."""
        return False

    def is_stalled(self) -> bool:
        """Whether the client takes nothing of what is sent. To be called at intervals."""
        if self._pump is None:
            return False
        now = self.loop.time()
        if (self._pump, self._sending) != self._seen:
            self._seen, self._seen_at = (self._pump, self._sending), now
        silence = now - self._seen_at
        if silence > SILENT and self._scope is not None:
            self._scope.release()
        return silence > STALLED

    def cut_off(self) -> None:
        """Send nothing more to a client that does not read."""
        text = "A response is cut off because its client does not read it"
        log_repeated(logging.WARNING, text)
        self.is_cut_off = True
        self.disconnected()
        if self._pump is not None and self._sending:
            self._pump.cancel()

    async def _flush_in_time(self) -> None:
        if (scope := request_scope.current()) is not None:
            scope.release()
        try:
            async with asyncio.timeout(STALLED):
                await self._send_waiting()
        except TimeoutError:
            self.cut_off()

    def _write_from_thread(self, write: Callable[[Written], None], data: Written) -> None:
        """Call ``write`` in the event loop.

        What waits for a client that does not read is bounded there. A thread that waited for it
        would be missing for the calls of others.
        """
        self.loop.call_soon_threadsafe(write, data)
        self._written_by_threads += 1
        if self._written_by_threads % LOOP_EVERY == 0 or len(data) > LARGE:
            self._wait_for_loop()

    def _enqueue(self, event: bytes) -> None:
        if self.gone:
            return
        if len(self._waiting) > MAX_WAITING:
            self._overflow()
            return
        if not self._waiting:
            self._waiting = event
        elif isinstance(self._waiting, bytearray):
            self._waiting += event
        else:
            self._waiting = bytearray(self._waiting + event)
        if not self._is_scheduled:
            # Events which are written until then are sent together.
            self._is_scheduled = True
            self.loop.call_soon(self._drain_soon)

    def _overflow(self) -> None:
        """Drop a notification: nothing of it can be sent later."""
        if not self._has_dropped:
            self._has_dropped = True
            text = "Notifications are dropped: a handler sends more than the network takes"
            log_repeated(logging.WARNING, text)

    def _drain_soon(self) -> None:
        self._is_scheduled = False
        if self._pump is None and self._waiting:
            self._pump = self.loop.create_task(self._drain())

    def _start_draining(self) -> asyncio.Task[None] | None:
        return start_task(self._drain(), self.loop)

    async def _drain(self) -> None:
        """Pass the events to the ASGI server; those written meanwhile are sent together."""
        try:
            self._sending = 1
            if not self.streaming:
                await self._start_stream()
            while self._waiting:
                events, self._waiting = bytes(self._waiting), b""
                self._sending += 1
                await self._send({"type": "http.response.body", "body": events, "more_body": True})
        except OSError:
            self.disconnected()
        except asyncio.CancelledError:
            if not self.gone:  # Otherwise ``cut_off`` did it.
                raise
        finally:
            self._pump = None
            self._sending = 0

    async def _start_stream(self) -> None:
        self.streaming = True
        pairs = [*STREAM_HEADERS, *self._headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": pairs})

    async def _send_last(self, events: bytes) -> None:
        """End the stream with ``events``; start it, if nothing was sent before."""
        try:
            async with asyncio.timeout(STALLED):
                if not self.streaming:
                    await self._start_stream()
                last = {"type": "http.response.body", "body": events, "more_body": False}
                await self._send(last)
        except TimeoutError:
            self.cut_off()
        except OSError:
            # ASGI servers raise it after a disconnect.
            self.disconnected()


def start_task(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None] | None:
    """Run a coroutine up to its first wait; return a task for the rest, or None if it is done.

    Python has this from 3.12 on, as eager tasks. An ASGI server takes most events at once: without
    this, a call which reports its progress 100 times needs 4.4 ms of CPU time instead of 2.0 ms.
    Errors before the first wait are raised to the caller.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return loop.create_task(_finish(coroutine, awaited))


async def _finish(started: Coroutine[Any, Any, None], awaited: Any) -> None:
    await resume(started, awaited)
