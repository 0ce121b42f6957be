"""Traffic of every kind, which goes on while a fault lasts, and notes what becomes of it.

An actor repeats one kind of request. Each request carries a token that nobody else has, so that an
answer which reached another caller is noticed. What is lost is noticed by what was acknowledged:
rows, values in a session, and announced changes.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, ClassVar

import httpx

from tests.benchmarks.faults.tally import GONE, QUERY, Tally
from tests.services.peer import (
    NEWEST_SESSION,
    RECONNECT,
    STATELESS,
    Crossed,
    Failed,
    Message,
    Peer,
    SessionGone,
    check,
    events,
    notification,
    owned,
    request,
    result_of,
    succeeded,
    text_of,
)

OLDEST = "2024-11-05"
LIMIT = 30.0
"""Seconds after which a request hangs: longer than any time limit of the settings."""
AGAIN = 5.0
"""Seconds for a second announcement, after one that was not heard."""
UNLESS_CANCELLED = 10.0
"""Seconds after which a call ends whose cancellation is lost, with the worker that received it."""
KEPT = 50
"""Values in a session, which is then deleted."""
UNREAD = 4_000_000
"""Bytes of an answer that a client does not read."""
PAUSE = 0.2
"""Seconds between two requests of an actor, on the average."""
START = 60.0


class Traffic:
    """All actors, and what they have noted."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        *,
        forgets: bool = False,
        silences: bool = False,
        limit: float = LIMIT,
    ) -> None:
        self.http = http
        self.url = url
        self.forgets = forgets
        """Whether a fault may delete sessions, whose clients then initialize again."""
        self.silences = silences
        """Whether the event store fails: what is announced meanwhile need not be heard."""
        self.limit = limit
        self.tally = Tally()
        self.saved: set[str] = set()
        """The rows that were acknowledged."""
        self.is_over = asyncio.Event()
        run = secrets.token_hex(4)
        self._tokens = (f"{run}-{number}" for number in count(1))

    def token(self) -> str:
        return next(self._tokens)

    def peer(self, version: str = STATELESS, **capabilities: Any) -> Peer:
        return Peer(self.http, self.url, version, **capabilities)

    async def measure(
        self,
        kind: str,
        work: Callable[[], Awaitable[Any]],
        expected: float = 0.0,
        peer: Peer | None = None,
    ) -> bool:
        """Do one request, and note what becomes of it; whether it succeeded."""
        began, failure = time.monotonic(), None
        try:
            async with asyncio.timeout(self.limit):
                await work()
        except TimeoutError:
            failure = "hung"
            resumed = peer and peer.resumptions[-4:]
            self.tally.note_hung(f"{kind} after {self.limit:g} s, resumed: {resumed}")
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
            self.tally.note(kind, began, failure, expected)
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
        result = await self.peer.call(tool, token=token, **arguments)
        check_token(text_of(result), token)
        return token

    async def measure(self, work: Callable[[], Awaitable[Any]], expected: float = 0.0) -> bool:
        return await self.traffic.measure(self.kind, work, expected, self.peer)


def check_token(text: str, token: str) -> None:
    if text.partition(" ")[0] != token:
        raise Crossed(f"{text[:200]!r} answers {token!r}")


class Stateless(Actor):
    """Calls of 2026-07-28, in a thread and in the event loop; and lists."""

    kind = "stateless call"
    version = STATELESS

    async def step(self) -> None:
        tool = random.choice(("echo", "echo_async", "list"))
        if tool == "list":
            await self.measure(lambda: self.peer.ask("tools/list"))
        else:
            await self.measure(lambda: self.echo(tool))


class Saving(Actor):
    """Calls which write to the site's own database, for which the site has set no time limit."""

    kind = QUERY
    version = STATELESS

    async def step(self) -> None:
        await self.measure(self._save)

    async def _save(self) -> None:
        self.traffic.saved.add(await self.echo(random.choice(("save", "save_async"))))


