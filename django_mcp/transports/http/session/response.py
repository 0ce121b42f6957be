"""The Exchange of a request in a session: it can ask the client, and outlive its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django_mcp.dispatch import dispatcher
from django_mcp.protocol import jsonrpc, sse
from django_mcp.protocol.revisions import BY_VERSION, Feature
from django_mcp.pubsub import bus, publisher
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.transports.http.response import HttpExchange, Send
from django_mcp.transports.http.session.event_log import StreamLog

RETRY = 1000
"""Milliseconds after which a client comes back whose connection ended."""


class SessionExchange(HttpExchange):
    """One request in a session, and its response: plain, or a stream which may be resumed.

    Where the revision has priming events, the stream opens with one, and each event has an id.
    """

    def __init__(self, send: Send, *, may_stream: bool, response_route: ResponseRoute) -> None:
        super().__init__(send, may_stream=may_stream)
        self._response_route = response_route
        revision = BY_VERSION[response_route.session.version]
        self.may_stream = may_stream
        self._resumable = may_stream and revision.has(Feature.PRIMING_EVENTS)
        self._log: StreamLog | None = None
        self._questions: PendingRequests | None = None
        self._over: asyncio.Future[None] | None = None

    # The Exchange, as handlers use it.

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification before the answer, or keep it for when the client comes back."""
        if not self._may_stream:
            return
        text = jsonrpc.encode(message)
        if self._is_here():
            self._say(text)
            return
        self._hand_over(self._say, text)

    async def flush(self) -> None:
        """Wait until what was written has been handed to the server or, without one, is kept."""
        await super().flush()
        if self.gone and self._log is not None:
            await self._log.kept()

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Ask on this request's stream, or where it has none on the session's own."""
        if self.gone and self._log is None and self._may_stream:
            raise ConnectionError("The client has gone, and cannot come back to this request")
        write = self.write if self._may_stream else self._post
        self._questions = self._questions or PendingRequests()
        return await self._questions.ask(
            self._response_route, write, method, params, timeout=timeout
        )

    async def close_stream(self, retry: int, /) -> None:
        """Let go of the connection, once the client knows where to go on (T-HTTP-19, -20)."""
        if not self._resumable or self.gone:
            return
        self._open()
        self._enqueue(sse.retry(retry))
        await self._let_go()

    # The response, as the transport uses it.

    @property
    def stream(self) -> str | None:
        """The name of the stream, if there is one to come back to."""
        return None if self._log is None else self._log.name

    def abandon(self, reason: str) -> None:
        """Let no handler wait for an answer any more."""
        if self._questions is not None:
            self._questions.abandon(reason)

    def keep_alive(self) -> None:
        """Send a sign of life; the first one opens the stream."""
        if self._resumable and self._log is None and not self.gone:
            self._open()
        else:
            super().keep_alive()

    def disconnected(self) -> None:
        """Note that the client has gone; it may come back for what is said from now on."""
        super().disconnected()
        self._leave_to_others()
        if self._log is not None:
            bus.spawn(self._log.tell())
        self.release()

    async def detach(self) -> None:
        """Let go of the connection: the client has come back over another one."""
        await self._let_go()
        if self._log is not None:
            await self._log.tell()

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        """Send the answer, as the last event of the stream or as plain JSON."""
        if self._log is None:
            await super().finish(message, status)
            return
        text = dispatcher.encode(message)
        event = sse.event(text, id=str(self._log.add(text.decode())))
        await super().flush()
        if not self.gone:
            self.gone = True
            await self._send_body(event, more=False)
        await self._log.close()

    async def finish_all(self, messages: Sequence[bytes]) -> None:
        """Send the answers to a batch, each as an event or all in one array."""
        await super().flush()
        if self.gone:
            return
        if self.streaming:
            await self._send_body(b"".join(map(sse.event, messages)), more=False)
        elif messages:
            await self.respond(200, b"[%b]" % b",".join(messages))
        else:
            await self.respond(202, b"", ())

    def push(self, event: bytes) -> None:
        """Send an event as it is."""
        if not self.gone:
            self._enqueue(event)

    async def until_over(self, answering: asyncio.Task[None]) -> None:
        """Wait until the connection is not needed any more; the answering may go on.

        Whoever answers says by ``release`` that it is over.
        """
        self._over = self.loop.create_future()
        try:
            await self._over
        except asyncio.CancelledError:
            # Servers cancel the task of a connection that was closed, not what it started.
            self.disconnected()
            raise
        if answering.done():
            answering.result()

    def _say(self, text: bytes) -> None:
        if self._resumable and self._log is None and not self.gone:
            self._open()
        if self._log is not None:
            identity = str(self._log.add(text.decode()))
            if not self.gone:
                self._enqueue(sse.event(text, id=identity))
        elif not self.gone:
            self._enqueue(sse.event(text))

    def _open(self) -> None:
        """Begin the stream with its priming event, unless it has begun (T-HTTP-18)."""
        if self._log is None:
            self._log = StreamLog(self._response_route.session.address)
            self._enqueue(sse.priming(str(self._log.last), retry=RETRY))

    def _begin_to_drain(self) -> asyncio.Task[None] | None:
        # It may have to wait for the store first, which is the business of a task of its own.
        return self.loop.create_task(self._drain())

    async def _drain(self) -> None:
        if self._log is not None and not self.streaming:
            # The client may come back at once, and then the store has to know the stream.
            await self._log.kept()
        await super()._drain()

    def _post(self, message: dict[str, Any]) -> None:
        bus.spawn(publisher.post_to_outbox(self._response_route.session.address, message))

    async def _let_go(self) -> None:
        """End the response, not the stream; what is said from now on is kept for later."""
        await super().flush()
        if self.gone:
            return
        # From here on nothing more is enqueued, so that the end is sent last.
        self.gone = True
        self._leave_to_others()
        if self._log is not None:
            await self._log.kept()
        await self._send_body(b"", more=False)
        self.release()

    def _leave_to_others(self) -> None:
        if self._log is not None:
            self._log.is_read_elsewhere = True

    def release(self) -> None:
        """Let go of whoever waits ``until_over``."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class NotificationExchange(SessionExchange):
    """The Exchange of a notification, whose response can say nothing.

    What is said, and what is asked, goes to the session's own stream.
    """

    def __init__(self, send: Send, *, response_route: ResponseRoute) -> None:
        super().__init__(send, may_stream=False, response_route=response_route)

    def write(self, message: dict[str, Any], /) -> None:
        """Leave a notification for the session's own stream."""
        if self._is_here():
            self._post(message)
        else:
            self.loop.call_soon_threadsafe(self._post, message)
