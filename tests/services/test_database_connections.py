"""Calls that have to share few connections, and clients that do not read what is sent to them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.services.instances import PostgreSQL, postgresql_server
from tests.services.workers import Cluster, Worker, cluster
from tests.waiting import SECONDS
from tests.wire.live import LiveClient
from tests.wire.messages import NEWEST_SESSION, Message, text_of

pytestmark = pytest.mark.nightly

POOL = {"pool": {"min_size": 1, "max_size": 4}}
TIMEOUT = SECONDS
"""Seconds for answers which take one at most."""


@pytest.fixture(scope="module")
def pooled(_postgresql_server: PostgreSQL) -> Iterator[Cluster]:
    """One worker with four connections, and with more threads for one caller than that."""
    settings: dict[str, Any] = {"SYNC_THREAD_POOL_SIZE": 16}
    options = {"OPTIONS": POOL}
    _postgresql_server.start()
    with cluster(1, postgresql=_postgresql_server, options=options, **settings) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=limits) as client:
        yield client


@pytest.mark.parametrize("tool", ["save", "save_async"])
async def test_hundred_calls_at_once_share_four_connections(
    pooled: Cluster, http: httpx.AsyncClient, tool: str
) -> None:
    peer = LiveClient(http, pooled.url)
    tokens = [f"{tool}-{number}" for number in range(100)]
    results = await asyncio.gather(*(peer.tool(tool, token=token) for token in tokens))
    assert [text_of(result) for result in results] == tokens
    assert connections(pooled) <= POOL["pool"]["max_size"]


@pytest.mark.parametrize("tool", ["read_and_ask", "read_and_ask_async"])
async def test_open_questions_leave_the_connections_to_others(
    pooled: Cluster, http: httpx.AsyncClient, tool: str
) -> None:
    """Six questions, where four connections are all."""
    peers = [LiveClient(http, pooled.url, NEWEST_SESSION, elicitation={}) for _ in range(6)]
    for peer in peers:
        await peer.initialize()
    open_questions, proceed = asyncio.Semaphore(0), asyncio.Event()

    async def call(peer: LiveClient, token: str) -> Message:
        async def requested(question: Message) -> None:
            open_questions.release()
            await proceed.wait()
            answer = {"action": "accept", "content": {"word": "yes"}}
            await peer.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})

        return await peer.stream_call(tool, requested, token=token)

    tokens = [f"{tool}-{number}" for number in range(6)]
    async with asyncio.timeout(TIMEOUT):
        calls = [asyncio.create_task(call(*each)) for each in zip(peers, tokens, strict=True)]
        for _ in calls:
            await open_questions.acquire()
        other = LiveClient(http, pooled.url)
        assert text_of(await other.tool("save", token=f"save-{tool}")) == f"save-{tool}"
        assert text_of(await other.tool("save_async", token=f"{tool}-save")) == f"{tool}-save"
        proceed.set()
        results = await asyncio.gather(*calls)
    assert [text_of(result) for result in results] == [f"{token} yes" for token in tokens]


async def test_async_calls_open_no_more_connections_than_there_are_threads(
    http: httpx.AsyncClient,
) -> None:
    """Two hundred calls, and as many connections as the formula of the documentation says."""
    workers, threads = 2, 4
    most = workers * (3 * threads + threads)
    settings: dict[str, Any] = {"MAX_IN_FLIGHT": 200, "SYNC_THREAD_POOL_SIZE": threads}
    with (
        # Some are for the superuser, and one counts.
        postgresql_server(max_connections=most + 4) as server,
        cluster(workers, postgresql=server, **settings) as running,
    ):
        peer = LiveClient(http, running.url)
        tokens = [str(number) for number in range(200)]
        calls = (peer.tool("save_async", token=token) for token in tokens)
        results = await asyncio.gather(*calls)
        assert [text_of(result) for result in results] == tokens
        assert "too many" not in running.log


async def test_clients_that_do_not_read_hold_up_no_call_of_others(
    pooled: Cluster, http: httpx.AsyncClient
) -> None:
    """More of them than there are threads for synchronous handlers."""
    with ExitStack() as stack:
        for number in range(20):
            stack.enter_context(silent(pooled.workers[0], "report", token=str(number), steps=4_000))
        peer = LiveClient(http, pooled.url)
        for number in range(10):
            result = await peer.tool("save", token=f"beside-{number}")
            assert text_of(result) == f"beside-{number}"


def silent(worker: Worker, tool: str, **arguments: Any) -> socket.socket:
    """A connection over which a tool was called, and whose response nobody reads."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{worker.port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {tool}",
        f"Content-Length: {len(body)}",
    ]
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", worker.port))
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return connection


def connections(site: Cluster) -> int:
    assert site.postgresql is not None
    return site.postgresql.connections(site.database)
