"""The SSE stream that carries a subscriptions/listen request over HTTP.

| state of the request | its response | who moves it |
|---|---|---|
| not accepted | JSON, an error | ``listen``, after the checks of dispatch: accepted |
| accepted | the last event of a ``ListenStream`` | nobody |

The stream has the states of ``SseStream``, and its filter the states of ``Subscription``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import sse
from django_mcp.core.protocol.errors import TooManyRequests
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import Serve
from django_mcp.transports.http import sse_stream
from django_mcp.transports.http.sse_stream import SseStream

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

METHOD = "subscriptions/listen"


class ListenStream(SseStream):
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


class TooManyStreams(TooManyRequests):
    """The caller has as many streams as it may have, or a WSGI server has no thread for another."""

    default_message = sse_stream.TOO_MANY
    retry_after = sse_stream.RETRY_AFTER
