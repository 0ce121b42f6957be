"""Idle sessions expire: requests, notifications and streams count as activity."""

from __future__ import annotations

import pytest

from django_mcp import Server, stores
from django_mcp.transports.http import sse_stream
from tests.memory_stores import Configure
from tests.transports.http_peer import Peer

TIMEOUT = 60.0


@pytest.fixture
def clock(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, which the test advances."""
    configure(SESSION_IDLE_TIMEOUT=TIMEOUT)
    time = [1000.0]
    monkeypatch.setattr(stores.sessions(), "now", lambda: time[0])
    return time


@pytest.fixture
async def peer(clock: list[float]) -> Peer:
    peer = Peer(Server("quiet", notify_lists_on_initialize=False))
    await peer.initialize()
    return peer


async def test_idle_session_is_not_found_after_the_timeout(peer: Peer, clock: list[float]) -> None:
    clock[0] += TIMEOUT + 1

    assert (await peer.post(peer.request("ping"))).status == 404
    assert (await peer.notify("notifications/progress", progressToken=1, progress=1)).status == 404


async def test_request_resets_the_idle_timeout(peer: Peer, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        assert (await peer.post(peer.request("ping"))).status == 200


async def test_notification_resets_the_idle_timeout(peer: Peer, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        reply = await peer.notify("notifications/progress", progressToken=1, progress=1)
        assert reply.status == 202


async def test_open_stream_resets_the_idle_timeout(peer: Peer, clock: list[float]) -> None:
    async with peer.stream():
        for _ in range(3):
            clock[0] += TIMEOUT * 0.7
            for stream in tuple(sse_stream._streams_here()._streams):
                await stream.check()
        assert (await peer.post(peer.request("ping"))).status == 200
