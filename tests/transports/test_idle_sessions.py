"""A session ends when nobody uses it for long: requests, notifications and streams are use."""

from __future__ import annotations

import pytest

from django_mcp import Server, stores
from django_mcp.transports import open_stream
from tests.behaviour.conftest import Configure
from tests.transports.driving import Peer

TIMEOUT = 60.0


@pytest.fixture
def clock(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes when the test says so."""
    configure(SESSION_IDLE_TIMEOUT=TIMEOUT)
    time = [1000.0]
    monkeypatch.setattr(stores.sessions(), "now", lambda: time[0])
    return time


@pytest.fixture
async def peer(clock: list[float]) -> Peer:
    peer = Peer(Server("quiet", announce_on_start=False))
    await peer.initialize()
    return peer


async def test_it_is_gone_when_its_time_is_over(peer: Peer, clock: list[float]) -> None:
    clock[0] += TIMEOUT + 1

    assert (await peer.post(peer.request("ping"))).status == 404
    assert (await peer.notify("notifications/progress", progressToken=1, progress=1)).status == 404


async def test_a_request_begins_its_time_anew(peer: Peer, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        assert (await peer.post(peer.request("ping"))).status == 200


async def test_a_notification_begins_its_time_anew(peer: Peer, clock: list[float]) -> None:
    for _ in range(3):
        clock[0] += TIMEOUT * 0.7
        reply = await peer.notify("notifications/progress", progressToken=1, progress=1)
        assert reply.status == 202


async def test_an_open_stream_is_use(peer: Peer, clock: list[float]) -> None:
    async with peer.stream():
        for _ in range(3):
            clock[0] += TIMEOUT * 0.7
            for stream in tuple(open_stream._streams_here()._streams):
                await stream.check()
        assert (await peer.post(peer.request("ping"))).status == 200
