"""One HTTP response on its way: plain JSON, or a stream as soon as something is said before it.

It lives for the time of one POST. The fast path, an answer without a word before it, makes no
task, no future and no queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from django_mcp import dispatch, threads, undo
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.headers import Mirrored

logger = logging.getLogger("django_mcp")

T = TypeVar("T")
Send = Callable[[dict[str, Any]], Awaitable[None]]
HeaderPairs = Sequence[tuple[bytes, bytes]]

MAX_WAITING = 1000
"""How many notifications may wait for the network before their author has to."""

JSON_HEADERS: HeaderPairs = ((b"content-type", b"application/json"),)
STREAM_HEADERS: HeaderPairs = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies of the nginx kind would otherwise hold events back until a buffer is full.
    (b"x-accel-buffering", b"no"),
)


class HttpExchange:
    """The Exchange of one HTTP request, and the writer of its response."""

    def __init__(
        self,
        send: Send,
        *,
        may_stream: bool,
        mirrored: Mirrored | None = None,
        headers: HeaderPairs = (),
    ) -> None:
        self.mirrored = mirrored
        self.streaming = False
        self.gone = False
        """Whether the client has closed the connection."""
        self._send = send
        self._may_stream = may_stream
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._pump: asyncio.Task[None] | None = None

    # The Exchange, as handlers use it.

    async def run(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run a synchronous function in a thread of the pool."""
        return await threads.run(function, *args)

    async def attempt(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run it as ``run`` does; a question undoes what it wrote."""
        return await undo.run(function, *args)

    async def attempt_async(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Await ``coroutine``; a question undoes what it wrote."""
        return await undo.run_async(coroutine)

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop from a handler's thread."""
        if _running_loop() is self._loop:
            coroutine.close()
            raise RuntimeError(
                "A synchronous call to the client would block the event loop: in an async "
                "handler, await the method whose name begins with 'a'."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the answer; the response becomes a stream."""
        if not self._may_stream or self.gone:
            return
        event = sse.event(jsonrpc.encode(message))
        if _running_loop() is self._loop:
            self._enqueue(event)
            return
        self._loop.call_soon_threadsafe(self._enqueue, event)
        if len(self._waiting) >= MAX_WAITING:
            self.wait(self.flush())

    async def flush(self) -> None:
        """Wait until everything written so far has been handed to the server."""
        while self._pump is not None:
            await asyncio.shield(self._pump)

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Requests need a session, which this exchange does not have."""
        raise ConnectionError("This client cannot be asked while its request is open")

    # The response, as the consumer uses it.

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        """Send the answer, as the last event of the stream or as plain JSON."""
        if self._pump is not None:
            await self.flush()
        if self.gone:
            return
        if self.streaming:
            await self._send_body(sse.event(dispatch.encode(message)), more=False)
        else:
            await self.respond(status, dispatch.encode(message))

    async def respond(self, status: int, body: bytes, headers: HeaderPairs = JSON_HEADERS) -> None:
        """Send a whole response."""
        length = (b"content-length", str(len(body)).encode())
        await self._start(status, (*headers, length))
        await self._send_body(body, more=False)

    def add_header(self, name: bytes, value: bytes) -> None:
        """Send one more header with the response, which must not have begun."""
        self._headers = (*self._headers, (name, value))

    def keep_alive(self) -> None:
        """Send a comment, so that no proxy takes a slow answer for a dead connection."""
        if self._may_stream and not self.gone:
            self._enqueue(sse.comment())

    def disconnected(self) -> None:
        """Note that nobody reads any more."""
        self.gone = True
        self._waiting.clear()

    def _enqueue(self, event: bytes) -> None:
        if len(self._waiting) >= MAX_WAITING:
            logger.warning("A handler says more than the network carries; some of it is left out")
            return
        self._waiting.append(event)
        if self._pump is None:
            self._pump = self._loop.create_task(self._drain())

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

    async def _start(self, status: int, headers: HeaderPairs) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, *self._headers],
            }
        )

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