class Retry(Actor):
    """Questions of 2026-07-28: the call is sent again with the answer, to any worker."""

    kind = "question by retry"
    version = STATELESS
    capabilities: ClassVar[Mapping[str, Any]] = {"elicitation": {"form": {}}}

    async def step(self) -> None:
        await self.measure(self._ask)

    async def _ask(self) -> None:
        token = self.traffic.token()
        params = {"name": "ask", "arguments": {"token": token}}
        requested = await self.peer.ask("tools/call", params)
        if token not in str(requested["inputRequests"]):
            raise Crossed(f"{requested} requests for {token!r}")
        given = {
            "requestState": requested["requestState"],
            "inputResponses": {"word": {"action": "accept", "content": {"word": f"w-{token}"}}},
        }
        result = succeeded(await self.peer.ask("tools/call", {**params, **given}))
        if text_of(result) != f"{token} w-{token}":
            raise Crossed(f"{result} answers {token!r}")


class InSession(Actor):
    """Calls in a session, which keeps what was acknowledged."""

    kind = "session call"

    def __init__(self, traffic: Traffic) -> None:
        super().__init__(traffic)
        self.kept: set[str] = set()

    async def step(self) -> None:
        if len(self.kept) > KEPT:
            await self.measure(self._delete)
        else:
            await self.measure(random.choice((self._remember, self._recall, self._echo)))

    async def _delete(self) -> None:
        await self.delete()

    async def finish(self) -> None:
        if self.peer.session is not None:
            await self.measure(self._recall)

    def forget(self) -> None:
        super().forget()
        self.kept = set()

    async def _echo(self) -> None:
        await self.echo("echo")

    async def _remember(self) -> None:
        self.kept.add(await self.echo("remember"))

    async def _recall(self) -> None:
        kept = set(self.kept)
        result = await self.peer.call("recall")
        found = set(json.loads(text_of(result)))
        if missing := kept - found:
            self.traffic.tally.note_lost(f"{sorted(missing)} of a session")
            self.kept -= missing


class ShortSession(Actor):
    """A session for one call, which is deleted."""

    kind = "short session"

    async def step(self) -> None:
        """Use the session that ``run`` has opened."""
        await self.measure(self._use)

    async def _use(self) -> None:
        token = self.traffic.token()
        # Its stream is written to when the session is deleted.
        result = await self.peer.stream_call("count", token=token, seconds=0.1)
        check_token(text_of(result), token)
        await self.delete()

    async def finish(self) -> None:
        if self.peer.session is not None:
            await self.measure(self._use)


class Streamed(Actor):
    """Calls which report their progress, and are resumed by clients whose stream breaks."""

    kind = "streamed call"

    async def step(self) -> None:
        seconds = random.uniform(0.2, 1.5)
        await self.measure(lambda: self._count(seconds), seconds)

    async def _count(self, seconds: float) -> None:
        token = self.traffic.token()
        result = await self.peer.stream_call("count", token=token, seconds=seconds)
        check_token(text_of(result), token)


class Question(Actor):
    """Calls which ask the client, who answers through any worker."""

    kind = "question"
    capabilities: ClassVar[Mapping[str, Any]] = {"elicitation": {}}

    async def step(self) -> None:
        await self.measure(self._ask)

    async def _ask(self) -> None:
        token = self.traffic.token()

        async def answer(requested: Message) -> None:
            if not requested["params"]["message"].endswith(f" {token}"):
                raise Crossed(f"{requested} requests for {token!r}")
            await asyncio.sleep(random.uniform(0, 0.5))
            content = {"word": f"w-{token}"}
            result = {"action": "accept", "content": content}
            await self.peer.send({"jsonrpc": "2.0", "id": requested["id"], "result": result})

        result = await self.peer.stream_call("ask", answer, token=token)
        if text_of(result) != f"{token} w-{token}":
            raise Crossed(f"{result} answers {token!r}")


class Cancelled(Actor):
    """Calls which are cancelled through any worker: their stream ends."""

    kind = "cancelled call"

    async def step(self) -> None:
        await self.measure(self._cancel)

    async def _cancel(self) -> None:
        token = self.traffic.token()
        call = {"name": "count", "arguments": {"token": token, "seconds": UNLESS_CANCELLED}}
        message = request("tools/call", call)
        message["params"]["_meta"] = {"progressToken": message["id"]}
        async with self.peer.opened(message) as response:
            stream = events(response)
            async for event in stream:
                if event.data:
                    break
            await self.peer.notify("notifications/cancelled", requestId=message["id"])
            async for event in stream:
                if event.data and "method" not in json.loads(event.data):
                    owned(json.loads(event.data), message)


