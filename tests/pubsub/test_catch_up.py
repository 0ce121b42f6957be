"""What the channel layer has lost is read from the event store, by each worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from django_mcp import Server, stores
from django_mcp.core.frame.session import address
from django_mcp.core.protocol import jsonrpc
from django_mcp.pubsub import announcements, bus, catch_up, publisher, session_messages
from django_mcp.pubsub.announcements import MERGE_INTERVAL
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores import base
from django_mcp.stores.memory import MemoryEventStore
from django_mcp.transports.http.session import handler
from django_mcp.transports.http.session import response as session_call
from django_mcp.transports.session_engine import key_of
from tests.constants import SetConstants
from tests.memory_stores import configure
from tests.pubsub.failing_store import fail_first
from tests.pubsub.fake_layer import FakeLayer, layer, remote_message
from tests.waiting import SECONDS, until
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import NEWEST_SESSION, STATELESS

__all__ = ["configure", "layer"]

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
NEWS = "shop://news"


@pytest.fixture(autouse=True)
def _shared_store(monkeypatch: pytest.MonkeyPatch, layer: FakeLayer) -> None:
    """Let other workers read and write the store, which this one reads often."""
    monkeypatch.setattr(MemoryEventStore, "is_shared", True)
    monkeypatch.setattr(catch_up, "INTERVAL", 0.02)


@pytest.fixture
def shop() -> Server:
    server = Server("shop")
    server.tool(name="order")(lambda: "ordered")
    server.prompt(name="greet")(lambda: "Hello")
    server.resource(NEWS, name="news")(lambda: "Nothing new")
    return server


@asynccontextmanager
async def listening(server: Server) -> AsyncIterator[Exchange]:
    peer = AsgiClient(server, STATELESS)
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [NEWS]}
    async with peer.open_post(peer.listen(id=1, **wanted)) as stream:
        await stream.message()
        yield stream


async def log_elsewhere(server: Server, method: str) -> None:
    """Announce on another worker, whose hint is lost."""
    text = jsonrpc.encode(jsonrpc.notification(method)).decode()
    await publisher._append(server, publisher.LOG, [text])


async def update_elsewhere(server: Server, uri: str) -> None:
    await publisher._append(server, publisher.UPDATES, [uri])


async def nothing_more(stream: Exchange) -> bool:
    """Whether nothing was sent, after the intervals in which it would have been."""
    await asyncio.sleep(2 * MERGE_INTERVAL)
    return stream._outgoing.empty()


# Listen streams.


async def test_announcements_whose_hints_were_lost_reach_a_listen_stream(shop: Server) -> None:
    async with listening(shop) as stream:
        await log_elsewhere(shop, TOOLS)
        assert await stream.methods(1) == [TOOLS]
        await update_elsewhere(shop, NEWS)
        assert await stream.methods(1) == [UPDATED]
        await update_elsewhere(shop, "shop://other")
        await log_elsewhere(shop, PROMPTS)
        assert await nothing_more(stream)


async def test_announcement_is_sent_once_whether_hint_or_poll_is_first(
    shop: Server, layer: FakeLayer
) -> None:
    async with listening(shop) as stream:
        await shop.anotify_resource_updated(NEWS)
        assert await stream.methods(1) == [UPDATED]
        await until(lambda: layer.hints)
        (group, hint) = layer.hints[0]
        assert await nothing_more(stream)
        # The hint of another worker comes late, when its announcement was read from the log.
        await update_elsewhere(shop, NEWS)
        assert await stream.methods(1) == [UPDATED]
        layer.incoming.put_nowait(remote_message(group, **hint))
        await until(layer.incoming.empty)
        assert await nothing_more(stream)


@pytest.mark.parametrize("milliseconds", [0, 1, 5])
async def test_hint_after_a_lost_one_is_read_without_a_poll(
    shop: Server, layer: FakeLayer, monkeypatch: pytest.MonkeyPatch, milliseconds: int
) -> None:
    """However long after the other one its announcement was stored, in a log that was empty."""
    monkeypatch.setattr(catch_up, "INTERVAL", 1000.0)
    async with listening(shop) as stream:
        set_time(monkeypatch, 0)
        await log_elsewhere(shop, TOOLS)  # Its hint is lost.
        set_time(monkeypatch, milliseconds)
        text = jsonrpc.encode(jsonrpc.notification(PROMPTS)).decode()
        hint = await publisher._append(shop, publisher.LOG, [text])
        assert hint is not None
        group = publisher.of_log(shop, publisher.LOG)
        layer.incoming.put_nowait(remote_message(group, **hint))
        layer.incoming.put_nowait(remote_message(group, **hint))
        assert await stream.methods(1) == [TOOLS]
        assert await nothing_more(stream)
        await stop_following()


def set_time(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Let the store number a log that begins now by so many milliseconds after a fixed time."""
    now = 2_000_000_000.0005 + milliseconds / publisher.NUMBERS_PER_SECOND
    monkeypatch.setattr(stores.events(), "now", lambda: now)


