"""The newest GET stream of a session sends, and the older one ends; in several stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from django_mcp import stores
from django_mcp.core.frame.session import Session, address
from django_mcp.pubsub import bus, catch_up, session_messages
from django_mcp.transports.http.session import active_stream
from django_mcp.transports.http.session.active_stream import ACTIVE, OPENED, ActiveStream
from tests.databases import scratch_database
from tests.memory_stores import MEMORY, Configure
from tests.pubsub.fake_layer import FakeLayer, layer
from tests.stores.contracts import a_session
from tests.transports.sample_server import Desk
from tests.waiting import SECONDS, until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

__all__ = ["layer"]

SESSION = a_session(1)
GROUP = session_messages.of_session(address(SESSION.id))


class Stream:
    """A stream which knows of the others by the store and the bus alone, like one on a worker."""

    def __init__(self, name: str) -> None:
        self.ended = 0
        self.stream = ActiveStream(SESSION.id, name, end=self._end)

    async def open(self, position: int | None = None) -> Session | None:
        active_stream._active.here().clear()  # Those of other workers are unknown.
        await bus.here().subscribe(GROUP, self._receive)
        await self.stream.reserve()
        session = await self.stream.take()
        self.stream.start(position)
        return session

    def disconnect(self) -> None:
        """Receive no more hints, as if the bus had failed."""
        bus.here().unsubscribe(GROUP, self._receive)

    def _receive(self, message: bus.Message) -> None:
        assert message["event"] == OPENED
        self.stream.receive(message)

    def _end(self) -> None:
        self.ended += 1


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
        backend = "django_mcp.stores.database.Database{}Store"
        options = {"using": request.getfixturevalue("database")}
        kinds = {"sessions": "Session", "events": "Event"}
        described = {
            kind: {"BACKEND": backend.format(name), "OPTIONS": options}
            for kind, name in kinds.items()
        }
        configure(STORES={**MEMORY, **described})


@pytest.fixture(autouse=True)
async def session(store: None) -> AsyncIterator[None]:
    await stores.sessions().create(SESSION)
    yield
    for receiver in tuple(bus.here()._receivers.get(GROUP, ())):
        bus.here().unsubscribe(GROUP, receiver)
    await stores.sessions().delete(SESSION.id)
    await stores.events().forget(SESSION.address)


async def test_newest_stream_is_active_and_the_older_one_ends() -> None:
    older, newer = Stream("a"), Stream("b")
    await older.open()
    assert older.stream.is_active
    await newer.open()
    assert newer.stream.is_active
    assert (older.stream.is_active, older.ended) == (False, 1)
    assert newer.ended == 0


async def test_one_of_several_streams_opened_at_once_is_active() -> None:
    streams = [Stream(name) for name in "abcd"]
    await asyncio.gather(*(stream.open() for stream in streams))
    assert [stream.stream.is_active for stream in streams].count(True) == 1
    assert sum(stream.ended for stream in streams) == 3


async def test_older_stream_whose_hint_was_lost_learns_it_from_the_store() -> None:
    older, newer = Stream("a"), Stream("b")
    await older.open()
    older.disconnect()
    await newer.open()
    assert older.stream.is_active
    for _ in range(2):
        older.stream.changed(await stores.events().last(SESSION.address, ACTIVE))
        newer.stream.changed(await stores.events().last(SESSION.address, ACTIVE))
    assert (older.stream.is_active, older.ended) == (False, 1)
    assert newer.stream.is_active


async def test_position_is_kept_for_the_next_stream_and_never_goes_back() -> None:
    first, second = Stream("a"), Stream("b")
    await first.open(7)
    await first.stream.close()
    session = await second.open(9)
    assert session is not None
    assert session.log_position == 7
    await second.stream.renew()
    await first.stream.renew()  # It has not noticed yet that it is replaced.
    session = await Stream("c").open()
    assert session is not None
    assert session.log_position == 9


async def test_newer_stream_on_the_same_event_loop_goes_on_where_the_older_one_is() -> None:
    older, newer = Stream("a"), Stream("b")
    await older.open(7)
    await newer.stream.reserve()
    await newer.stream.take()
    assert (newer.stream.position, newer.stream.previous) == (7, "a")


async def test_stream_of_a_deleted_session_finds_none() -> None:
    await stores.sessions().delete(SESSION.id)
    stream = Stream("a")
    assert await stream.open() is None
    await stream.stream.close()


# Through GET streams.


async def notify(desk: Desk, peer: AsgiClient, first: int, last: int) -> None:
    """Send messages to the session, and to every session of the server."""
    for number in range(first, last):
        await desk.server.asend_notification(f"x/{number}", session_id=peer.session)
        await desk.server.asend_notification(f"all/{number}")
        await asyncio.sleep(0)


async def test_messages_during_handovers_are_neither_lost_nor_duplicated(desk: Desk) -> None:
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize()
    received: list[str] = []

    async def read(stream: Any) -> None:
        while (event := await stream.event()) is not None:
            received.extend(part for part in event.data.split('"') if part[:2] in ("x/", "al"))

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(peer.stream())
        await first.methods(3)
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
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as old:
        await old.methods(3)
        await notify(desk, peer, 0, 2)
        first = await old.data_event()
        seen = [(await old.data_event()).data for _ in range(3)]
        async with peer.stream(last=first.id) as resumed:
            again = [(await resumed.data_event()).data for _ in range(3)]
    assert sorted(again) == sorted(seen)


async def test_older_get_stream_ends_when_the_hint_of_the_newer_one_is_lost(
    desk: Desk, layer: FakeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(stores.events()), "is_shared", True)
    monkeypatch.setattr(catch_up, "INTERVAL", 0.02)
    peer = AsgiClient(desk.server, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as older:
        await older.methods(3)
        # By another worker.
        await stores.events().append(address(peer.session), ACTIVE, ["other"])
        async with asyncio.timeout(SECONDS):
            while await older.event() is not None:
                pass