class Leaving(Actor):
    """Clients which leave in the middle of a call, and never come back."""

    kind = "client that leaves"

    async def step(self) -> None:
        await self.measure(self._leave)
        self.peer.session = None

    async def _leave(self) -> None:
        call = {"name": "count", "arguments": {"token": self.traffic.token(), "seconds": 1.0}}
        message = request("tools/call", call)
        message["params"]["_meta"] = {"progressToken": message["id"]}
        async with self.peer.opened(message) as response:
            async for event in events(response):
                if event.data:
                    return


class Silent(Actor):
    """Clients which do not read their answer, and close the connection after a while."""

    kind = "client that does not read"
    version = STATELESS

    async def step(self) -> None:
        await self.measure(self._wait)

    async def _wait(self) -> None:
        arguments = {"token": self.traffic.token(), "size": UNREAD}
        message = request("tools/call", {"name": "large", "arguments": arguments})
        async with self.peer.opened(message):
            await asyncio.sleep(random.uniform(0, 2))


class HttpSse(Actor):
    """Connections of 2024-11-05, whose messages reach any worker."""

    kind = "HTTP+SSE connection"
    version = STATELESS  # ``run`` opens no session.

    async def step(self) -> None:
        await self.measure(self._connect)

    async def _connect(self) -> None:
        http, url = self.traffic.http, self.traffic.url
        headers = {"accept": "text/event-stream"}
        async with http.stream("GET", f"{url}/sse", headers=headers) as response:
            check(response)
            stream = events(response)
            address = f"{url.removesuffix('/mcp')}{(await anext(stream)).data}"
            hello = {
                "protocolVersion": OLDEST,
                "capabilities": {},
                "clientInfo": {"name": "old", "version": "1"},
            }
            await self._exchange(stream, address, request("initialize", hello))
            check(await http.post(address, json=notification("notifications/initialized")))
            token = self.traffic.token()
            call = request("tools/call", {"name": "echo", "arguments": {"token": token}})
            check_token(text_of(succeeded(await self._exchange(stream, address, call))), token)

    async def _exchange(self, stream: AsyncIterator[Any], address: str, message: Any) -> Message:
        check(await self.traffic.http.post(address, json=message))
        async for event in stream:
            if event.data and "method" not in (received := json.loads(event.data)):
                return result_of(owned(received, message))
        raise Failed("stream ended")


