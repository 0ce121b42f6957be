"""The stream of a subscriptions/listen request over HTTP.

Nothing is stored: notifications without an open stream are not sent later.
"""

from __future__ import annotations

from typing import Any

from django_mcp import conf
from django_mcp.frame.frame import Frame
from django_mcp.protocol import sse
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.protocol.headers import RequestHeaders
from django_mcp.protocol.subscriptions import Filter
from django_mcp.transports.exchange import LoopExchange
from django_mcp.transports.http import sse_stream
from django_mcp.transports.http.sse_stream import SseStream
from django_mcp.transports.subscription import Subscription

METHOD = "subscriptions/listen"


class ListenStream(SseStream):
    """One listen stream, open until either side closes it."""

    def __init__(self, frame: Frame, wanted: Filter, **facts: Any) -> None:
        super().__init__(**facts)
        self._subscription = Subscription(frame, wanted, self._write_message)

    async def serve(self) -> None:
        """Acknowledge the subscription, and send its notifications."""
        try:
            await self._subscription.open()
            await self.wait_until_closed()
        finally:
            self._subscription.close()

    async def check(self) -> None:
        """Close the stream if access was revoked, else use the current permissions."""
        await super().check()
        self._subscription.reauthenticated(self.principal)

    def _write_message(self, message: bytes) -> None:
        self.write(sse.event(message))


class ListenExchange(LoopExchange):
    """The Exchange of a listen request, which sends nothing but its subscription."""

    def __init__(self, request_headers: RequestHeaders, **facts: Any) -> None:
        super().__init__()
        self.request_headers: RequestHeaders | None = request_headers
        self.stream: ListenStream | None = None
        """The stream, once the request has been accepted."""
        self._facts = facts

    def write(self, message: dict[str, Any], /) -> None:
        """Do nothing: progress and logs do not belong on this stream (SUB-08)."""

    async def flush(self) -> None:
        """Return at once."""

    async def send_request(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Raise ConnectionError: requests to the client need a session."""
        raise ConnectionError("Requests to this client need a session")

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Serve the stream; raises InvalidRequest if the principal has too many."""
        principal = self._facts["principal"]
        if sse_stream.count(ListenStream, principal) >= conf.get().max_listen_streams:
            raise InvalidRequest("Too many streams are open: close one of them first")
        self.stream = ListenStream(frame, wanted, **self._facts)
        await self.stream.serve()
