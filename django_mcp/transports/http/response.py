"""One HTTP response on its way: plain JSON, or a stream as soon as something is said before it.

It lives for the time of one POST. The fast path, an answer without a word before it, makes no
task, no future and no queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.dispatch import dispatcher
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.transports.eager import begin
from django_mcp.transports.exchange import LoopExchange

logger = logging.getLogger("django_mcp")

Send = Callable[[dict[str, Any]], Awaitable[None]]
HeaderPairs = Sequence[tuple[bytes, bytes]]

MAX_WAITING = 1000
"""How many notifications may wait for the network before their author has to."""

FAIR = 8
"""After so many flushes which did not have to wait, others have their turn."""

JSON_HEADERS: HeaderPairs = (
    (b"content-type", b"application/json"),
    # What one caller may see is no proxy's to keep: cacheScope means nothing to those.
    (b"cache-control", b"no-store"),
)
STREAM_HEADERS: HeaderPairs = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies of the nginx kind would otherwise hold events back until a buffer is full.
    (b"x-accel-buffering", b"no"),
)


class HttpExchange(LoopExchange):
    """The Exchange of one HTTP request, and the writer of its response."""

    encodes = True
    streaming = False
    """Whether the response has become a stream."""
    gone = False
    """Whether nothing can be sent any more: the client has gone, or was answered."""
    _pump: asyncio.Task[None] | None = None
    _is_scheduled = False
    _flushes = 0
    _handed_over = 0

    def __init__(
        self,
        send: Send,
        *,
        may_stream: bool,
        request_headers: RequestHeaders | None = None,
        headers: HeaderPairs = (),
    ) -> None:
        super().__init__()
        self.request_headers = request_headers
        self._send = send
        self._may_stream = may_stream
        self._headers = headers
        self._waiting: list[bytes] = []

    # The Exchange, as handlers use it.

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the answer; the response becomes a stream."""
        if not self._may_stream or self.gone:
            return
        event = sse.event(jsonrpc.encode(message))
        if self._is_here():
            self._enqueue(event)
            return
        self._hand_over(self._enqueue, event)

    async def flush(self) -> None:
        """Wait until everything written so far has been handed to the server."""
        if self._pump is None and self._waiting:
            self._pump = self._begin_to_drain()
            await self._be_fair()
        while self._pump is not None:
            await asyncio.shield(self._pump)

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Requests need a session, which this exchange does not have."""
        raise ConnectionError("This client cannot be asked while its request is open")

    # The response, as the consumer uses it.

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        """Send the answer, as the last event of the stream or as plain JSON."""
        if self._pump is not None or self._waiting:
            await self.flush()
        if self.gone:
            return
        # What a handler left behind may still say something, to which nobody listens.
        self.gone = True
        if self.streaming:
            await self._send_body(sse.event(dispatcher.encode(message)), more=False)
        else:
            await self.respond(status, dispatcher.encode(message))

    async def respond(self, status: int, body: bytes, headers: HeaderPairs = JSON_HEADERS) -> None:
        """Send a whole response."""
        length = (b"content-length", b"%d" % len(body))
        await self._start(status, (*headers, length))
        await self._send_body(body, more=False)

    def add_header(self, name: bytes, value: bytes) -> None:
        """Send one more header with the response, which must not have begun."""
        self._headers = (*self._headers, (name, value))

    def keep_alive(self) -> None:
        """Send a comment, so that no proxy takes a slow answer for a dead connection."""
        if self._may_stream and not self.gone:
            self._enqueue(sse.KEEP_ALIVE)

    def disconnected(self) -> None:
        """Note that nobody reads any more."""
        self.gone = True
        self._waiting.clear()

    def _hand_over(self, write: Callable[[bytes], None], event: bytes) -> None:
        """Let the event loop write what a handler's thread said, which waits for it at times.

        A thread may say much before the loop has looked once, so that the length of the queue
        would tell it too late.
        """
        self.loop.call_soon_threadsafe(write, event)
        self._handed_over += 1
        if self._handed_over % (MAX_WAITING // 2) == 0:
            self.wait(self.flush())

    def _enqueue(self, event: bytes) -> None:
        if self.gone:
            return
        if len(self._waiting) >= MAX_WAITING:
            logger.warning("A handler says more than the network carries; some of it is left out")
            return
        self._waiting.append(event)
        if not self._is_scheduled:
            # What is written until then travels together.
            self._is_scheduled = True
            self.loop.call_soon(self._drain_soon)

    def _drain_soon(self) -> None:
        self._is_scheduled = False
        if self._pump is None and self._waiting:
            self._pump = self.loop.create_task(self._drain())

    def _begin_to_drain(self) -> asyncio.Task[None] | None:
        return begin(self._drain(), self.loop)

    async def _be_fair(self) -> None:
        """Let others run at times: a handler which reports in a loop need not wait for anything."""
        self._flushes += 1
        if self._flushes % FAIR == 0:
            await asyncio.sleep(0)

    async def _drain(self) -> None:
        """Hand what waits to the server; what was written meanwhile travels together."""
        try:
            if not self.streaming:
                self.streaming = True
                await self._start(200, STREAM_HEADERS)
            while self._waiting:
                events = b"".join(self._waiting)
                self._waiting.clear()
                await self._send_body(events, more=True)
        finally:
            self._pump = None

    def _start(self, status: int, headers: HeaderPairs) -> Awaitable[None]:
        return self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, *self._headers],
            }
        )

    def _send_body(self, body: bytes, *, more: bool) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": body, "more_body": more})
