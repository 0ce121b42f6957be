"""Reading from the event store what a lost hint announced: one query of a worker, now and then.

A stream of the store which somebody follows has a last number. While any is followed, a worker
reads the last numbers of all of them every few seconds, and at once after a gap in the messages of
other workers. It calls the followers of those which have changed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from django_mcp import stores
from django_mcp.log import log_repeated
from django_mcp.pubsub import bus
from django_mcp.runtime import background

Key = tuple[str, str]
"""The address of a session, or of what the event store takes for one, and a stream."""
OnChange = Callable[[int | None], None]
"""Receives the last number, or None if there is no such stream (any more)."""

INTERVAL = 2.5
"""Seconds between two reads: what a lost hint announced is read within five."""
MIN_INTERVAL = 0.5
"""Seconds between two reads, however many gaps there are."""
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
                _call(on_change, number)


class Follower:
    """What one event loop follows."""

    def __init__(self) -> None:
        self._followed: dict[Key, Followed] = {}
        self._on_gap: dict[Callable[[], None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._has_gap = asyncio.Event()

    def follow(self, session: str, stream: str, on_change: OnChange) -> None:
        """Call ``on_change`` when the stream has changed since the last read.

        The first read calls it as well: the stream may have changed before.
        """
        self._followed.setdefault((session, stream), Followed()).on_change[on_change] = None
        self._start()

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

    def watch_gaps(self, on_gap: Callable[[], None]) -> None:
        """Call ``on_gap`` after messages of other workers were lost: they are in no stream."""
        self._on_gap[on_gap] = None
        bus.here().on_gap = self.gap

    def unwatch_gaps(self, on_gap: Callable[[], None]) -> None:
        self._on_gap.pop(on_gap, None)

    def gap(self) -> None:
        """Read soon what messages announced that were lost."""
        self._has_gap.set()
        self._start()

    def _start(self) -> None:
        bus.here().on_gap = self.gap
        if self._task is None:
            self._task = background.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            while self._followed or self._has_gap.is_set():
                with suppress(TimeoutError):
                    # Not all workers at once.
                    async with asyncio.timeout(INTERVAL * random.uniform(0.8, 1)):
                        await self._has_gap.wait()
                await self._read()
                await asyncio.sleep(MIN_INTERVAL)
        finally:
            self._task = None

    async def _read(self) -> None:
        if self._has_gap.is_set():
            self._has_gap.clear()
            for on_gap in tuple(self._on_gap):
                _call(on_gap)
        store = stores.events()
        if not store.is_shared or not self._followed:
            return
        try:
            numbers = await store.last_of_each(tuple(self._followed))
        except Exception:
            text = "What other workers announced cannot be read from the event store"
            log_repeated(logging.ERROR, text, exc_info=True)
            return
        for key, followed in tuple(self._followed.items()):
            followed.update(numbers.get(key))


def _call(function: Callable[..., None], *args: int | None) -> None:
    try:
        function(*args)
    except Exception:
        log_repeated(logging.ERROR, "A receiver failed", exc_info=True)


def here() -> Follower:
    """The follower of the running event loop."""
    return _followers.setdefault(asyncio.get_running_loop(), Follower())


_followers: WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = WeakKeyDictionary()
