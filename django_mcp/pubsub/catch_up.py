"""Read entries after lost hints from the event store: one query of a worker, now and then.

A stream of the store which somebody follows has a last number. While any is followed, a worker
reads the last numbers of all of them every few seconds, and calls the followers of those which
have changed. Nothing else finds out that a hint was lost.

A followed stream is

| state | number | who moves it there |
|---|---|---|
| unknown | UNKNOWN | the first ``follow``; ``read_again`` of a follower that failed |
| missing | None | a read that finds no such stream; the followers are called once |
| read | the last number | a read; the followers are called whenever the number has changed |
| unfollowed | | the last ``unfollow``; without any, the reads end |
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from django_mcp import stores
from django_mcp.core.concurrency import loops
from django_mcp.core.log import log_repeated
from django_mcp.runtime import background

Key = tuple[str, str]
"""A session, or a key in its place in the event store, and a stream."""
OnChange = Callable[[int | None], None]
"""Receives the last number, or None if the stream does not exist (any more)."""

INTERVAL = 2.5
"""Seconds between two reads: entries of a lost hint are read within five, from a slow store as
well."""
UNKNOWN = -1


class Followed:
    """One stream of the store, and who follows it."""

    def __init__(self) -> None:
        self.number: int | None = UNKNOWN
        self.on_change: dict[OnChange, None] = {}

    def update(self, number: int | None) -> None:
        if number != self.number:
            self.number = number
            for on_change in tuple(self.on_change):
                try:
                    on_change(number)
                except Exception:
                    log_repeated(logging.ERROR, "A receiver failed", exc_info=True)


class Follower:
    """The streams that one event loop follows."""

    def __init__(self) -> None:
        self._followed: dict[Key, Followed] = {}
        self._task: asyncio.Task[None] | None = None

    def follow(self, session: str, stream: str, on_change: OnChange) -> None:
        """Call ``on_change`` when the stream has changed since the last read.

        The first read calls it as well: the stream may have changed before.
        """
        followed = self._followed.setdefault((session, stream), Followed())
        followed.on_change[on_change] = None
        if self._task is None:
            self._task = background.create_task(self._read_all())

    def unfollow(self, session: str, stream: str, on_change: OnChange) -> None:
        """End it; a second call is harmless."""
        if (followed := self._followed.get((session, stream))) is not None:
            followed.on_change.pop(on_change, None)
            if not followed.on_change:
                del self._followed[session, stream]

    def read_again(self, session: str, stream: str) -> None:
        """Call the followers after the next read, because they could not read the stream."""
        if (followed := self._followed.get((session, stream))) is not None:
            followed.number = UNKNOWN

    async def _read_all(self) -> None:
        try:
            while self._followed:
                await asyncio.sleep(INTERVAL * random.uniform(0.8, 1))  # Not all workers at once.
                await self._read()
        finally:
            self._task = None

    async def _read(self) -> None:
        store = stores.events()
        if not store.is_shared or not self._followed:
            return
        # A stream that is followed from now on is read the next time: here it would look missing.
        read = dict(self._followed)
        try:
            numbers = await store.last_of_each(tuple(read))
        except Exception:
            text = "What other workers announced cannot be read from the event store"
            log_repeated(logging.ERROR, text, exc_info=True)
            return
        for key, followed in read.items():
            followed.update(numbers.get(key))


def here() -> Follower:
    """The follower of the running event loop."""
    return loops.here(Follower)
