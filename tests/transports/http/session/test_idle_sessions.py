"""Idle sessions expire: requests, notifications and streams count as activity."""

from __future__ import annotations

import asyncio

import pytest

from django_mcp import Server, stores
from django_mcp.core.frame.session import Session, address
from django_mcp.transports.http import open_streams
from django_mcp.transports.http.session import response as session_call
from django_mcp.transports.http.session import standalone_stream
from tests.memory_stores import Configure
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

TIMEOUT = 60.0


@pytest.fixture
def clock(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, which the test advances."""
    configure(SESSION_IDLE_TIMEOUT=TIMEOUT)
    time = [1000.0]
    monkeypatch.setattr(stores.sessions(), "now", lambda: time[0])
    return time


@pytest.fixture
async def peer(clock: list[float]) -> AsgiClient:
    peer = AsgiClient(Server("quiet", notify_lists_on_initialize=False), NEWEST_SESSION)
    await peer.initialize()
    return peer


async def test_idle_session_is_not_found_after_the_timeout(
    peer: AsgiClient, clock: list[float]
) -> None:
    clock[0] += TIMEOUT + 1

    assert (await peer.post(peer.request("ping"))).status == 404
    assert (await peer.notify("notifications/progress", progressToken=1, progress=1)).status == 404


async def test_request_resets_the_idle_timeout(peer: AsgiClient, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        assert (await peer.post(peer.request("ping"))).status == 200


async def test_notification_resets_the_idle_timeout(peer: AsgiClient, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        reply = await peer.notify("notifications/progress", progressToken=1, progress=1)
        assert reply.status == 202


async def test_open_stream_resets_the_idle_timeout(peer: AsgiClient, clock: list[float]) -> None:
    async with peer.stream():
        for _ in range(3):
            clock[0] += TIMEOUT * 0.7
            for stream in tuple(open_streams.here().streams):
                await stream.check()
        assert (await peer.post(peer.request("ping"))).status == 200


async def test_open_stream_is_kept_in_the_event_store(
    peer: AsgiClient, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores.events(), "now", lambda: clock[0])
    monkeypatch.setattr(standalone_stream, "RENEWALS", float("inf"))
    session = address(str(peer.session))
    async with peer.stream():
        (stream,) = open_streams.here().streams
        assert isinstance(stream, standalone_stream.StandaloneStream)
        for _ in range(3):
            clock[0] += stores.events().abandoned_after * 0.7
            await stores.sessions().touch(str(peer.session))
            await stream._renew()
        assert await stores.events().last(session, stream._name) == 0


async def test_running_call_resets_the_idle_timeout(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_call, "READ_EVERY", 0.1)
    server, may_end, store = Server("slow"), asyncio.Event(), stores.sessions()

    @server.tool
    async def wait() -> str:
        await may_end.wait()
        return "waited"

    used: list[str] = []
    load = store.load

    async def spy(session_id: str) -> Session | None:
        session = await load(session_id)
        used.append(session_id)
        return session

    monkeypatch.setattr(store, "load", spy)
    peer = AsgiClient(server, NEWEST_SESSION)
    await peer.initialize()
    call = asyncio.ensure_future(peer.post(peer.call("wait")))
    for _ in range(3):
        seen = len(used)
        clock[0] += TIMEOUT * 0.7
        async with asyncio.timeout(SECONDS):
            while len(used) < seen + 2:
                await asyncio.sleep(0.01)
    may_end.set()
    assert (await call).status == 200
    assert (await peer.post(peer.request("ping"))).status == 200
