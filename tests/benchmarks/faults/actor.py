"""One client of the traffic, and what all of them share.

Each request carries a token that nobody else has, and each result names the user who asked, so that
an answer which reached another caller is noticed.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count, cycle
from typing import Any, ClassVar, Protocol

import httpx

from tests.benchmarks.faults.tally import GONE, Tally
from tests.wire.live import Caller, Crossed, Failed, LiveClient, SessionGone
from tests.wire.messages import NEWEST_SESSION, STATELESS, text_of

LIMIT = 30.0
"""Seconds after which a request hangs: longer than any time limit of the settings."""
WORK = 80.0
"""Seconds besides, until a task ends: longer than START_LIMIT of the site with a lease, than
``approval_status`` waits, and than the time from one round of the housekeeping to the next."""
PAUSE = 0.2
"""Seconds between two requests of an actor, on the average."""


class Site(Protocol):
    """What the traffic knows of its site."""

    @property
    def people(self) -> Sequence[Caller]:
        """The users; the last one may approve calls."""

    def started(self) -> list[str]:
        """The tokens of all tasks and approved calls whose handler began, each time."""


class Traffic:
    """All actors, and what they have noted."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        site: Site,
        *,
        forgets: bool = False,
        silences: bool = False,
        drops: bool = False,
        limit: float = LIMIT,
    ) -> None:
        self.http = http
        self.url = url
        *callers, self.approver = site.people
        self._callers = cycle(callers)
        self._site = site
        self.forgets = forgets
        """Whether a fault may delete sessions, whose clients then initialize again."""
        self.silences = silences
        """Whether the event store fails: what is announced meanwhile need not be heard."""
        self.drops = drops
        """Whether the channel layer fails, which may lose what nothing stores."""
        self.limit = limit
        self.tally = Tally()
        self.saved: set[str] = set()
        """The rows that were acknowledged."""
        self.completed: set[str] = set()
        """The tasks and approved calls whose result was received."""
        self.is_over = asyncio.Event()
        self._run = secrets.token_hex(4)
        self._tokens = (f"{self._run}-{number}" for number in count(1))

    @property
    def work_limit(self) -> float:
        """Seconds after which a task or an approved call hangs."""
        return self.limit + WORK

    def token(self) -> str:
        return next(self._tokens)

    def peer(
        self, version: str = STATELESS, caller: Caller | None = None, **capabilities: Any
    ) -> LiveClient:
        """A client of ``caller``, or else of one user after the other."""
        return LiveClient(
            self.http, self.url, version, caller or next(self._callers), **capabilities
        )

    def check_starts(self) -> None:
        """Compare the tasks and approved calls that were started with those that ended."""
        times = Counter(self._site.started())
        for token, number in times.items():
            if number > 1 and token.startswith(self._run):
                self.tally.note_twice(f"{token}: {number} times")
        if missing := self.completed - times.keys():
            self.tally.note_lost(f"starts of {sorted(missing)}")

    async def measure(
        self,
        kind: str,
        work: Callable[[], Awaitable[Any]],
        expected: float = 0.0,
        peer: LiveClient | None = None,
        limit: float | None = None,
    ) -> bool:
        """Do one request, and note what becomes of it; whether it succeeded."""
        began, failure = time.monotonic(), None
        limit = limit or self.limit
        try:
            async with asyncio.timeout(limit):
                await work()
        except TimeoutError:
            failure = "hung"
            resumed = peer and peer.resumptions[-4:]
            self.tally.note_hung(f"{kind} after {limit:g} s, resumed: {resumed}")
        except Crossed as error:
            failure = "crossed"
            self.tally.note_crossed(f"{kind}: {error}")
        except SessionGone:
            failure = GONE
            if not self.forgets:
                self.tally.note_lost(f"{kind}: the session is not found")
            raise
        except Failed as error:
            failure = str(error)
        except httpx.TransportError as error:
            failure = type(error).__name__
        finally:
            # The server which a stream is resumed on may die as well. The next one promises its
            # answer within the same time.
            since = began if peer is None else max(began, peer.resumed_at)
            self.tally.note(kind, began, failure, expected, since=since)
        return failure is None


class Actor(ABC):
    """One client, which repeats a kind of request until the traffic is over."""

    kind: ClassVar[str]
    version: ClassVar[str] = NEWEST_SESSION
    capabilities: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.peer = traffic.peer(self.version, **self.capabilities)

    async def run(self) -> None:
        while not self.traffic.is_over.is_set():
            try:
                if self.version != STATELESS and self.peer.session is None:
                    await self.traffic.measure("new session", self.peer.initialize)
                else:
                    await self.step()
            except SessionGone:
                self.forget()
            await asyncio.sleep(random.uniform(0, 2 * PAUSE))
        try:
            await self.finish()
        except SessionGone:
            self.forget()

    @abstractmethod
    async def step(self) -> None:
        """Do one request."""

    async def finish(self) -> None:
        """Check at the end, when all services are there."""
        await asyncio.sleep(0)

    def forget(self) -> None:
        """Begin anew, without the session."""
        self.peer.session = None

    async def delete(self) -> None:
        """Delete the session."""
        try:
            # A proxy sends it again to the next worker if the first one dies: it is gone then.
            with suppress(SessionGone):
                await self.peer.delete()
        finally:
            # Where the deletion is not acknowledged, it may have happened.
            self.forget()

    async def echo(self, tool: str, **arguments: Any) -> str:
        """Call a tool which answers with its token; returns the token."""
        token = self.traffic.token()
        result = await self.peer.tool(tool, token=token, **arguments)
        check_token(text_of(result), token)
        return token

    async def measure(self, work: Callable[[], Awaitable[Any]], expected: float = 0.0) -> bool:
        return await self.traffic.measure(self.kind, work, expected, self.peer)


def check_token(text: str, token: str) -> None:
    if text.partition(" ")[0] != token:
        raise Crossed(f"{text[:200]!r} answers {token!r}")
