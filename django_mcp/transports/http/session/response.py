"""The Exchange of a request in a session: it sends requests, and outlives its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django_mcp.dispatch.reply import encode_reply
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.jsonrpc import RequestId
from django_mcp.protocol.revisions import BY_VERSION, Feature
from django_mcp.pubsub import publisher
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.runtime import background
from django_mcp.transports.http.request import HttpRequest, Send
from django_mcp.transports.http.response import HttpExchange
from django_mcp.transports.http.session.event_log import StreamLog

RETRY = 1000
"""Milliseconds after which a client reconnects."""


class SessionExchange(HttpExchange):
    """One request in a session. Its response is JSON, or a stream which may be resumed.

    In revisions with priming events the stream starts with one, and each event has an id.
    """

    request_id: RequestId | None = None
    _log: StreamLog | None = None
    _requests: PendingRequests | None = None
    _released: asyncio.Future[None] | None = None
    _is_released = False

    def __init__(
        self,
        send: Send,
        *,
        may_stream: bool,
        route: ResponseRoute,
        request: HttpRequest | None = None,
    ) -> None:
        super().__init__(send, may_stream, request)
        self.route = route
        features = BY_VERSION[route.session.version].features
        self._resumable = may_stream and Feature.PRIMING_EVENTS in features

    @property
    def request_headers(self) -> None:
        """None: only stateless requests repeat their body in headers."""

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the result, or log it for a client that reconnects."""
        if self._may_stream:
            text = jsonrpc.encode(message)
            if self._is_here():
                self._write_event(text)
            else:
                self._write_from_thread(self._write_event, text)

    async def flush(self) -> None:
        """Wait until the stream has room again, or all events are in the event store."""
        await super().flush()
        if self.is_closed and self._log is not None:
            await self._log.flush()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Send a request on this stream, or on the session's own stream if there is none."""
        if self.is_closed and self._log is None and self._may_stream:
            raise ConnectionError("The client has disconnected and cannot resume this request")
        write = self.write if self._may_stream else self._post
        if self._requests is None:
            self._requests = PendingRequests()
        return await self._requests.send_request(self.route, write, method, params, timeout=timeout)

    async def close_stream(self, retry: int, /) -> None:
        """Close the connection once the client can resume the stream (T-HTTP-19, -20)."""
        if not self._resumable or self.is_closed:
            return
        self._open()
        self._enqueue(sse.retry(retry))
        await self._close_connection()

    def abandon(self, reason: str) -> None:
        if self._requests is not None:
            self._requests.abandon(reason)

    def left(self, stream: str) -> None:
        """Note that the connection which resumed ``stream`` has ended."""
        if self._log is not None and self._log.name == stream:
            self._log.left()

    @property
    def may_be_resumed(self) -> bool:
        return self._log is not None

    def keep_alive(self) -> None:
        """Send a keepalive comment; the first one opens the stream."""
        if self._begins_log():
            self._open()
        else:
            super().keep_alive()

    def tick(self) -> None:
        """Extend the lease of the stream."""
        if self._log is not None:
            self._log.renew()

    def disconnected(self) -> None:
        super().disconnected()
        self.release()

    async def detach(self, stream: str) -> None:
        """Close the connection if ``stream``, resumed over another connection, is its own."""
        if self._log is not None and self._log.name == stream:
            await self._close_connection()
            self._log.resumed()
            await self._log.notify_readers()

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        if self._log is None:
            await super().finish(message, status)
            return
        text = encode_reply(message, self.answers)
        event = sse.event(text, id=str(self._log.append(text.decode(), is_response=True)))
        # Not after the client has read it: by then the lease may have run out.
        closing = self.loop.create_task(self._log.close())
        await self._end_stream(event)
        await closing

    async def finish_cancelled(self, message: dict[str, Any]) -> None:
        """End the response to a request that its client cancelled.

        A stream ends without an answer (CANC-06). A response that has not begun is ``message``,
        because HTTP cannot leave a request unanswered.
        """
        if self._log is None and not self.is_stream:
            await self.finish(message)
            return
        await self._end_stream(b"")
        if self._log is not None:
            await self._log.close()

    async def finish_all(self, messages: Sequence[bytes], status: int) -> None:
        """Send the responses to a batch, each as an event or all in one array."""
        if self.is_stream:
            await self._end_stream(b"".join(map(sse.event, messages)))
        elif self.is_closed:
            return
        elif messages:
            await self.respond(status, b"[%b]" % b",".join(messages))
        else:
            await self.respond(202, b"", ())

    async def until_over(self, answering: asyncio.Task[None]) -> None:
        """Wait until ``release`` is called; the task which answers may go on after it."""
        if not self._is_released:
            self._released = self.loop.create_future()
        try:
            if self._released is not None:
                await self._released
        except asyncio.CancelledError:
            # ASGI servers cancel the task of a closed connection, but not tasks created by it.
            self.disconnected()
            raise
        if answering.done():
            answering.result()

    def _write_event(self, text: bytes) -> None:
        if self._begins_log():
            self._open()
        event_id = None if self._log is None else str(self._log.append(text.decode()))
        self._enqueue(sse.event(text, id=event_id))

    def _begins_log(self) -> bool:
        """Whether the next event opens a stream that can be resumed."""
        return self._resumable and self._log is None and not self.is_closed

    def _open(self) -> None:
        """Start the stream with its priming event, unless it has started (T-HTTP-18)."""
        if self._log is None:
            self._log = StreamLog(self.route.session, self.request_id)
            # The client may reconnect at once, and then the store has to have the stream.
            self._writer.before_start = self._log.wait_until_created
            self._enqueue(sse.priming(str(self._log.last), retry=RETRY))

    def _enqueue(self, event: bytes) -> None:
        if not self._writer.is_used:
            # Not earlier: they refer to each other until the response is complete.
            self._writer.on_lost = self._lost
        super()._enqueue(event)

    def _lost(self) -> None:
        """End the wait for the response; later events are only logged."""
        if self._log is not None:
            self._log.left()
            background.spawn(self._log.notify_readers())
        self.release()

    def _overflow(self) -> None:
        """Leave a stream that can be resumed to the log, else drop the notification."""
        if self._log is None:
            super()._overflow()
        else:
            self.cut_off()

    def _post(self, message: dict[str, Any]) -> None:
        background.spawn_accepted(self._post_to_outbox(message))

    async def _post_to_outbox(self, message: dict[str, Any]) -> None:
        is_stored = await publisher.post_to_outbox(self.route.session.address, message)
        if not is_stored and "id" in message:
            self.abandon("The request cannot be stored for the client")

    async def _close_connection(self) -> None:
        """End the response, but not the stream: later events are only logged."""
        await self._writer.flush()
        if self.is_closed:
            return
        self._writer.close()
        if self._log is not None:
            self._log.left()
            await self._log.flush()
        await self._writer.send_last(b"")
        self.release()

    def release(self) -> None:
        self._is_released = True
        if self._released is not None and not self._released.done():
            self._released.set_result(None)


class NotificationExchange(SessionExchange):
    """The Exchange of a notification: what its handler sends goes to the session's own stream."""

    def write(self, message: dict[str, Any], /) -> None:
        if self._is_here():
            self._post(message)
        else:
            self._write_from_thread(self._post, message)
