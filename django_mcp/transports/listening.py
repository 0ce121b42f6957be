"""The stream of a subscriptions/listen request over HTTP.

Nothing of it is kept: what is announced while nobody listens is for nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp import conf
from django_mcp.frame import Frame
from django_mcp.protocol import sse
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.protocol.headers import Mirrored
from django_mcp.protocol.subscriptions import Filter
from django_mcp.transports.loop_exchange import LoopExchange
from django_mcp.transports.open_stream import OpenStream
from django_mcp.transports.subscription import Subscription

METHOD = "subscriptions/listen"


class ListenStream(OpenStream):
    """One listen stream: open until the client goes, or we end it."""

    __slots__ = ("_subscription",)

    def __init__(self, frame: Frame, wanted: Filter, **facts: Any) -> None:
        super().__init__(**facts)
        self._subscription = Subscription(frame, wanted, self._write_message)

    async def serve(self) -> None:
        """Acknowledge, and announce."""
        try:
            await self._subscription.open()
            await self.hold()
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

    def __init__(self, mirrored: Mirrored, **facts: Any) -> None:
        super().__init__()
        self.mirrored: Mirrored | None = mirrored
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
        key, open_now = self._facts["principal"].key, _open_here()
        if open_now[key] >= conf.get().max_listen_streams:
            raise InvalidRequest("Too many streams are open: close one of them first")
        open_now[key] += 1
        try:
            self.stream = ListenStream(frame, wanted, **self._facts)
            await self.stream.serve()
        finally:
            open_now[key] -= 1
            if not open_now[key]:
                del open_now[key]


_open: WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[str]] = WeakKeyDictionary()


def _open_here() -> Counter[str]:
    """How many streams each principal has open on this event loop."""
    return _open.setdefault(asyncio.get_running_loop(), Counter())
