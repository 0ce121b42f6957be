"""The lease of the active stream: hand-over, release and expiry, in several stores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from django_mcp import stores
from django_mcp.frame.session import address
from django_mcp.pubsub import bus, publisher
from django_mcp.runtime import background
from django_mcp.testing.contracts import a_session
from django_mcp.transports.http.session import active_stream
from django_mcp.transports.http.session.active_stream import LEASE, ActiveStream, LogPosition
from tests.databases import scratch_database
from tests.memory_stores import MEMORY, Configure
from tests.transports.http_peer import Peer, event_of, methods_of
from tests.transports.sample_server import Desk
from tests.waiting import until

SESSION = a_session(1)
GROUP = publisher.of_session(address(SESSION.id))


class Stream:
    """A stream which knows of the others by the store and the bus alone, like one on a worker."""

    def __init__(self, name: str, *, position: LogPosition = None) -> None:
        self.name = name
        self.leases: list[dict[str, Any]] = []
        self.is_drained = asyncio.Event()
        self.is_drained.set()
        self.lease = ActiveStream(
            SESSION.id,
            name,
            activate=self._activate,
            drain=self._drain,
            retry=lambda: background.spawn(self.lease.renew()),
        )
        self._position = position

    async def open(self) -> Stream:
        await bus.here().subscribe(GROUP, self.receive)
        await self.lease.open()
        return self

    async def close(self) -> None:
        self.disconnect()
        await self.lease.close()

    def disconnect(self) -> None:
        """Receive no more hints, as if the bus had failed or the worker had died."""
        bus.here().unsubscribe(GROUP, self.receive)

    def receive(self, message: bus.Message) -> None:
        self.lease.receive(message)

    @property
    def positions(self) -> list[LogPosition]:
        """The positions in the leases which this stream had."""
        return [lease["position"] for lease in self.leases]

    def _activate(self, lease: dict[str, Any]) -> None:
        self.leases.append(lease)
        self.lease.position = lease["position"] if self._position is None else self._position

    async def _drain(self) -> None:
        await self.is_drained.wait()


@pytest.fixture(scope="module")
def database(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("database")
    with django_db_blocker.unblock(), scratch_database("sqlite3", folder) as alias:
        yield alias


@pytest.fixture(params=["memory", "database"])
def store(request: pytest.FixtureRequest, configure: Configure) -> None:
    if request.param == "database":
        backend = "django_mcp.stores.database.DatabaseSessionStore"
        options = {"using": request.getfixturevalue("database")}
        configure(STORES={**MEMORY, "sessions": {"BACKEND": backend, "OPTIONS": options}})


@pytest.fixture(autouse=True)
async def clock(store: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[float]]:
    """Seconds by which the clock of the store is ahead."""
    ahead = [0.0]
    monkeypatch.setattr(stores.sessions(), "now", lambda: time.time() + ahead[0])
    await stores.sessions().create(SESSION)
    yield ahead
    for receiver in tuple(bus.here()._receivers.get(GROUP, ())):
        bus.here().unsubscribe(GROUP, receiver)
    await stores.sessions().delete(SESSION.id)


@pytest.fixture
def short_handover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_stream, "HANDOVER", 0.05)


def active_streams(*streams: Stream) -> str:
    return "".join(stream.name for stream in streams if stream.lease.is_active)


async def test_first_stream_becomes_active() -> None:
    stream = await Stream("a").open()
    assert active_streams(stream) == "a"
    assert stream.positions == [None]


async def test_newest_stream_becomes_active_at_the_position_of_the_previous_one() -> None:
    older = await Stream("a", position=7).open()
    older.is_drained.clear()
    newer = await Stream("b").open()
    assert active_streams(newer) == ""  # The older one has not flushed its pending event.
    older.is_drained.set()
    await until(lambda: active_streams(older, newer) == "b")
    assert newer.positions == [7]
    assert newer.leases[0]["previous"] == "a"


async def test_older_stream_becomes_active_again_when_the_newer_closes() -> None:
    older, newer = await Stream("a").open(), await Stream("b", position=9).open()
    await until(lambda: active_streams(older, newer) == "b")
    await newer.close()
    await until(lambda: active_streams(older, newer) == "a")
    assert older.positions == [None, 9]


async def test_closing_an_inactive_stream_changes_nothing() -> None:
    streams = [Stream(name) for name in "abc"]
    for stream in streams:
        await stream.open()
        await until(lambda stream=stream: active_streams(*streams) == stream.name)  # type: ignore[misc]
    await streams[1].close()
    assert active_streams(*streams) == "c"
    await streams[2].close()
    await until(lambda: active_streams(*streams) == "a")


async def test_one_of_several_streams_opened_at_once_becomes_active() -> None:
    streams = [Stream(name) for name in "abcd"]
    await asyncio.gather(*(stream.open() for stream in streams))
    await until(lambda: len(active_streams(*streams)) == 1)
    session = await stores.sessions().load(SESSION.id)
    assert session is not None
    holder = session.active_stream.get("next", session.active_stream["by"])
    await until(lambda: active_streams(*streams) == holder)


async def test_stream_opened_during_a_handover_becomes_active() -> None:
    first = await Stream("a", position=3).open()
    first.is_drained.clear()
    second, third = await Stream("b").open(), await Stream("c").open()
    first.is_drained.set()
    await until(lambda: active_streams(first, second, third) == "c")
    assert third.positions == [3]
    assert second.leases == []


async def test_stream_closed_during_a_handover_does_not_stay_active() -> None:
    first = await Stream("a").open()
    first.is_drained.clear()
    second = await Stream("b").open()
    await second.close()
    first.is_drained.set()
    await until(lambda: active_streams(first, second) == "a")


async def test_successor_hands_over_to_a_newer_stream_at_the_position_of_the_first() -> None:
    first = await Stream("a", position=3).open()
    first.is_drained.clear()
    second = await Stream("b", position=1).open()
    second.disconnect()
    first.is_drained.set()
    await until(lambda: active_streams(first) == "")
    third = await Stream("c").open()
    assert active_streams(first, second, third) == ""
    await until(lambda: not third.lease._lock.locked())
    await second.lease.renew()
    await until(lambda: active_streams(first, second, third) == "c")
    assert third.positions == [3]


@pytest.mark.usefixtures("short_handover")
async def test_handover_that_is_not_completed_in_time_is_enforced() -> None:
    older = await Stream("a").open()
    older.is_drained.clear()
    newer = await Stream("b").open()
    await until(lambda: active_streams(older, newer) == "b")
    older.is_drained.set()
    await older.lease.renew()
    assert active_streams(older, newer) == "b"


@pytest.mark.usefixtures("short_handover")
async def test_stream_of_a_dead_worker_is_replaced_by_a_new_one() -> None:
    dead = await Stream("a").open()
    dead.disconnect()
    newer = await Stream("b").open()
    assert active_streams(newer) == ""
    await until(lambda: active_streams(newer) == "b")
    await dead.lease.renew()  # It was only disconnected, and finds out.
    assert active_streams(dead, newer) == "b"


async def test_lease_of_a_dead_worker_expires(clock: list[float]) -> None:
    older, dead = await Stream("a").open(), await Stream("b").open()
    await until(lambda: active_streams(older, dead) == "b")
    dead.disconnect()
    await older.lease.renew()
    assert active_streams(older) == ""
    clock[0] += LEASE + 1
    await older.lease.renew()
    assert active_streams(older) == "a"


async def test_renewed_lease_does_not_expire_and_records_the_position(clock: list[float]) -> None:
    older, newer = await Stream("a").open(), await Stream("b").open()
    await until(lambda: active_streams(older, newer) == "b")
    for position in range(3):
        clock[0] += LEASE - 1
        newer.lease.position = position
        await newer.lease.renew()
        session = await older.lease.renew()
        assert active_streams(older, newer) == "b"
        assert session is not None
        assert session.active_stream["position"] == position


async def test_released_lease_keeps_the_position() -> None:
    await (await Stream("a", position=5).open()).close()
    assert (await Stream("b").open()).positions == [5]


async def test_lease_of_a_deleted_session_is_not_renewed() -> None:
    stream = await Stream("a").open()
    await stores.sessions().delete(SESSION.id)
    assert await stream.lease.renew() is None
    await stream.close()


async def test_store_failure_on_release_leaves_the_lease_to_expire(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("no store")

    stream = await Stream("a", position=2).open()
    with monkeypatch.context() as broken:
        broken.setattr(stores.sessions(), "update", fail)
        with pytest.raises(RuntimeError):
            await stream.close()
    clock[0] += LEASE + 1
    assert active_streams(await Stream("b").open()) == "b"


# Through GET streams.


async def notify(desk: Desk, peer: Peer, first: int, last: int) -> None:
    """Send messages to the session, and to every session of the server."""
    for number in range(first, last):
        await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
        await desk.server.asend_notification(f"all/{number}")
        await asyncio.sleep(0)


async def test_messages_during_handovers_are_neither_lost_nor_duplicated(desk: Desk) -> None:
    peer = Peer(desk.server)
    await peer.initialize()
    received: list[str] = []

    async def read(stream: Any) -> None:
        while (event := await stream.event()) is not None:
            received.extend(part for part in event.data.split('"') if part[:2] in ("x/", "al"))

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(peer.stream())
        await methods_of(first, 3)
        readers = [asyncio.ensure_future(read(first))]
        sent = asyncio.ensure_future(notify(desk, peer, 0, 60))
        for _ in range(3):
            stream = await stack.enter_async_context(peer.stream())
            readers.append(asyncio.ensure_future(read(stream)))
            await asyncio.sleep(0.005)
        await sent
        await until(lambda: len(received) >= 120)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    expected = [f"x/{number}" for number in range(60)] + [f"all/{number}" for number in range(60)]
    assert sorted(received) == sorted(expected)


async def test_stream_resumed_while_the_old_connection_is_open_replays_its_log_messages(
    desk: Desk,
) -> None:
    peer = Peer(desk.server)
    await peer.initialize()
    async with peer.stream() as old:
        await methods_of(old, 3)
        await notify(desk, peer, 0, 2)
        first = await event_of(old)
        seen = [(await event_of(old)).data for _ in range(3)]
        async with peer.stream(last=first.id) as resumed:
            again = [(await event_of(resumed)).data for _ in range(3)]
    assert sorted(again) == sorted(seen)
