"""Traffic of every kind, which goes on while a fault lasts, and notes what becomes of it.

An actor repeats one kind of request. What is lost is noticed by what was acknowledged: rows, values
in a session, announced changes, tasks and approved calls.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx

from tests.benchmarks.faults.actor import Actor, Site, Traffic, check_token
from tests.benchmarks.faults.tally import QUERY
from tests.benchmarks.faults.work import ApprovedCall, ApprovedTask, Task
from tests.wire.live import (
    RECONNECT,
    Crossed,
    Failed,
    SessionGone,
    check,
    events,
    owned,
    request,
    succeeded,
)
from tests.wire.messages import STATELESS, Message, notification, text_of

OLDEST = "2024-11-05"
AGAIN = 5.0
"""Seconds for a second announcement, after one that was not heard."""
UNLESS_CANCELLED = 10.0
"""Seconds after which a call ends whose cancellation is lost, with the worker that received it."""
KEPT = 50
"""Values in a session, which is then deleted."""
UNREAD = 4_000_000
"""Bytes of an answer that a client does not read."""
UNANSWERED = 10.0
"""Seconds after which a client of HTTP+SSE gives up, where its message may be lost."""
START = 60.0


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
        result = await self.peer.tool("recall")
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
        await self.measure(self._connect_or_leave)

    async def _connect_or_leave(self) -> None:
        """A layer that fails may lose a message which it has accepted: nothing stores it."""
        if not self.traffic.drops or self.traffic.tally.ended is not None:
            return await self._connect()
        try:
            async with asyncio.timeout(UNANSWERED):
                await self._connect()
        except TimeoutError:
            raise Failed("not answered") from None

    async def _connect(self) -> None:
        http, url = self.traffic.http, self.traffic.url
        authorization = self.peer.authorization
        headers = {"accept": "text/event-stream", **authorization}
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
            initialized = notification("notifications/initialized")
            check(await http.post(address, json=initialized, headers=authorization))
            token = self.traffic.token()
            call = request("tools/call", {"name": "echo", "arguments": {"token": token}})
            check_token(text_of(succeeded(await self._exchange(stream, address, call))), token)

    async def _exchange(self, stream: AsyncIterator[Any], address: str, message: Any) -> Message:
        headers = self.peer.authorization
        check(await self.traffic.http.post(address, json=message, headers=headers))
        async for event in stream:
            if event.data and "method" not in (received := json.loads(event.data)):
                return self.peer.own_result(owned(received, message))
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
        await self.notifier.tool("notify_change", uri=self.uri)
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
    Task: 3,
    ApprovedTask: 1,
    ApprovedCall: 2,
}
"""How many there are of each kind."""
WITHOUT_STREAMS: Mapping[type[Actor], int] = {
    Stateless: 2,
    Saving: 2,
    Retry: 1,
    InSession: 3,
    ShortSession: 2,
    Task: 2,
    ApprovedTask: 1,
    ApprovedCall: 1,
}
"""For a server with few threads, of which each open stream would occupy one."""


@asynccontextmanager
async def running(
    url: str,
    site: Site,
    allowed: str | None = None,
    kinds: Mapping[type[Actor], int] = ACTORS,
    **options: Any,
) -> AsyncIterator[Traffic]:
    """Let all actors work within the block, and check at its end what they were promised."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as http:
        traffic = Traffic(http, url, site, **options)
        actors = list(_actors(traffic, kinds))
        tasks = [asyncio.create_task(actor.run()) for actor in actors]
        try:
            await until_each_kind_has_worked(traffic, tasks, allowed, kinds)
            yield traffic
            traffic.is_over.set()
            async with asyncio.timeout(START + traffic.work_limit):
                await asyncio.gather(*tasks)
            await _check_rows(traffic)
            traffic.check_starts()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def _actors(traffic: Traffic, kinds: Mapping[type[Actor], int]) -> Iterator[Actor]:
    for kind, number in kinds.items():
        for _ in range(number):
            yield kind(traffic)


async def until_each_kind_has_worked(
    traffic: Traffic,
    tasks: list[asyncio.Task[None]],
    allowed: str | None,
    kinds: Mapping[type[Actor], int] = ACTORS,
) -> None:
    """Return when no kind of request is missing, so that a fault meets all of them.

    A failure other than ``allowed`` is raised.
    """
    wanted = {actor.kind for actor in kinds}
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
    result = await traffic.peer().tool("saved")
    missing = traffic.saved - set(json.loads(text_of(result)))
    if missing:
        traffic.tally.note_lost(f"rows {sorted(missing)}")
