"""Bursts of notifications, and those which the event store refuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from django_mcp import Frame, Server, stores
from django_mcp.core.frame.session import address
from django_mcp.core.protocol import jsonrpc
from django_mcp.pubsub import publisher, session_messages
from django_mcp.runtime import background
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores.memory import MemoryEventStore
from django_mcp.transports.http.session.standalone_stream import deduplicate
from tests.memory_stores import configure
from tests.pubsub.fake_layer import FakeLayer, layer
from tests.waiting import SECONDS, until
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION

__all__ = ["configure", "layer"]

CHANGES = 120
SESSIONS = 60
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"


@pytest.fixture(autouse=True)
def _shared_store(monkeypatch: pytest.MonkeyPatch, layer: FakeLayer) -> None:
    monkeypatch.setattr(MemoryEventStore, "is_shared", True)


@pytest.fixture
def shop() -> Server:
    server = Server("shop")
    server.tool(name="order")(lambda: "ordered")
    for uri in uris():
        server.resource(uri, name=uri)(lambda: "Nothing new")
    return server


def uris() -> list[str]:
    return [f"shop://{number}" for number in range(CHANGES)]


async def subscribed(server: Server, number: int, *uris: str) -> list[AsgiClient]:
    peers = [AsgiClient(server, NEWEST_SESSION) for _ in range(number)]
    for peer in peers:
        await peer.initialize()
        for uri in uris:
            await peer.post(peer.request("resources/subscribe", {"uri": uri}))
    return peers


async def outbox(peer: AsgiClient) -> list[str]:
    """The URIs in the outbox of a session, each of them once."""
    assert peer.session is not None
    events = await stores.events().after(address(peer.session), session_messages.OUTBOX, 0)
    return [jsonrpc.decode(event.data)["params"]["uri"] for event in deduplicate(events or ())]


class Refusing:
    """Replaces methods of the event store, which fail while ``is_away``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.is_away = False
        self.calls = 0
        for name in names:
            monkeypatch.setattr(stores.events(), name, self._refusing(name))

    def _refusing(self, name: str) -> Any:
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


async def test_updates_at_once_are_one_hint_for_other_workers(
    shop: Server, layer: FakeLayer
) -> None:
    await subscribed(shop, 1)
    await asyncio.gather(*(shop.anotify_resource_updated(uri) for uri in uris()[:30]))
    group = publisher.of_log(shop, publisher.UPDATES)
    await until(lambda: layer.hints)
    hints = [hint for name, hint in layer.hints if name == group]
    assert len(hints) <= 2
    assert sorted(uri for hint in hints for uri in hint["entries"]) == sorted(uris()[:30])


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


async def test_refused_updates_are_logged_once_and_later_ones_are_stored(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (peer,) = await subscribed(shop, 1, *uris())
    store = Refusing(monkeypatch, "append_to_each")
    store.is_away = True
    with caplog.at_level(logging.ERROR, "django_mcp"):
        for uri in uris()[:5]:
            await shop.anotify_resource_updated(uri)
    assert caplog.text.count("cannot be notified") == 1
    store.is_away = False
    await shop.anotify_resource_updated(uris()[5])
    assert await outbox(peer) == [uris()[5]]


async def test_refused_custom_notification_reaches_connected_clients_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (peer,) = await subscribed(shop, 1)
    store = Refusing(monkeypatch, "append")
    async with peer.stream() as stream:
        await shop.asend_notification("x/first")
        assert await stream.methods(1) == ["x/first"]
        store.is_away = True
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await shop.asend_notification("x/all", {"a": 1})
            await shop.asend_notification("x/one", session_id=peer.session)
        store.is_away = False
        await shop.asend_notification("x/last")
        assert await stream.methods(2) == ["x/all", "x/last"]
    # That to one session is lost with the store, and the log says so.
    assert "outbox of a session, and is lost" in caplog.text


async def test_request_that_cannot_be_stored_for_the_client_fails_at_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    @shop.tool
    async def ask(frame: Frame) -> str:
        try:
            await frame.client.aping(timeout=100.0)
        except ConnectionError as error:
            return str(error)
        return "answered"

    peer = AsgiClient(shop, "2025-06-18", headers={"accept": "application/json"})
    await peer.initialize()
    store = Refusing(monkeypatch, "append")
    store.is_away = True
    async with asyncio.timeout(SECONDS):
        reply = await peer.post(peer.call("ask"))
    assert "cannot be stored" in reply.json()["result"]["content"][0]["text"]
