"""Bursts of changes, of more messages than a channel of the layer holds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle

import httpx

from tests.benchmarks.faults.kinds import CAUGHT_UP, SLACK
from tests.benchmarks.faults.tally import ANNOUNCED, Tally
from tests.services.workers import Cluster
from tests.wire.live import Failed, LiveClient, check, events, request
from tests.wire.messages import NEWEST_SESSION, STATELESS

CHANGES = 40
LISTEN_STREAMS = 10
WITHIN = 30.0
"""Seconds after which a change that is not heard is lost."""
LIMIT = CAUGHT_UP + SLACK
"""Seconds in which every client should have heard every change."""
START = 300.0
"""Seconds in which all clients subscribe to all changes, each with a request, and listen."""
OPENED_AT_ONCE = 8


class Listening:
    """A client with an open stream, and what it has heard."""

    def __init__(
        self, peer: LiveClient, uris: Iterable[str], tally: Tally, opening: asyncio.Semaphore
    ) -> None:
        self.peer = peer
        self.opening = opening
        self.missing = set(uris)
        self.tally = tally
        self.opened = asyncio.Event()
        self.complete = asyncio.Event()

    @property
    def kind(self) -> str:
        return ANNOUNCED[self.peer.version == STATELESS]

    async def run(self) -> None:
        async with self._stream() as response:
            check(response)
            if self.peer.version != STATELESS:
                self.opened.set()
            async for event in events(response):
                if event.data:
                    self._listen_for(json.loads(event.data))

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[httpx.Response]:
        uris = sorted(self.missing)
        if self.peer.version == STATELESS:
            wanted = {"notifications": {"resourceSubscriptions": uris}}
            async with self.peer.opened(request("subscriptions/listen", wanted)) as response:
                yield response
            return
        async with self.opening:
            await self.peer.initialize()
            for uri in uris:
                await self.peer.ask("resources/subscribe", {"uri": uri})
        async with self.peer.resuming(None) as response:
            yield response

    def _listen_for(self, received: dict[str, object]) -> None:
        self.opened.set()
        if received["method"] == "notifications/resources/updated":
            params = received["params"]
            assert isinstance(params, dict)
            self.missing.discard(params["uri"])
            if not self.missing:
                self.complete.set()


async def play(cluster: Cluster, sessions: int) -> Tally:
    """Announce all changes at once, and return what became of them."""
    tally = Tally()
    uris = [f"note://change-{number}" for number in range(CHANGES)]
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with (
        httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as http,
        AsyncExitStack() as stack,
    ):
        versions = [NEWEST_SESSION] * sessions + [STATELESS] * LISTEN_STREAMS
        callers = cycle(cluster.people)
        peers = (LiveClient(http, cluster.url, version, next(callers)) for version in versions)
        opening = asyncio.Semaphore(OPENED_AT_ONCE)
        listening = [Listening(peer, uris, tally, opening) for peer in peers]
        tasks = [asyncio.create_task(each.run()) for each in listening]
        stack.callback(lambda: [task.cancel() for task in tasks])
        await _all_opened(listening, tasks)
        began = time.monotonic()
        notifier = LiveClient(http, cluster.url, caller=cluster.people[0])
        await asyncio.gather(*(_notify_change(notifier, uri, tally) for uri in uris))
        await asyncio.gather(*(_reached(each, began) for each in listening))
    return tally


async def _all_opened(listening: list[Listening], tasks: list[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(START):
        for each in listening:
            while not each.opened.is_set():
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.05)


async def _notify_change(notifier: LiveClient, uri: str, tally: Tally) -> None:
    began, failure = time.monotonic(), None
    try:
        await notifier.tool("notify_change", uri=uri)
    except (Failed, httpx.TransportError) as error:
        failure = str(error) or type(error).__name__
    tally.note("stateless call", began, failure)


async def _reached(listening: Listening, began: float) -> None:
    """Wait until a client has heard everything, and note how long it took."""
    try:
        async with asyncio.timeout(WITHIN):
            await listening.complete.wait()
    except TimeoutError:
        listening.tally.note_lost(f"{len(listening.missing)} changes to a {listening.kind}")
    listening.tally.note(listening.kind, began, None)
