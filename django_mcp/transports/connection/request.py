"""One message on a connection: the messages of its call, and its end.

| state | meaning | who moves it |
|---|---|---|
| running | its task answers it | ``Connection`` |
| listening | its subscription is open, until ``end_listening`` | ``listen`` |
| stopped | its task is cancelled; it has no response | ``cancel``: the client; ``stop`` |
| expired | its task is cancelled; its response is an error | ``end``: a limit, a shutdown |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.jsonrpc import RequestId
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import Serve
from django_mcp.pubsub.pending_requests import ConnectionRoute, PendingRequests
from django_mcp.transports import subscription
from django_mcp.transports.loop_exchange import TIMED_OUT, LoopExchange

WAIT_EVERY = 100
"""After so many messages a thread waits until there is room for more."""
SESSION = ""
"""The key of requests in flight: a connection has one session at most."""

Send = Callable[[bytes], None]
"""Sends a response, or adds it to a batch."""


async def yield_once() -> None:
    await asyncio.sleep(0)


class ConnectionExchange(LoopExchange):
    encodes = True
    is_bound_here = True
    session_address = SESSION
    request_id: RequestId | None = None
    request_key = ""
    is_initialize = False
    timer: asyncio.TimerHandle | None = None
    _closed: asyncio.Future[None] | None = None

    def connect(
        self, send: Send, route: ConnectionRoute, flush: Callable[[], Awaitable[None]]
    ) -> None:
        """Set how messages are sent to the client; before anything else is called."""
        self._send = send
        self._route = route
        self._flush = flush
        self.pending_requests = PendingRequests()

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the response; several requests may interleave."""
        encoded = jsonrpc.encode(message)
        if self._is_here():
            self._send(encoded)
        else:
            self.loop.call_soon_threadsafe(self._send, encoded)
            self.written_by_threads += 1
            if self.written_by_threads % WAIT_EVERY == 0:
                self.wait_for(self.flush())

    async def flush(self) -> None:
        await self._flush()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        return await self.pending_requests.send_request(
            self._route, self.write, method, params, timeout=timeout
        )

    async def listen(self, frame: Frame, wanted: Filter | Serve, /) -> None:
        """Send notifications until the client cancels the request, or ``end_listening``."""
        stream = subscription.of(frame, wanted, self._send, self.end_listening)
        self._closed = self.loop.create_future()
        try:
            await stream.open()
            await self._closed
        finally:
            stream.close()

    @property
    def is_listening(self) -> bool:
        return self._closed is not None

    def end_listening(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def cancel(self, reason: str | None) -> None:
        """Stop it for its client, unless it opens the session (CANC-02)."""
        if not self.is_initialize:
            self.stop(reason)

    def stop(self, reason: str | None) -> None:
        """Cancel its task, and its requests to the client; it gets no response."""
        self.request(reason)
        self.abandon_requests(reason or "The call was cancelled")
        if self.task is not None:
            self.task.cancel()

    def end(self, reason: str) -> None:
        """Stop it although its client has not cancelled it; its response is an error."""
        if not self.is_listening:
            super().end(reason)

    def abandon_requests(self, reason: str) -> None:
        self.pending_requests.abandon(reason)

    def expire(self) -> None:
        """Stop it because it took too long."""
        self.end(TIMED_OUT)
