"""What the stream of a call has said, kept for a client that may have to come back for it.

An event has its number at once and is kept soon: the call, and the client that is still
connected, do not wait for the store. Each stream has one writer, so that the numbers agree.
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
"""How the names of these streams begin, which are born from a POST."""
MAX_BACKLOG = 10_000
"""How many events may wait for the store before some are left out."""


class StreamLog:
    """The events of one stream of a session, which is named by its address."""

    def __init__(self, session: str) -> None:
        self.name = PREFIX + secrets.token_urlsafe(12)
        self.is_read_elsewhere = False
        """Whether somebody else may be reading, who must be told of what is kept."""
        self._session = session
        self._last = 0
        self._unkept: list[str] = []
        self._keeping: asyncio.Task[None] | None = None
        self._broken = False
        self._keep()

    @property
    def last(self) -> EventId:
        """The id of the last event; before the first one, the one to begin after."""
        return EventId(self.name, self._last)

    def add(self, text: str) -> EventId:
        """Keep an event; its id."""
        if len(self._unkept) >= MAX_BACKLOG:
            logger.warning("A handler says more than the store takes; some of it is left out")
            return self.last
        self._last += 1
        self._unkept.append(text)
        self._keep()
        return self.last

    async def kept(self) -> None:
        """Wait until everything added so far is kept, or cannot be."""
        while self._keeping is not None:
            await asyncio.shield(self._keeping)

    async def close(self) -> None:
        """Note, when all is kept, that nothing more comes."""
        await self.kept()
        try:
            await stores.events().close(self._session, self.name)
        except Exception:
            logger.exception("The end of a stream cannot be kept")
        if self.is_read_elsewhere:
            await self.tell()

    async def tell(self) -> None:
        """Let whoever reads elsewhere look again."""
        await publisher.send_to_session(self._session, "appended", stream=self.name)

    def _keep(self) -> None:
        if self._keeping is None and not self._broken:
            self._keeping = asyncio.ensure_future(self._keep_all())

    async def _keep_all(self) -> None:
        try:
            while True:
                texts, self._unkept = self._unkept, []
                await stores.events().append(self._session, self.name, texts)
                if self.is_read_elsewhere:
                    await self.tell()
                if not self._unkept:
                    return
        except Exception:
            # The call goes on; a client that loses its connection has lost what was said.
            logger.warning("A stream cannot be kept, and so not be resumed", exc_info=True)
            self._broken = True
            self._unkept = []
        finally:
            self._keeping = None
