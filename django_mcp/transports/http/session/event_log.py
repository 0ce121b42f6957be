"""The event log of a call's stream, for a client that has to resume it.

An event has its number at once and is stored soon: neither the call nor a connected client waits
for the store. Each stream has one writer, so that the numbers agree.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from django_mcp import stores
from django_mcp.protocol.sse import EventId
from django_mcp.pubsub import publisher

logger = logging.getLogger("django_mcp")

PREFIX = "p"
"""The first letter of the names of these streams, which are opened by a POST."""
MAX_BACKLOG = 10_000
"""How many events may wait for the store. Further ones are dropped."""


class StreamLog:
    """The events of one stream of a session, which is named by its address."""

    def __init__(self, session: str) -> None:
        self.name = PREFIX + secrets.token_urlsafe(12)
        self.has_other_readers = False
        """Whether another connection may read the stream, and is notified of new events."""
        self._session = session
        self._last = 0
        self._backlog: list[str] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_broken = False
        self._start_writing()

    @property
    def last(self) -> EventId:
        return EventId(self.name, self._last)

    def append(self, text: str) -> EventId:
        if len(self._backlog) >= MAX_BACKLOG:
            logger.warning("Events are dropped: a handler sends more than the store takes")
            return self.last
        self._last += 1
        self._backlog.append(text)
        self._start_writing()
        return self.last

    async def flush(self) -> None:
        """Wait until all events are stored, or have failed to be."""
        while self._writer is not None:
            await asyncio.shield(self._writer)

    async def close(self) -> None:
        """Store all events, and that there will be no more."""
        await self.flush()
        try:
            await stores.events().close(self._session, self.name)
        except Exception:
            logger.exception("A stream cannot be closed in the event store")
        if self.has_other_readers:
            await self.notify_readers()

    async def notify_readers(self) -> None:
        await publisher.send_to_session(self._session, "appended", stream=self.name)

    def _start_writing(self) -> None:
        if self._writer is None and not self._is_broken:
            self._writer = asyncio.ensure_future(self._write_all())

    async def _write_all(self) -> None:
        try:
            while True:
                texts, self._backlog = self._backlog, []
                await stores.events().append(self._session, self.name, texts)
                if self.has_other_readers:
                    await self.notify_readers()
                if not self._backlog:
                    return
        except Exception:
            # The call goes on, but a client that disconnects loses the events.
            logger.warning("A stream cannot be stored, and so not be resumed", exc_info=True)
            self._is_broken = True
            self._backlog = []
        finally:
            self._writer = None
