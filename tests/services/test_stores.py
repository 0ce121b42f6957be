"""Stores whose server hangs, restarts or is away: requests wait for a short time, and fail cleanly.

The connections to the database are kept between requests, so that a restart breaks each of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from django_mcp.transports.http.session.event_log import MAX_RENEWAL, RENEWALS
from tests.services.instances import Instance, PostgreSQL, Redis
from tests.services.workers import Cluster, Worker, cluster
from tests.waiting import SECONDS
from tests.wire.live import LiveClient, request
from tests.wire.messages import JSON, NEWEST_SESSION, text_of

pytestmark = pytest.mark.nightly

TIMEOUT = 1.5
"""Seconds of STORE_TIMEOUT."""
BUSY = 6.0
"""Seconds that a busy machine may take in addition."""
AT_ONCE = 24
"""Requests at once: more than a worker has threads for stores."""


@pytest.fixture(scope="module")
def by_store(_redis_server: Redis, _postgresql_server: PostgreSQL) -> Iterator[dict[str, Cluster]]:
    """Two workers for each store."""
    _postgresql_server.start()
    kept: dict[str, Any] = {"options": {"CONN_MAX_AGE": None}, "STORE_TIMEOUT": TIMEOUT}
    services: dict[str, Any] = {"redis": _redis_server, "postgresql": _postgresql_server}
    with (
        cluster(2, **services, **kept) as database,
        cluster(2, **services, cache=True, **kept) as cache,
    ):
        yield {"database": database, "cache": cache}


@pytest.fixture(params=["database", "cache"])
def site(
    request: pytest.FixtureRequest,
    by_store: dict[str, Cluster],
    redis: Redis,
    postgresql: PostgreSQL,
) -> Cluster:
    return by_store[request.param]


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=SECONDS, limits=limits) as client:
        yield client


def service_of(site: Cluster) -> Instance:
    """The server that has the sessions of the site."""
    found = site.redis if "stores.cache" in site.environment["SERVICES_SITE"] else site.postgresql
    assert found is not None
    return found


def endpoint(worker: Worker) -> str:
    return f"{worker.url}/mcp"


async def opened(http: httpx.AsyncClient, site: Cluster) -> LiveClient:
    peer = LiveClient(http, site.url, NEWEST_SESSION)
    await peer.initialize()
    return peer


async def send(
    peer: LiveClient, worker: Worker, message: dict[str, Any]
) -> tuple[httpx.Response, float]:
    """The response of one worker to a message in a session, and after how many seconds."""
    began = time.monotonic()
    headers = {**JSON, "mcp-session-id": str(peer.session)}
    response = await peer.http.post(endpoint(worker), json=message, headers=headers)
    return response, time.monotonic() - began


def echo(token: str = "t") -> dict[str, Any]:
    return request("tools/call", {"name": "echo_async", "arguments": {"token": token}})


async def use_all_connections(peer: LiveClient, site: Cluster) -> None:
    for worker in site.workers:
        for _ in range(3):
            await asyncio.gather(*(send(peer, worker, echo()) for _ in range(AT_ONCE)))


async def assert_that_every_worker_answers(peer: LiveClient, site: Cluster) -> None:
    for worker in site.workers:
        replies = await asyncio.gather(*(send(peer, worker, echo()) for _ in range(AT_ONCE)))
        assert {reply.status_code for reply, _ in replies} == {200}


def assert_clean_failure(reply: httpx.Response) -> None:
    assert reply.status_code == 503
    assert int(reply.headers["retry-after"]) >= 1
    if reply.request.method == "POST":
        assert reply.json()["error"]["message"] == "A store of this server does not answer"


async def test_requests_of_sessions_fail_in_time_while_the_store_hangs(
    site: Cluster, http: httpx.AsyncClient
) -> None:
    peer, worker = await opened(http, site), site.workers[0]
    await use_all_connections(peer, site)
    service_of(site).hang()
    hello = {"protocolVersion": NEWEST_SESSION, "capabilities": {}}
    described = {**hello, "clientInfo": {"name": "late", "version": "1"}}
    new = http.post(endpoint(worker), json=request("initialize", described), headers=JSON)
    named = {"mcp-session-id": str(peer.session)}
    others = asyncio.gather(new, http.delete(endpoint(worker), headers=named))
    replies = await asyncio.gather(*(send(peer, worker, echo()) for _ in range(AT_ONCE)))
    later = await asyncio.gather(*(send(peer, worker, echo()) for _ in range(AT_ONCE)))
    stateless = LiveClient(http, endpoint(worker))
    unaffected = await stateless.tool("echo", token="no store")
    failed = await others
    service_of(site).resume()

    for reply, seconds in [*replies, *later]:
        assert_clean_failure(reply)
        assert seconds < TIMEOUT + BUSY
    for reply in failed:
        assert_clean_failure(reply)
    assert text_of(unaffected) == "no store"
    await asyncio.sleep(0.5)
    await assert_that_every_worker_answers(peer, site)


async def test_client_that_leaves_while_the_store_hangs_costs_no_thread(
    site: Cluster, http: httpx.AsyncClient
) -> None:
    peer, worker = await opened(http, site), site.workers[0]
    await use_all_connections(peer, site)
    service_of(site).hang()
    leaving = [asyncio.ensure_future(send(peer, worker, echo())) for _ in range(AT_ONCE)]
    await asyncio.sleep(0.3)
    for each in leaving:
        each.cancel()
    await asyncio.wait(leaving)
    await asyncio.sleep(TIMEOUT)
    reply, _ = await send(peer, worker, echo())
    assert_clean_failure(reply)
    service_of(site).resume()
    await asyncio.sleep(0.5)
    await assert_that_every_worker_answers(peer, site)


async def test_requests_fail_cleanly_while_the_store_is_away_and_work_when_it_is_back(
    site: Cluster, http: httpx.AsyncClient
) -> None:
    peer = await opened(http, site)
    await use_all_connections(peer, site)
    service_of(site).stop()
    for worker in site.workers:
        for reply, _ in await asyncio.gather(*(send(peer, worker, echo()) for _ in range(5))):
            assert_clean_failure(reply)
    service_of(site).start()
    if service_of(site) is site.redis:  # It has forgotten the session.
        reply, _ = await send(peer, site.workers[0], echo())
        assert reply.status_code == 404
        peer = await opened(http, site)
    await assert_that_every_worker_answers(peer, site)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_first_request_after_a_restart_works_on_every_worker(
    by_store: dict[str, Cluster], postgresql: PostgreSQL, http: httpx.AsyncClient, end: str
) -> None:
    site = by_store["database"]
    peer = await opened(http, site)
    await use_all_connections(peer, site)
    postgresql.execute("CHECKPOINT")
    getattr(postgresql, end)()
    postgresql.start()
    # No worker has noticed: each of its connections is broken, and is not used again.
    await assert_that_every_worker_answers(peer, site)


async def test_session_in_a_flushed_cache_is_not_found_and_clients_begin_anew(
    by_store: dict[str, Cluster], redis: Redis, http: httpx.AsyncClient
) -> None:
    site = by_store["cache"]
    peer = await opened(http, site)
    redis.flush()
    for worker in site.workers:
        reply, _ = await send(peer, worker, echo())
        assert reply.status_code == 404
    await peer.initialize()
    await assert_that_every_worker_answers(peer, site)


async def test_session_that_is_deleted_after_a_streamed_call_leaves_no_rows(
    by_store: dict[str, Cluster], postgresql: PostgreSQL, http: httpx.AsyncClient
) -> None:
    site = by_store["database"]

    async def converse() -> None:
        for _ in range(5):
            peer = await opened(http, site)
            await peer.stream_call("count", token="t", seconds=0.1)
            await peer.delete()

    await asyncio.gather(*(converse() for _ in range(20)))

    # Other tests of the same workers leave sessions with streams.
    left = "session != '' AND session NOT IN (SELECT address FROM django_mcp_mcpsession)"
    streams = f"SELECT name FROM django_mcp_stream WHERE {left}"
    assert postgresql.execute(streams, site.database) == []


async def test_stream_of_a_worker_that_died_ends_with_an_error(
    site: Cluster, http: httpx.AsyncClient
) -> None:
    peer, (first, second) = await opened(http, site), site.workers
    message = request("tools/call", {"name": "count", "arguments": {"token": "t", "seconds": 60}})
    message["params"]["_meta"] = {"progressToken": message["id"]}
    peer.url, seen = endpoint(first), ""
    async with peer.opened(message) as response:
        async for line in response.aiter_lines():
            if line.startswith("id:") and (seen := line.removeprefix("id:").strip()):
                break
    try:
        first.kill()
        died = time.monotonic()
        peer.url, text = endpoint(second), ""
        async with peer.resuming(seen) as response:
            async for chunk in response.aiter_text():
                text += chunk
        waited = time.monotonic() - died
    finally:
        first.start()
    assert "The worker that answered this request has ended" in text
    assert RENEWALS * MAX_RENEWAL < 10
    assert waited < RENEWALS * MAX_RENEWAL + MAX_RENEWAL + BUSY