async def stop_following() -> None:
    """End the wait for a poll that is far away."""
    task = catch_up.here()._task
    assert task is not None
    task.cancel()
    await asyncio.wait([task])


async def test_earlier_announcements_are_not_sent_to_a_new_stream(shop: Server) -> None:
    for _ in range(3):
        await log_elsewhere(shop, TOOLS)
        await update_elsewhere(shop, NEWS)
    async with listening(shop) as stream:
        assert await nothing_more(stream)


async def test_log_that_was_lost_counts_as_a_change_of_everything(shop: Server) -> None:
    await log_elsewhere(shop, PROMPTS)
    await update_elsewhere(shop, "shop://other")
    async with listening(shop) as stream:
        await stores.events().forget(publisher.log_of(shop))
        assert sorted(await stream.methods(2)) == sorted([TOOLS, UPDATED])
        assert await nothing_more(stream)


async def test_log_that_was_lost_and_is_as_long_again_counts_as_a_change_of_everything(
    shop: Server, layer: FakeLayer
) -> None:
    """A cache was flushed, and the next read comes after many further changes."""
    async with listening(shop) as stream:
        await update_elsewhere(shop, NEWS)
        assert await stream.methods(1) == [UPDATED]
        await stores.events().forget(publisher.log_of(shop))
        for _ in range(3):
            await update_elsewhere(shop, "shop://other")
        assert await stream.methods(1) == [UPDATED]
        assert await nothing_more(stream)


async def test_announcement_in_a_log_that_begins_anew_is_sent(
    shop: Server, layer: FakeLayer
) -> None:
    async with listening(shop) as stream:
        for _ in range(3):
            await update_elsewhere(shop, "shop://other")
        await shop.anotify_resource_updated(NEWS)
        assert await stream.methods(1) == [UPDATED]
        last = await stores.events().last(publisher.log_of(shop), publisher.UPDATES) or 0
        await stores.events().forget(publisher.log_of(shop))
        # The log has a number for each millisecond, and it has not existed for as many.
        await until(lambda: stores.events().now() * publisher.NUMBERS_PER_SECOND > last + 1)
        await shop.anotify_resource_updated(NEWS)
        assert await stream.methods(1) == [UPDATED]


