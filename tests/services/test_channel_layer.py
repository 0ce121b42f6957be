"""Redis as channel layer that is away, hangs, or has forgotten everything: who waits, who hears."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.services.instances import Redis
from tests.services.workers import Cluster, cluster
from tests.waiting import SECONDS
from tests.wire.live import LiveClient, events, request
from tests.wire.messages import NEWEST_SESSION, STATELESS, Message, text_of

pytestmark = pytest.mark.nightly

CAUGHT_UP = 5.0
"""Seconds within which a worker reads what it missed."""
SLACK = 4.0
"""Seconds for a busy machine."""
HINT = 1.0
"""Seconds that the layer may take, for what somebody publishes."""
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
NOTE = "note://one"
CALLS = 100


@pytest.fixture(scope="module")
def site(_redis_server: Redis) -> Iterator[Cluster]:
    """Two workers, whose sessions are in a database."""
    with cluster(2, redis=_redis_server) as site:
        yield site


@pytest.fixture
async def http(redis: Redis) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as http:
        yield http


def peer_of(
    http: httpx.AsyncClient, site: Cluster, worker: int, version: str, **options: Any
) -> LiveClient:
    return LiveClient(http, f"{site.workers[worker].url}/mcp", version, **options)


def stop(redis: Redis) -> None:
    redis.stop()


def hang(redis: Redis) -> None:
    redis.hang()


def restart(redis: Redis) -> None:
    redis.restart()


def flush(redis: Redis) -> None:
    redis.flush()


FAULTS = pytest.mark.parametrize("fault", [stop, hang, restart, flush])


class Stream:
    """What a client hears on its stream."""

    def __init__(self) -> None:
        self.reached: list[Message] = []
        self.is_open = asyncio.Event()

    async def read(self, response: httpx.Response) -> None:
        async for event in events(response):
            self.is_open.set()
            if event.data:
                self.reached.append(json.loads(event.data))

    async def listen_for(self, method: str) -> None:
        async with asyncio.timeout(CAUGHT_UP + SLACK):
            while method not in {each.get("method") for each in self.reached}:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def reading(response: Any) -> AsyncIterator[Stream]:
    stream = Stream()

    async def read() -> None:
        async with response as opened:
            await stream.read(opened)

    task = asyncio.create_task(read())
    try:
        async with asyncio.timeout(SECONDS):
            await stream.is_open.wait()
        yield stream
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def streams_of(
    http: httpx.AsyncClient, site: Cluster, worker: int
) -> AsyncIterator[tuple[Stream, Stream]]:
    """A listen stream, and the stream of a session, which hear of a resource and of the tools."""
    wanted = {"notifications": {"resourceSubscriptions": [NOTE], "toolsListChanged": True}}
    listening = peer_of(http, site, worker, STATELESS)
    in_session = peer_of(http, site, worker, NEWEST_SESSION)
    await in_session.initialize()
    await in_session.ask("resources/subscribe", {"uri": NOTE})
    async with (
        reading(listening.opened(request("subscriptions/listen", wanted))) as listen,
        reading(in_session.resuming(None)) as get,
    ):
        yield listen, get


async def seconds_of(work: Awaitable[Any]) -> float:
    began = time.monotonic()
    await work
    return time.monotonic() - began


@FAULTS
async def test_change_reaches_the_streams_of_another_worker(
    http: httpx.AsyncClient, site: Cluster, redis: Redis, fault: Callable[[Redis], None]
) -> None:
    notifier = peer_of(http, site, 0, STATELESS)
    async with streams_of(http, site, 1) as streams:
        await asyncio.to_thread(fault, redis)
        for tool, arguments in (("notify_change", {"uri": NOTE}), ("notify_tools", {"token": "a"})):
            waited = await seconds_of(notifier.tool(tool, **arguments))
            assert waited < HINT + SLACK
        for stream in streams:
            await stream.listen_for(UPDATED)
            await stream.listen_for(TOOLS)


@FAULTS
async def test_answer_reaches_the_call_that_waits_on_another_worker(
    http: httpx.AsyncClient, site: Cluster, redis: Redis, fault: Callable[[Redis], None]
) -> None:
    requesting = peer_of(http, site, 0, NEWEST_SESSION, elicitation={})
    await requesting.initialize()
    answering = peer_of(http, site, 1, NEWEST_SESSION)
    answering.session = requesting.session
    answered: list[float] = []

    async def answer(requested: Message) -> None:
        await asyncio.to_thread(fault, redis)
        result = {"action": "accept", "content": {"word": "yes"}}
        message = {"jsonrpc": "2.0", "id": requested["id"], "result": result}
        answered.append(await seconds_of(answering.send(message)))

    async with asyncio.timeout(SECONDS):
        began = time.monotonic()
        result = await requesting.stream_call("ask", answer, token="mine")
        waited = time.monotonic() - began
    assert text_of(result) == "mine yes"
    assert answered[0] < HINT + SLACK
    assert waited < answered[0] + CAUGHT_UP + 2 * SLACK


@pytest.mark.parametrize("fault", [flush, restart])
async def test_message_reaches_the_connection_of_another_worker(
    http: httpx.AsyncClient, site: Cluster, redis: Redis, fault: Callable[[Redis], None]
) -> None:
    here, elsewhere = (worker.url for worker in site.workers)
    headers = {"accept": "text/event-stream"}
    async with (
        asyncio.timeout(SECONDS),
        http.stream("GET", f"{here}/mcp/sse", headers=headers) as response,
    ):
        stream = events(response)
        address = (await anext(stream)).data
        # The layer forgets which workers there are.
        await asyncio.to_thread(fault, redis)
        posted = await http.post(f"{elsewhere}{address}", json=request("ping", id=7))
        answer = json.loads((await anext(stream)).data)
    assert (posted.status_code, answer["id"]) == (202, 7)


SITE = b":group:mcp.site"


async def test_calls_of_sessions_leave_no_groups(
    http: httpx.AsyncClient, site: Cluster, redis: Redis
) -> None:
    peers = [peer_of(http, site, number % 2, NEWEST_SESSION) for number in range(10)]
    await asyncio.gather(*(peer.initialize() for peer in peers))
    # They end about when a call subscribes to its session.
    calls = (peers[number % 10].tool("count", token="a", seconds=0.1) for number in range(CALLS))
    await asyncio.gather(*calls)
    # Sites of other tests may run with the same Redis; each has the group of its site.
    groups = redis.command("KEYS", "*:group:*").split()
    assert [each for each in groups if b":group:" in each and not each.endswith(SITE)] == []


async def test_layer_that_is_away_is_logged_once(
    http: httpx.AsyncClient, site: Cluster, redis: Redis
) -> None:
    notifier = peer_of(http, site, 0, STATELESS)
    async with streams_of(http, site, 0):
        before = len(site.log.splitlines())
        await asyncio.to_thread(redis.stop)
        for _ in range(CALLS // 2):
            await notifier.tool("notify_change", uri=NOTE)
        await asyncio.sleep(3)
        logged = site.log.splitlines()[before:]
        # Each of a few messages has a traceback; there were thousands of lines.
        assert len([each for each in logged if "The channel layer fails" in each]) <= 6
        assert len(logged) < 1000
        await asyncio.to_thread(redis.start)


async def test_burst_of_changes_is_received_and_merged(
    http: httpx.AsyncClient, site: Cluster, redis: Redis
) -> None:
    notifier = peer_of(http, site, 0, STATELESS)
    async with streams_of(http, site, 1) as streams:
        began = time.monotonic()
        await asyncio.gather(*(notifier.tool("notify_change", uri=NOTE) for _ in range(CALLS)))
        for stream in streams:
            await stream.listen_for(UPDATED)
        await asyncio.sleep(1)
        most = 2 + (time.monotonic() - began) / 0.1
        for stream in streams:
            assert len([each for each in stream.reached if each["method"] == UPDATED]) <= most
