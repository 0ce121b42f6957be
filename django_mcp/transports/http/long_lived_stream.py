"""An SSE response which stays open until either side closes it.

| state | meaning | who moves it |
|---|---|---|
| ``OPEN`` | events are sent, and the request waits for the disconnect | the request |
| ``ENDING`` | ``wait_until_closed`` returns: the response is completed | ``end``, the client |
| ``DENIED`` | as ``ENDING``, but nothing more may be sent to the caller | ``check`` |

While ``check`` authenticates the caller again, events wait. Whether the response can be written is
the state of its ``StreamWriter``.

Many streams are idle for hours, so an open one has no task of its own: its request's task waits,
and another one exists only while events are sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar

from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.frame import Frame
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import sse
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import Serve
from django_mcp.runtime import background, request_scope
from django_mcp.transports.http import open_streams
from django_mcp.transports.http.open_streams import bounded, tick_interval
from django_mcp.transports.http.request import HttpError
from django_mcp.transports.http.sse_response import StreamWriter

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

CHECK_AFTER = 60.0
"""Seconds until an open stream is re-authenticated."""
CHECK_TIMEOUT = 30.0
"""Seconds which that may take."""
LISTEN = "subscriptions/listen"


class State(Enum):
    OPEN = auto()
    ENDING = auto()
    DENIED = auto()


class SseStream:
    kind: ClassVar[str]
    """Streams of one kind are counted together."""
    ends_with_call: ClassVar[bool] = False
    """Whether the stream lasts no longer than a call."""

    def __init__(self, http: HttpExchange) -> None:
        self.principal = http.principal
        self.counted_as = http.stream_key
        self.task: asyncio.Task[Any] | None = None
        """The task of the request, up to the end of the response."""
        self._state = State.OPEN
        self._loop = asyncio.get_running_loop()
        self._writer = StreamWriter(http.send, self._loop)
        self._receive = http.receive
        self._reauthenticate = http.reauthenticate
        self.occupies_thread = http.occupies_thread and not self.ends_with_call
        self._waiting_task: asyncio.Task[Any] | None = None
        """The task that waits for the disconnect, as long as it does."""
        self._checked_at = self._loop.time()
        self._is_checking = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent: the client has gone, or the response is complete."""
        return self._writer.is_closed

    @property
    def is_denied(self) -> bool:
        """Whether the caller may be sent nothing more."""
        return self._state is State.DENIED

    @property
    def is_busy(self) -> bool:
        """Whether the stream has to be finished before the process may end it."""
        return False

    @property
    def is_stuck(self) -> bool:
        """Whether earlier messages have not been accepted yet."""
        return self._writer.is_closed or self._writer.is_sending

    # Events.

    def enqueue(self, events: bytes) -> None:
        """Send events soon; the stream of a client that does not read them is closed."""
        if not (self.is_denied or self._writer.write(events)):
            self._cut_off()

    async def flush(self) -> None:
        """Wait until the client has taken the events that may be sent."""
        await self._writer.flush()

    def _cut_off(self) -> None:
        self._writer.cut_off()
        self.end()

    # The request.

    @contextmanager
    def open_within(self, limit: int, rejection: Exception) -> Iterator[None]:
        """Count the stream as open; raises ``rejection`` if its caller has ``limit`` of its kind.

        It is also raised if a WSGI server has no thread for it.
        ``tick`` and ``end_all`` reach the stream within the block.
        """
        streams = open_streams.here()
        has_thread = streams.has_thread_for(self)
        if not has_thread:
            streams.probe()
        if streams.counts[self.kind, self.counted_as] >= limit or not has_thread:
            raise rejection
        streams.add(self)
        self.task = asyncio.current_task()
        if streams.are_ending:
            streams.end_idle()
        try:
            yield
        finally:
            streams.discard(self)

    async def wait_until_closed(self) -> None:
        """Wait until the client disconnects or ``end`` is called."""
        self._waiting_task = asyncio.current_task()
        try:
            await request_scope.release_thread()
            await self._receive_disconnect()
        except asyncio.CancelledError:
            if self._state is State.OPEN or self._waiting_task is None:
                self._writer.lose()
                raise
            self._waiting_task.uncancel()
        finally:
            self._waiting_task = None

    async def _receive_disconnect(self) -> None:
        while self._state is State.OPEN:
            message = await self._receive()
            if message["type"] == "http.disconnect" and self._state is State.OPEN:
                self._state = State.ENDING
                self._writer.lose()

    def end(self) -> None:
        """Let ``wait_until_closed`` return, so that the response can be completed."""
        if self._state is State.OPEN:
            self._state = State.ENDING
            if self._waiting_task is not None:
                self._waiting_task.cancel()

    async def finish(self, last: bytes = b"") -> None:
        """Send the events that wait, and complete the response with ``last``."""
        await self._writer.end(last)

    def probe(self) -> None:
        """Send a keepalive comment, if the client has taken all earlier messages."""
        if self._writer.has_started and not self.is_stuck:
            self.enqueue(sse.KEEP_ALIVE)

    # The timer.

    def tick(self, now: float, *, ping: bool) -> None:
        """Send a keepalive comment if ``ping``, and check the stream within every minute."""
        if self._writer.is_stalled:
            self._cut_off()
            return
        if ping and self._writer.has_started:
            self.enqueue(sse.KEEP_ALIVE)
        # At this tick, if the next one would be too late.
        is_due = now - self._checked_at > bounded(CHECK_AFTER) - tick_interval()
        if is_due and not self._is_checking:
            self._checked_at = now
            background.spawn(self.check())

    async def check(self) -> None:
        """End the stream unless its caller is authenticated again; until then nothing is sent."""
        self._is_checking = True
        self._writer.hold()
        principal = await self._present_principal()
        if principal is None:
            self._writer.drop_waiting()
            self.end()
            self._state = State.DENIED
        else:
            self.principal = principal
        self._is_checking = False
        self._writer.resume()

    async def _present_principal(self) -> Principal | None:
        """The caller, authenticated again; None if they may not have the stream any more."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                principal = await self._reauthenticate()
        except HttpError:
            return None
        except Exception:
            text = "A stream is closed because its caller cannot be authenticated"
            log_repeated(logging.ERROR, text, exc_info=True)
            return None
        return principal if principal.key == self.principal.key else None


class ListenStream(SseStream):
    """The stream that carries a ``subscriptions/listen`` request.

    | state of the request | its response | who moves it |
    |---|---|---|
    | not accepted | JSON, an error | ``listen``, after the checks of dispatch: accepted |
    | accepted | the last event of a ``ListenStream`` | nobody |

    Its filter has the states of ``Subscription``.
    """

    kind = "listen"

    def __init__(self, http: HttpExchange, frame: Frame, wanted: Filter | Serve) -> None:
        # Imported by a process that a client listens to.
        from django_mcp.transports import subscription

        super().__init__(http)
        self._subscription = subscription.of(frame, wanted, self._send_message, self.end)

    def _send_message(self, message: bytes) -> None:
        self.enqueue(sse.event(message))

    async def serve(self) -> None:
        try:
            await self._subscription.open()
            await self.wait_until_closed()
        finally:
            self._subscription.close()

    async def check(self) -> None:
        """Close the stream if access was revoked, else use the current permissions."""
        await super().check()
        self._subscription.reauthenticated(self.principal)
