"""Bursts of notifications, and those which the event store rejects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from django_mcp import Server, stores
from django_mcp.frame.session import address
from django_mcp.protocol import jsonrpc
from django_mcp.pubsub import bus, publisher, store_retries
from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.memory import MemoryEventStore
from django_mcp.transports.http.session.get_stream import deduplicate
from tests.memory_stores import configure
from tests.pubsub.fake_layer import FakeLayer, layer
from tests.transports.http_peer import Peer, message_of, methods_of
from tests.waiting import until

__all__ = ["configure", "layer"]

CHANGES = 120
SESSIONS = 60
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"


@pytest.fixture(autouse=True)
def _shared_store(monkeypatch: pytest.MonkeyPatch, layer: FakeLayer) -> None:
    monkeypatch.setattr(MemoryEventStore, "is_shared", True)
    monkeypatch.setattr(store_retries, "RETRY_EVERY", 0.02)


@pytest.fixture
def shop() -> Server:
    server = Server("shop")
    server.tool(name="order")(lambda: "ordered")
    for uri in uris():
        server.resource(uri, name=uri)(lambda: "Nothing new")
    return server


def uris() -> list[str]:
    return [f"shop://{number}" for number in range(CHANGES)]


async def subscribed(server: Server, number: int, *uris: str) -> list[Peer]:
    peers = [Peer(server) for _ in range(number)]
    for peer in peers:
        await peer.initialize()
        for uri in uris:
            await peer.post(peer.request("resources/subscribe", {"uri": uri}))
    return peers


async def outbox(peer: Peer) -> list[str]:
    """The URIs in the outbox of a session, each of them once."""
    assert peer.session is not None
    events = await stores.events().after(address(peer.session), publisher.OUTBOX, 0)
    return [jsonrpc.decode(event.data)["params"]["uri"] for event in deduplicate(events or ())]


class Rejecting:
    """Replaces methods of the event store, which fail while ``is_away``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.is_away = False
        self.calls = 0
        for name in names:
            monkeypatch.setattr(stores.events(), name, self._rejecting(name))

    def _rejecting(self, name: str) -> Any:
        method = getattr(stores.events(), name)

        async def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            await asyncio.sleep(0)
            if self.is_away:
                raise ConnectionError("no store")
            return await method(*args, **options)

        return call


async def test_updates_at_once_are_stored_in_few_operations(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = await subscribed(shop, SESSIONS, *uris()[:3])
    appended: list[int] = []
    append_to_each = stores.events().append_to_each

    async def count(stream: str, data: Mapping[str, Sequence[str]]) -> list[str]:
        appended.append(len(data))
        return await append_to_each(stream, data)

    monkeypatch.setattr(stores.events(), "append_to_each", count)
    await asyncio.gather(*(shop.anotify_resource_updated(uri) for uri in uris()[:3] * 10))
    # The first one is stored at once, the others together, for fifty sessions at a time.
    assert sorted(appended) in ([10, 50], [10, 10, 50, 50])
    for peer in peers:
        assert sorted(await outbox(peer)) == sorted(uris()[:3])


async def test_updates_of_many_resources_are_numbered_in_the_log(shop: Server) -> None:
    await subscribed(shop, 1)
    await asyncio.gather(*(shop.anotify_resource_updated(uri) for uri in uris()))
    logged = await stores.events().after(publisher.log_of(shop), publisher.UPDATES, 0)
    assert sorted(event.data for event in logged or ()) == sorted(uris())


async def test_messages_to_other_workers_have_the_numbers_of_the_log(
    shop: Server, layer: FakeLayer
) -> None:
    await subscribed(shop, 1)
    for uri in uris()[:3]:
        shop.notify_resource_updated(uri)
    await until(lambda: len([1 for _, hint in layer.hints if hint.get("uri")]) == 3)
    hints = {hint["number"]: hint["uri"] for _, hint in layer.hints if hint.get("uri")}
    logged = await stores.events().after(publisher.log_of(shop), publisher.UPDATES, 0)
    assert hints == {event.number: event.data for event in logged or ()}


async def test_cancelled_caller_does_not_keep_others_from_publishing(shop: Server) -> None:
    (peer,) = await subscribed(shop, 1, *uris()[:2])
    notified = [asyncio.create_task(shop.anotify_resource_updated(uri)) for uri in uris()[:2]]
    await asyncio.sleep(0)
    notified[0].cancel()
    await asyncio.wait(notified)
    assert sorted(await outbox(peer)) == uris()[:2]


async def test_update_that_was_not_stored_when_the_process_ends_is_an_error(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await subscribed(shop, 1, *uris()[:3])
    hanging = asyncio.Event()

    async def hang(*_: Any) -> None:
        hanging.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(stores.events(), "append_to_each", hang)
    notified = [asyncio.create_task(shop.anotify_resource_updated(uri)) for uri in uris()[:3]]
    await hanging.wait()
    for task in background.accepted_tasks():
        task.cancel()
    found = await asyncio.gather(*notified, return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailable] * 3


async def test_rejected_updates_are_stored_together_later(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = await subscribed(shop, 3, *uris())
    store = Rejecting(monkeypatch, "append_to_each")
    store.is_away = True
    await asyncio.gather(*(shop.anotify_resource_updated(uri) for uri in uris()))
    assert await outbox(peers[0]) == []
    store.is_away, before = False, store.calls
    async with asyncio.timeout(10):
        for peer in peers:
            while len(await outbox(peer)) < CHANGES:
                await asyncio.sleep(0.01)
    assert store.calls - before == 3


async def test_rejected_custom_notification_is_sent_once_when_it_is_stored(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (peer,) = await subscribed(shop, 1)
    store = Rejecting(monkeypatch, "append")
    async with peer.stream() as stream:
        store.is_away = True
        await shop.asend_notification("x/all", {"a": 1})
        await shop.asend_notification("x/one", session_id=peer.session)
        await until(lambda: store.calls > 3)
        store.is_away = False
        assert sorted(await methods_of(stream, 2)) == ["x/all", "x/one"]
        await shop.asend_notification("x/last")
        assert (await message_of(stream))["method"] == "x/last"


async def test_custom_notification_which_is_never_stored_is_sent_at_last(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_retries, "RETRY_FOR", 0.05)
    (peer,) = await subscribed(shop, 1)
    store = Rejecting(monkeypatch, "append")
    async with peer.stream() as stream:
        store.is_away = True
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await shop.asend_notification("x/all")
            await shop.anotify_tools_list_changed()
            assert await methods_of(stream, 2) == [TOOLS, "x/all"]
    assert store_retries.GIVEN_UP in caplog.text


async def test_rejected_notifications_are_bounded_and_logged_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_retries, "MAX_WAITING", 2)
    await subscribed(shop, 1)
    store = Rejecting(monkeypatch, "append")
    store.is_away = True
    with caplog.at_level(logging.ERROR, "django_mcp"):
        for number in range(5):
            await shop.asend_notification(f"x/{number}")
    assert caplog.text.count(store_retries.OVERFLOW) == 1
    store.is_away = False
    log, logged = publisher.log_of(shop), 0
    async with asyncio.timeout(10):
        while logged < 2:
            logged = len(await stores.events().after(log, publisher.LOG, 0) or ())
            await asyncio.sleep(0.01)
    await bus.flush()
    assert logged == 2
