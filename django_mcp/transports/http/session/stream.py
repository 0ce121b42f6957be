"""A GET of a session: an SSE stream that reads from the stores whenever there is news.

| state of the reader | meaning | who moves it |
|---|---|---|
| idle | all that was stored is sent | ``_wake``: reading |
| reading | one task reads, and sends at the pace of the client | its end, or a failure: idle |
| reading, with news | as soon as it has read, it reads again | its next round: reading |

After a failure of the store, ``catch_up`` wakes it again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from django_mcp import stores
from django_mcp.core.frame.session import Session
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc, sse
from django_mcp.pubsub import catch_up, publisher
from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.transports.http.long_lived_stream import SseStream

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

RELOAD_AGAIN = 2.0
"""Seconds until a session is loaded again that the store could not load."""


class SessionStream(SseStream, ABC):
    """A GET of a session. One task at a time reads from the stores, whenever there is news."""

    kind = "get"

    def __init__(self, http: HttpExchange, session: Session) -> None:
        super().__init__(http)
        self._session = session
        self._reader: asyncio.Task[None] | None = None
        self._has_news = False
        self._reloading: asyncio.TimerHandle | None = None
        self._followed = ""
        """The stream of the store that it reads, if hints may be lost."""

    async def check(self) -> None:
        """Close the stream of a session that has ended; an open stream counts as activity."""
        await super().check()
        if not self.is_denied:
            await self._reload()

    @abstractmethod
    async def _read(self) -> None:
        """Send the stores' entries for this stream."""

    async def _load(self) -> Session | None:
        """The session as it is now. A subclass may keep more than the session alive by it."""
        return await stores.sessions().load(self._session.id)

    async def _reload(self) -> None:
        try:
            self._use(await self._load())
        except StoreUnavailable:
            # It is logged. The session may be among the store's losses.
            if self._reloading is None:
                self._reloading = self._loop.call_later(RELOAD_AGAIN, self._reload_again)

    def _reload_again(self) -> None:
        self._reloading = None
        if not self.is_closed:
            background.spawn(self._reload())

    def _use(self, session: Session | None) -> None:
        """Read for the session as it is now: clients open streams while they initialize."""
        if session is None or session.principal != self.principal.key:
            self.end()
        else:
            self._session = session
            self._wake()

    def _wake(self) -> None:
        """Read now, or once more after the reading in progress."""
        self._has_news = True
        if self._reader is None and not self.is_closed:
            self._reader = background.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            while self._has_news and not self.is_closed:
                self._has_news = False
                await self._read()
                await self.flush()
        except StoreUnavailable:
            # It is logged. The next read or the next stream finds the messages.
            catch_up.here().read_again(self._session.address, self._followed)
        except Exception:
            # The messages stay in the store: the next read or the next stream finds them.
            text = "A stream cannot read its messages from the store"
            log_repeated(logging.ERROR, text, exc_info=True)
            catch_up.here().read_again(self._session.address, self._followed)
        finally:
            self._reader = None

    def _follow(self, stream: str) -> None:
        """Read the new entries of a stream of the store, if their hint is lost."""
        if publisher.is_logged():
            self._followed = stream
            catch_up.here().follow(self._session.address, stream, self._stored)

    def _unfollow(self) -> None:
        catch_up.here().unfollow(self._session.address, self._followed, self._stored)

    def _stored(self, _: int | None) -> None:
        self._wake()

    async def _send_stored(self, text: str, event_id: str) -> None:
        """Send an event of the store, at the pace of the client."""
        if self._writer.is_half_full:
            await self.flush()
        self.enqueue(sse.event(text, id=event_id))

    async def _wait_for_reader(self) -> None:
        while self._reader is not None:
            await asyncio.wait([self._reader])


def method_of(text: str) -> str:
    """The method of an encoded message; empty for a response."""
    return str(jsonrpc.decode(text).get("method", ""))
