"""The queue of announcements before the store: equal ones that wait are stored once, and together.

Without it, a burst of updates is a transaction for each of them and each session that has
subscribed: more than a database takes in the time that their callers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable

if TYPE_CHECKING:
    from django_mcp.core.server.server import Server

AT_ONCE = 50
"""Announcements which are stored together."""


class Announcement(NamedTuple):
    """A notification that adds nothing when it is repeated: a changed list, or resource."""

    method: str
    uri: str | None = None
    """The resource, of an update."""


Publish = Callable[["Server", Sequence[Announcement]], Awaitable[None]]


class PublishQueue:
    """The queue of one event loop, by server; ``publish`` stores and publishes some of it."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._waiting: dict[Server, dict[Announcement, asyncio.Future[None]]] = {}

    def add(self, server: Server, announcement: Announcement) -> asyncio.Future[None]:
        """Publish it soon, unless an equal one waits; the future is done when it is published.

        It raises StoreUnavailable if the process ends before.
        """
        if server not in self._waiting:
            self._waiting[server] = {}
            background.spawn_accepted(self._publish_all(server))
        waiting = self._waiting[server]
        if announcement not in waiting:
            waiting[announcement] = asyncio.get_running_loop().create_future()
        return waiting[announcement]

    async def publish(self, server: Server, announcements: Iterable[Announcement]) -> None:
        """``add``, and wait until all are published."""
        added = [self.add(server, announcement) for announcement in announcements]
        if added:
            await asyncio.wait(added)  # Unlike gather, it cancels none of them.
        for future in added:
            future.result()

    async def _publish_all(self, server: Server) -> None:
        waiting = self._waiting[server]
        try:
            while waiting:
                batch = {key: waiting.pop(key) for key in tuple(islice(waiting, AT_ONCE))}
                try:
                    await self._publish(server, tuple(batch))
                except BaseException:
                    _fail(batch.values())
                    raise
                for future in batch.values():
                    future.set_result(None)
        finally:
            del self._waiting[server]
            _fail(waiting.values())


def _fail(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_exception(StoreUnavailable())
        future.exception()  # Nobody may wait for it.