class Announced(Actor):
    """A stream of a session, whose client hears of each change to its resource."""

    kind = "announcement"
    stream_kind: ClassVar[str] = "GET stream"

    def __init__(self, traffic: Traffic) -> None:
        super().__init__(traffic)
        self.uri = f"note://{traffic.token()}"
        self.notifier = traffic.peer()
        self.reached = asyncio.Event()
        self.connected = asyncio.Event()
        self.connection = 0
        """The number of the session or, without one, of the connection."""

    async def run(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            await super().run()
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled() and (error := listening.exception()) is not None:
            raise error

    async def step(self) -> None:
        if self.connected.is_set():
            await self.measure(self._notify_change)

    def forget(self) -> None:
        super().forget()
        self.connected.clear()  # Until the new session has subscribed.
        self.connection += 1

    async def _notify_change(self) -> None:
        is_silenced = self.traffic.silences and self.traffic.tally.ended is None
        if await self._is_reached(self.traffic.limit - AGAIN - 1.0):
            return
        if is_silenced:
            raise Failed("not heard")
        again = "a later one is" if await self._is_reached(AGAIN) else "nor is a later one"
        self.traffic.tally.note_lost(f"{self.kind}: it is not heard, {again}")

    async def _is_reached(self, seconds: float) -> bool:
        """Announce a change, and wait until it is heard; True if the connection changes, too."""
        connection, until = self.connection, time.monotonic() + seconds
        self.reached.clear()
        await self.notifier.call("notify_change", uri=self.uri)
        while connection == self.connection and not self.reached.is_set():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _listen(self) -> None:
        """Keep the stream open; connect again when it breaks."""
        last: str | None = None
        connection = self.connection
        subscribed = ""
        while True:
            await asyncio.sleep(random.uniform(0, RECONNECT))
            if self.peer.session is None:
                continue
            if connection != self.connection:
                connection, last = self.connection, None
            try:
                if subscribed != self.peer.session:
                    await self.peer.ask("resources/subscribe", {"uri": self.uri})
                    subscribed = self.peer.session
                last = await self._read(last)
            except SessionGone:
                self.forget()
            except (Failed, httpx.TransportError, TimeoutError):
                continue

    async def _read(self, last: str | None) -> str | None:
        """Read a stream until it breaks; returns the id of the last event."""
        async with asyncio.timeout(self.traffic.limit) as limit:
            async with self.peer.resuming(last) as response:
                limit.reschedule(None)
                check(response)
                self.connected.set()
                try:
                    async for event in events(response):
                        last = event.id or last
                        if event.data:
                            self._listen_for(json.loads(event.data))
                except httpx.TransportError:
                    pass
        return last

    def _listen_for(self, received: Message) -> None:
        if received.get("method") == "notifications/resources/updated":
            if received["params"]["uri"] != self.uri:
                self.traffic.tally.note_crossed(f"{received} is heard by {self.uri}")
            self.reached.set()


class AnnouncedToListen(Announced):
    """A listen stream of 2026-07-28; what is announced while it is broken need not be heard."""

    kind = "announcement to a listen stream"
    version = STATELESS

    async def _listen(self) -> None:
        wanted = {"notifications": {"resourceSubscriptions": [self.uri]}}
        while True:
            await asyncio.sleep(random.uniform(0, RECONNECT))
            try:
                async with self.peer.opened(request("subscriptions/listen", wanted)) as response:
                    async for event in events(response):
                        if event.data:
                            self.connected.set()
                            self._listen_for(json.loads(event.data))
            except (Failed, httpx.TransportError):
                pass
            self.connected.clear()
            self.connection += 1


ACTORS: Mapping[type[Actor], int] = {
    Stateless: 2,
    Saving: 2,
    Retry: 1,
    InSession: 3,
    ShortSession: 2,
    Streamed: 3,
    Question: 2,
    Cancelled: 1,
    Leaving: 1,
    Silent: 1,
    HttpSse: 1,
    Announced: 2,
    AnnouncedToListen: 2,
}
"""How many there are of each kind."""


@asynccontextmanager
async def running(url: str, allowed: str | None = None, **options: Any) -> AsyncIterator[Traffic]:
    """Let all actors work within the block, and check at its end what they were promised."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as http:
        traffic = Traffic(http, url, **options)
        actors = list(_actors(traffic))
        tasks = [asyncio.create_task(actor.run()) for actor in actors]
        try:
            await until_each_kind_has_worked(traffic, tasks, allowed)
            yield traffic
            traffic.is_over.set()
            async with asyncio.timeout(START + traffic.limit):
                await asyncio.gather(*tasks)
            await _check_rows(traffic)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def _actors(traffic: Traffic) -> Iterator[Actor]:
    for kind, number in ACTORS.items():
        for _ in range(number):
            yield kind(traffic)


async def until_each_kind_has_worked(
    traffic: Traffic, tasks: list[asyncio.Task[None]], allowed: str | None
) -> None:
    """Return when no kind of request is missing, so that a fault meets all of them.

    A failure other than ``allowed`` is raised.
    """
    wanted = {actor.kind for actor in ACTORS}
    async with asyncio.timeout(START):
        while wanted - traffic.tally.requests.keys():
            await asyncio.sleep(0.1)
            for task in tasks:
                if task.done():
                    task.result()
    failures = traffic.tally.failures.items()
    if any(count for (_, failure), count in failures if failure != allowed):
        raise AssertionError(f"Requests fail before the fault:\n{traffic.tally.details()}")


async def _check_rows(traffic: Traffic) -> None:
    """Ask for the rows that were acknowledged."""
    result = await traffic.peer().call("saved")
    missing = traffic.saved - set(json.loads(text_of(result)))
    if missing:
        traffic.tally.note_lost(f"rows {sorted(missing)}")