async def test_announcements_beyond_the_end_of_the_log_count_as_a_change_of_everything(
    shop: Server, set_constants: SetConstants, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(EVENTS_PER_STREAM=2)
    async with listening(shop) as stream:
        for _ in range(5):
            await stores.events().append(
                publisher.log_of(shop), publisher.UPDATES, ["shop://other"] * 5
            )
        assert await stream.methods(1) == [UPDATED]


@pytest.mark.parametrize("later", [0, 1])
async def test_announcements_that_have_expired_unread_count_as_a_change_of_everything(
    shop: Server, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """As on a machine that was suspended."""
    store = stores.events()
    async with listening(shop) as stream:
        await update_elsewhere(shop, "shop://other")
        now = store.now() + store.lifetime + 1
        monkeypatch.setattr(store, "now", lambda: now)
        for _ in range(later):
            await update_elsewhere(shop, "shop://other")
        assert await stream.methods(1) == [UPDATED]
        assert await nothing_more(stream)


async def test_announcement_while_the_store_is_away_reaches_connected_clients_and_is_logged_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(shop) as stream:
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "django_mcp"):
            patched.setattr(stores.events(), "append", away)
            await shop.anotify_tools_list_changed()
            await shop.anotify_resource_updated(NEWS)
            assert await stream.methods(2) == [TOOLS, UPDATED]
        assert await stores.events().last(publisher.log_of(shop), publisher.LOG) is None
        await shop.anotify_prompts_list_changed()
        await shop.anotify_tools_list_changed()
        assert await stream.methods(1) == [TOOLS]
    assert caplog.text.count("cannot be stored") == 1


async def away(*_: Any, **__: Any) -> int:
    raise ConnectionError("no store")


async def test_update_that_cannot_be_stored_does_not_wait_for_the_store_again(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations: list[str] = []

    async def fail(*args: Any, **options: Any) -> int:
        operations.append("append")
        raise ConnectionError("no store")

    async def subscribers(*args: Any) -> dict[str, list[str]]:
        operations.append("subscribers")
        return {}

    async with listening(shop):
        pass  # The server is configured by its first request.
    monkeypatch.setattr(stores.events(), "append", fail)
    monkeypatch.setattr(stores.sessions(), "subscribers_of_each", subscribers)
    await shop.anotify_resource_updated(NEWS)
    assert operations == ["append"]


async def test_listen_stream_opens_without_a_store_that_has_just_failed(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has changed meanwhile is not known."""
    attempts = 0

    async def last(*_: Any) -> int:
        nonlocal attempts
        attempts += 1
        base.log_outage(StoreUnavailable())
        raise StoreUnavailable

    async def last_of_each(*_: Any) -> dict[Any, int]:
        return {}

    monkeypatch.setattr(stores.events(), "last", last)
    monkeypatch.setattr(stores.events(), "last_of_each", last_of_each)
    async with listening(shop) as stream:
        assert sorted(await stream.methods(2)) == sorted([TOOLS, UPDATED])
    assert attempts == 1  # For two logs.


async def test_store_that_fails_is_read_again_and_logged_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(shop) as stream:
        fail_first(monkeypatch, "last_of_each", 4)
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await log_elsewhere(shop, TOOLS)
            assert await stream.methods(1) == [TOOLS]
    assert caplog.text.count("cannot be read from the event store") == 1


async def test_nothing_is_read_when_no_stream_is_open(shop: Server) -> None:
    async with listening(shop):
        pass
    await until(lambda: catch_up.here()._task is None)
    assert catch_up.here()._followed == {}
    assert bus.here()._receivers == {}
    assert announcements.here()._logs == {}


async def test_all_followed_streams_are_read_in_one_call(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, requested = stores.events().last_of_each, []

    async def note(streams: Any) -> Any:
        requested.append(len(streams))
        return await read(streams)

    async with listening(shop), listening(shop):
        monkeypatch.setattr(stores.events(), "last_of_each", note)
        await until(lambda: len(requested) > 2)
    assert set(requested) == {2}  # The two logs of the server, for both streams.


async def test_stream_that_is_followed_during_a_read_does_not_look_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its followers would take it for a stream that was lost."""
    read = stores.events().last_of_each
    reading = asyncio.Event()
    may_read = asyncio.Event()
    seen: list[int | None] = []

    async def read_late(streams: Any) -> Any:
        reading.set()
        await may_read.wait()
        return await read(streams)

    for stream in ("first", "second"):
        await stores.events().append("session", stream, ["entry"])
    monkeypatch.setattr(stores.events(), "last_of_each", read_late)
    follower = catch_up.Follower()
    follower.follow("session", "first", seen.append)
    await reading.wait()
    follower.follow("session", "second", seen.append)
    may_read.set()
    await until(lambda: len(seen) >= 2)
    assert seen == [1, 1]
    for stream in ("first", "second"):
        follower.unfollow("session", stream, seen.append)


async def test_log_whose_receiver_leaves_while_it_is_opened_is_not_followed(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the log of a connection that closes while its session is initialized."""
    last = stores.events().last
    reading = asyncio.Event()
    may_read = asyncio.Event()
    received: list[Any] = []

    async def read_late(*stream: str) -> Any:
        reading.set()
        await may_read.wait()
        return await last(*stream)

    monkeypatch.setattr(stores.events(), "last", read_late)
    opening = asyncio.ensure_future(announcements.here().subscribe(shop, None, received.append))
    await reading.wait()
    announcements.here().unsubscribe(shop, None, received.append)
    may_read.set()
    await opening
    assert catch_up.here()._followed == {}
    assert bus.here()._receivers == {}


# Sessions.


async def test_messages_whose_hints_were_lost_reach_a_get_stream(shop: Server) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as stream:
        await log_elsewhere(shop, TOOLS)
        assert await stream.methods(1) == [TOOLS]
        text = jsonrpc.encode(jsonrpc.notification("x/y")).decode()
        session = address(peer.session)
        await stores.events().append(session, session_messages.OUTBOX, [text])
        assert await stream.methods(1) == ["x/y"]
        assert await nothing_more(stream)


async def test_get_stream_of_a_session_that_was_deleted_elsewhere_ends(shop: Server) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as stream:
        # On another worker, whose hint is lost.
        await stores.sessions().delete(peer.session or "")
        await stores.events().forget(address(peer.session))
        async with asyncio.timeout(SECONDS):
            while await stream.event() is not None:
                pass


async def test_call_that_was_cancelled_elsewhere_ends_although_the_hint_is_lost(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_call, "READ_EVERY", 0.1)
    ended = asyncio.Event()

    @shop.tool
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    call = asyncio.ensure_future(peer.post(peer.call("wait", id="mine")))
    await until(
        lambda: bus.here().has_subscribers(session_messages.of_session(address(peer.session)))
    )
    session = await stores.sessions().load(peer.session or "")
    assert session is not None
    await handler.note_cancelled(session, [key_of("mine")])
    async with asyncio.timeout(SECONDS):
        await ended.wait()
    await call


@pytest.mark.parametrize("method", ["after", "move"])
async def test_what_could_not_be_read_is_read_again(
    shop: Server, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    async with listening(shop) as listen, peer.stream() as get:
        fail_first(monkeypatch, method, 3)
        await log_elsewhere(shop, TOOLS)
        text = jsonrpc.encode(jsonrpc.notification("x/y")).decode()
        await stores.events().append(address(peer.session), session_messages.OUTBOX, [text])
        assert await listen.methods(1) == [TOOLS]
        assert sorted(await get.methods(2)) == [TOOLS, "x/y"]


async def test_messages_which_a_late_attempt_has_moved_are_sent_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store hangs when it has committed, and does not answer in time."""
    move, failures = stores.events().move, 0

    async def answer_late(*args: Any) -> Any:
        nonlocal failures
        if (events := await move(*args)) and not failures:
            failures += 1
            raise StoreUnavailable
        return events

    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    async with peer.stream() as get:
        monkeypatch.setattr(stores.events(), "move", answer_late)
        for method in ("x/one", "x/two"):
            await shop.asend_notification(method, session_id=peer.session)
            assert await get.methods(1) == [method]
        assert await nothing_more(get)


# Bursts.


async def test_burst_of_changes_is_merged_on_every_stream(shop: Server) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    async with listening(shop) as listen, peer.stream() as get:
        began = asyncio.get_running_loop().time()
        for _ in range(40):
            await shop.anotify_tools_list_changed()
            await shop.anotify_resource_updated(NEWS)
        await asyncio.sleep(3 * MERGE_INTERVAL)
        most = 2 + (asyncio.get_running_loop().time() - began) / MERGE_INTERVAL
        reached = await pending_methods(listen)
        assert reached[:2] == [TOOLS, UPDATED]
        assert 2 <= reached.count(TOOLS) <= most
        assert 2 <= reached.count(UPDATED) <= most
        reached = await pending_methods(get)
        assert 1 <= reached.count(TOOLS) <= most


async def pending_methods(stream: Exchange) -> list[str]:
    reached = []
    while not await nothing_more(stream):
        reached.append((await stream.message())["method"])
    return reached
