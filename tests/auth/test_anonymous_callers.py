"""What anonymous callers cost, and what they can do to others."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from django_mcp import Server
from tests.by_hand import stores
from tests.by_hand.costs import NOTING
from tests.constants import SetConstants
from tests.memory_stores import Configure, configure
from tests.spec import spec
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

__all__ = ["configure"]


@pytest.fixture
def noting(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores which count."""
    monkeypatch.setattr(stores.NotingSessionStore, "updates", 0)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 0.0)
    monkeypatch.setattr(stores.NotingEventStore, "read", 0)
    configure(STORES=NOTING)


@spec("cost-17")
@pytest.mark.parametrize("other", ["address", "server"])
async def test_sessions_of_one_anonymous_client_shut_nobody_else_out(
    other: str, set_constants: SetConstants
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=3)
    server, further = Server("shop"), Server("office")
    for _ in range(3):
        opened = await AsgiClient(server, NEWEST_SESSION, address=("10.0.0.1", 5000)).initialize()
        assert opened.status == 200
    if other == "address":
        peer = AsgiClient(server, NEWEST_SESSION, address=("10.0.0.2", 5000))
    else:
        peer = AsgiClient(further, NEWEST_SESSION, address=("10.0.0.1", 5000))

    response = await peer.initialize(ready=False)

    assert response.status == 200


async def test_new_session_takes_the_place_of_the_oldest_of_its_address(
    set_constants: SetConstants,
) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=2)
    server = Server("shop")
    peers = [AsgiClient(server, NEWEST_SESSION, address=("10.0.0.1", 5000 + n)) for n in range(3)]
    statuses = [(await peer.initialize(ready=False)).status for peer in peers]
    alive = [(await peer.post(peer.request("ping"))).status for peer in peers]

    assert statuses == [200, 200, 200]
    assert alive == [404, 200, 200]


@spec("cost-18")
async def test_listen_streams_of_one_anonymous_client_shut_nobody_else_out(
    set_constants: SetConstants,
) -> None:
    set_constants(MAX_STREAMS=2)
    server = Server("shop")
    flood = AsgiClient(server, address=("10.0.0.1", 5000))
    other = AsgiClient(server, address=("10.0.0.2", 5000))
    wanted = {"toolsListChanged": True}
    async with (
        flood.open_post(flood.listen(1, **wanted)) as a,
        flood.open_post(flood.listen(2, **wanted)) as b,
    ):
        assert [await a.status(), await b.status()] == [200, 200]
        async with other.open_post(other.listen(3, **wanted)) as c:
            message = await c.message()

    assert message.get("method") == "notifications/subscriptions/acknowledged", message


async def test_streams_that_are_opened_at_once_stay_within_the_limit(
    set_constants: SetConstants,
) -> None:
    set_constants(MAX_STREAMS=2)
    peer = AsgiClient(Server("shop"))
    exchanges = [peer.open_post(peer.listen(number, toolsListChanged=True)) for number in range(5)]
    async with AsyncExitStack() as stack:
        for exchange in exchanges:
            await stack.enter_async_context(exchange)
        statuses = await asyncio.gather(*(exchange.status() for exchange in exchanges))

    assert statuses.count(200) == 2, statuses


@pytest.mark.parametrize("other", ["address", "session"])
async def test_get_streams_of_one_caller_are_bounded(
    other: str, set_constants: SetConstants
) -> None:
    set_constants(MAX_STREAMS=2)
    server = Server("shop")
    peers = [AsgiClient(server, NEWEST_SESSION, address=("10.0.0.1", 5000 + n)) for n in range(3)]
    if other == "address":
        peers[2].address = ("10.0.0.2", 5000)
    async with AsyncExitStack() as stack:
        statuses = []
        for peer in peers:
            await peer.initialize()
            exchange = await stack.enter_async_context(peer.open_get())
            statuses.append(await exchange.status())

    assert statuses == [200, 200, 200 if other == "address" else 429]


async def test_session_in_use_is_not_ended_for_another(set_constants: SetConstants) -> None:
    set_constants(SESSIONS_PER_PRINCIPAL=1)
    server = Server("shop")
    used = AsgiClient(server, NEWEST_SESSION)
    await used.initialize()

    further = await AsgiClient(server, NEWEST_SESSION).initialize(ready=False)

    assert further.status == 429
    assert (await used.post(used.request("ping"))).status == 200


@pytest.mark.usefixtures("noting")
async def test_session_that_was_never_initialized_lives_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("shop")
    used, unused = AsgiClient(server, NEWEST_SESSION), AsgiClient(server, NEWEST_SESSION)
    await used.initialize()
    await unused.initialize(ready=False)
    monkeypatch.setattr(stores.NotingSessionStore, "later", 65.0)

    statuses = [(await peer.post(peer.request("ping"))).status for peer in (used, unused)]

    assert statuses == [200, 404]
