"""Updates of resources which wait until others are stored, and are then stored together.

Without that, a burst of updates is a transaction for each of them and each session that has
subscribed: more than a database takes in the time that their callers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable

if TYPE_CHECKING:
    from django_mcp.server.server import Server

Publish = Callable[["Server", Sequence[str]], Awaitable[None]]

AT_ONCE = 50
"""Resources whose updates are stored together."""


class ResourceUpdates:
    """The updates which wait in one event loop; ``publish`` stores and publishes some of them."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._waiting: dict[Server, dict[str, asyncio.Future[None]]] = {}

    async def add(self, server: Server, uris: Iterable[str]) -> None:
        """Publish updates of resources, those that wait already once; return when it is done.

        Raises StoreUnavailable if the process ends before.
        """
        loop = asyncio.get_running_loop()
        if server not in self._waiting:
            self._waiting[server] = {}
            background.spawn_accepted(self._publish_all(server))
        waiting = self._waiting[server]
        added = [waiting.setdefault(uri, loop.create_future()) for uri in uris]
        if added:
            await asyncio.wait(added)  # Unlike gather, it cancels none of them.
        for each in added:
            each.result()

    async def _publish_all(self, server: Server) -> None:
        waiting = self._waiting[server]
        try:
            while waiting:
                some = {uri: waiting.pop(uri) for uri in tuple(islice(waiting, AT_ONCE))}
                try:
                    await self._publish(server, tuple(some))
                except BaseException:
                    _fail(some.values())
                    raise
                for future in some.values():
                    future.set_result(None)
        finally:
            del self._waiting[server]
            _fail(waiting.values())


def _fail(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_exception(StoreUnavailable())
