"""The stream of a subscriptions/listen request over HTTP.

Nothing of it is kept: what is announced while nobody listens is for nobody.
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
    """One listen stream: open until the client goes, or we end it."""

    __slots__ = ("_subscription",)

    def __init__(self, frame: Frame, wanted: Filter, **facts: Any) -> None:
        super().__init__(**facts)
        self._subscription = Subscription(frame, wanted, self._write_message)

    async def serve(self) -> None:
        """Acknowledge, and announce."""
        try:
            await self._subscription.open()
            await self.wait_until_closed()
        finally:
            self._subscription.close()

    async def check(self) -> None:
        """End the stream of a caller who may not call any more; note what else has changed."""
        await super().check()
        self._subscription.recognised(self.principal)

    def _write_message(self, message: bytes) -> None:
        self.write(sse.event(message))


class ListenExchange(LoopExchange):
    """The Exchange of a listen request: it has a stream, and nothing else to be said on it."""

    def __init__(self, mirrored: RequestHeaders, **facts: Any) -> None:
        super().__init__()
        self.request_headers: RequestHeaders | None = mirrored
        self.stream: ListenStream | None = None
        """The stream, once the request is found to be in order."""
        self._facts = facts

    def write(self, message: dict[str, Any], /) -> None:
        """Say nothing: progress and logs do not belong on this stream (SUB-08)."""

    async def flush(self) -> None:
        """Nothing waits."""

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Nobody is asked here."""
        raise ConnectionError("This client cannot be asked while it listens")

    async def listen(self, frame: Frame, wanted: Filter, /) -> None:
        """Serve the stream; raises InvalidRequest when its caller has too many."""
        principal = self._facts["principal"]
        if sse_stream.count(ListenStream, principal) >= conf.get().max_listen_streams:
            raise InvalidRequest("Too many streams are open: close one of them first")
        self.stream = ListenStream(frame, wanted, **self._facts)
        await self.stream.serve()
