"""Notifications which the event store refused, to be appended when it answers again.

They wait in the memory of this process, for a minute at most: a store that is away for longer, or
a worker that dies meanwhile, loses them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from django_mcp.log import log_repeated
from django_mcp.runtime import background

if TYPE_CHECKING:
    from django_mcp.server.server import Server

Append = Callable[[], Awaitable[None]]
AppendUpdates = Callable[["Server", Sequence[str]], Awaitable[None]]

RETRY_EVERY, RETRY_FOR = 2.0, 60.0
"""Seconds between attempts, and altogether."""
MAX_WAITING = 1000
"""Notifications which wait for another attempt; further ones are dropped."""
OVERFLOW = "Too many notifications wait for the event store; further ones are dropped"
GIVEN_UP = "The event store did not answer for a minute: notifications are lost"


class Waiting(NamedTuple):
    """A message that is appended later."""

    append: Append
    give_up: Append | None
    until: float


class StoreRetries:
    """What the store refused in one event loop.

    ``append_updates`` appends updates of several resources of a server at once.
    """

    def __init__(self, append_updates: AppendUpdates) -> None:
        self._append_updates = append_updates
        self._messages: dict[Hashable, Waiting] = {}
        self._updates: dict[tuple[Server, str], float] = {}
        self._is_running = False

    def add_updates(self, server: Server, uris: Sequence[str]) -> None:
        until = time.monotonic() + RETRY_FOR
        for uri in uris:
            if self._has_room():
                self._updates.setdefault((server, uri), until)

    def add_message(
        self, append: Append, *, key: Hashable = None, give_up: Append | None = None
    ) -> None:
        """Append a message later, those with the same key once, or at last call ``give_up``."""
        if self._has_room():
            waiting = Waiting(append, give_up, time.monotonic() + RETRY_FOR)
            self._messages.setdefault(object() if key is None else key, waiting)

    def _has_room(self) -> bool:
        if not self._is_running:
            self._is_running = True
            background.spawn_accepted(self._retry_all())
        has_room = len(self._messages) + len(self._updates) < MAX_WAITING
        if not has_room:
            log_repeated(logging.ERROR, OVERFLOW)
        return has_room

    async def _retry_all(self) -> None:
        try:
            while True:
                await asyncio.sleep(RETRY_EVERY)
                try:
                    await self._retry()
                except Exception:
                    await self._give_up()
                if not self._messages and not self._updates:
                    return
        finally:
            self._is_running = False

    async def _retry(self) -> None:
        """Append what waits, in order; the first failure ends the attempt."""
        for key, waiting in tuple(self._messages.items()):
            del self._messages[key]  # The same may be refused again meanwhile.
            try:
                await waiting.append()
            except Exception:
                self._messages = {key: waiting, **self._messages}
                raise
        by_server: dict[Server, dict[str, float]] = {}
        for (server, uri), until in self._updates.items():
            by_server.setdefault(server, {})[uri] = until
        for server, updates in by_server.items():
            for uri in updates:
                del self._updates[server, uri]
            try:
                await self._append_updates(server, tuple(updates))
            except Exception:
                self._updates.update({(server, uri): until for uri, until in updates.items()})
                raise

    async def _give_up(self) -> None:
        """Drop what has waited for too long."""
        now = time.monotonic()
        late = [key for key, waiting in self._messages.items() if waiting.until <= now]
        late_updates = [key for key, until in self._updates.items() if until <= now]
        if late or late_updates:
            log_repeated(logging.ERROR, GIVEN_UP, times=len(late) + len(late_updates))
        for update in late_updates:
            del self._updates[update]
        for key in late:
            waiting = self._messages.pop(key)
            if waiting.give_up is not None:
                await waiting.give_up()
