"""Notifications from any code of a project: views, signals, threads, commands and handlers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import BaseCommand, call_command
from django.dispatch import Signal
from django.http import HttpResponse
from django.test import RequestFactory

from django_mcp import Frame, Server, stores
from django_mcp.core.frame.session import address
from django_mcp.core.server.notifications import PUBLISHER
from django_mcp.pubsub import bus, session_messages
from django_mcp.testing.asgi import TIMEOUT
from tests.constants import SetConstants
from tests.memory_stores import configure
from tests.pubsub.methods import PROMPTS, RESOURCES, TOOLS, UPDATED
from tests.spec import spec
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import NEWEST_SESSION, STATELESS

__all__ = ["configure"]


@pytest.fixture
def shop() -> Server:
    server = Server("shop")

    @server.tool
    def order() -> str:
        """A tool."""
        return "ordered"

    @server.prompt
    def greet() -> str:
        """A prompt."""
        return "Hello"

    @server.resource("shop://news")
    def news() -> str:
        """A resource."""
        return "Nothing new"

    return server


@asynccontextmanager
async def open_listen_stream(server: Server) -> AsyncIterator[Exchange]:
    """A client of the stateless revision that listens to all changes."""
    peer = AsgiClient(server, STATELESS)
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["shop://news"],
    }
    async with peer.open_post(peer.listen(id=1, **wanted)) as stream:
        await stream.message()
        yield stream


async def next_method(stream: Exchange) -> str:
    method: str = (await stream.message())["method"]
    return method


# Where the notification comes from.


async def test_notification_from_a_view_is_sent(shop: Server) -> None:
    def view(request: Any) -> HttpResponse:
        shop.notify_tools_list_changed()
        return HttpResponse()

    async with open_listen_stream(shop) as stream:
        await sync_to_async(view)(RequestFactory().get("/"))
        assert await next_method(stream) == TOOLS


async def test_notification_from_async_code_is_sent(shop: Server) -> None:
    async with open_listen_stream(shop) as stream:
        await shop.anotify_prompts_list_changed()
        assert await next_method(stream) == PROMPTS


async def test_notification_from_a_signal_receiver_is_sent(shop: Server) -> None:
    saved = Signal()

    def notify(**_: Any) -> None:
        shop.notify_resource_updated("shop://news")

    saved.connect(notify)
    async with open_listen_stream(shop) as stream:
        await sync_to_async(saved.send)(None)
        assert await next_method(stream) == UPDATED
        await saved.asend(None)
        assert await next_method(stream) == UPDATED
        saved.send(None)  # Within the thread of the event loop, it is sent later.
        assert await next_method(stream) == UPDATED


async def test_notification_from_a_thread_is_sent(shop: Server) -> None:
    async with open_listen_stream(shop) as stream:
        thread = threading.Thread(target=shop.notify_resources_list_changed)
        thread.start()
        await asyncio.to_thread(thread.join, TIMEOUT)
        assert await next_method(stream) == RESOURCES


async def test_notification_from_a_management_command_is_sent(shop: Server) -> None:
    class Command(BaseCommand):
        def handle(self, *_: Any, **__: Any) -> None:
            shop.notify_tools_list_changed()

    async with open_listen_stream(shop) as stream:
        await asyncio.to_thread(call_command, Command())
        assert await next_method(stream) == TOOLS


@pytest.mark.parametrize("version", [NEWEST_SESSION, STATELESS])
async def test_notification_from_a_handler_is_sent(shop: Server, version: str) -> None:
    @shop.tool
    def restock() -> str:
        """A synchronous handler."""
        shop.notify_resource_updated("shop://news")
        return "restocked"

    @shop.tool
    async def arestock() -> str:
        """An asynchronous handler."""
        await shop.anotify_resource_updated("shop://news")
        return "restocked"

    peer = AsgiClient(shop, version)
    if version == NEWEST_SESSION:
        await peer.initialize()
    async with open_listen_stream(shop) as stream:
        for tool in ("restock", "arestock"):
            assert "result" in (await peer.post(peer.call(tool))).json()
            assert await next_method(stream) == UPDATED


async def test_concurrent_sync_handlers_that_notify_do_not_deadlock(
    shop: Server, configure: Any
) -> None:
    configure(SYNC_THREAD_POOL_SIZE=3)  # A caller has at most half of them, and a further one.
    meeting = threading.Barrier(2)

    @shop.tool
    def notify_list_changed(frame: Frame) -> str:
        """Occupies a thread, and then uses the store."""
        meeting.wait(TIMEOUT)
        shop.send_notification("x/y", session_id=frame.get_mcp_session_id())
        return "sent"

    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    replies = await asyncio.gather(*(peer.post(peer.call("notify_list_changed")) for _ in range(2)))
    assert [reply.json()["result"]["content"][0]["text"] for reply in replies] == ["sent"] * 2


def test_notification_without_an_event_loop_raises_nothing(shop: Server) -> None:
    shop.notify_tools_list_changed()
    shop.notify_resource_updated("shop://news")
    shop.send_notification("x/y", {"a": 1})


# Contents of the notifications.


@spec("TOOL-03", "RES-05")
async def test_changes_at_run_time_send_one_notification_per_list(shop: Server) -> None:
    async with open_listen_stream(shop) as stream:
        for number in range(5):
            shop.tool(name=f"tool_{number}")(lambda: "x")
        shop.components.remove("prompt", "greet")
        assert shop.components.remove("prompt", "greet") is False
        shop.resource("shop://{id}", name="template")(lambda id: id)
        assert sorted([await next_method(stream) for _ in range(3)]) == sorted(
            [TOOLS, PROMPTS, RESOURCES]
        )
        shop.notify_resource_updated("shop://news")
        assert await next_method(stream) == UPDATED


async def test_components_declared_before_the_start_send_no_notification(shop: Server) -> None:
    peer = AsgiClient(Server("other", notify_lists_on_initialize=False), NEWEST_SESSION)
    await peer.initialize()
    async with open_listen_stream(shop) as stream:
        Server("new").tool(name="x")(lambda: "x")
        shop.notify_resource_updated("shop://news")
        assert await next_method(stream) == UPDATED


async def test_notifications_of_one_server_are_not_sent_by_another(shop: Server) -> None:
    other = Server("other")
    other.tool(name="x")(lambda: "x")
    async with open_listen_stream(shop) as stream:
        await other.anotify_tools_list_changed()
        await other.anotify_resource_updated("shop://news")
        await shop.anotify_prompts_list_changed()
        assert await next_method(stream) == PROMPTS


@spec("RES-07")
async def test_resource_updates_are_sent_only_while_subscribed(shop: Server) -> None:
    peer, other = AsgiClient(shop, NEWEST_SESSION), AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    await other.initialize()
    uri = {"uri": "shop://news"}
    assert (await peer.post(peer.request("resources/subscribe", uri))).json()["result"] == {}
    async with peer.stream() as stream, other.stream() as elsewhere:
        await shop.anotify_resource_updated("shop://other")
        await shop.anotify_resource_updated("shop://news")
        assert (await stream.message())["params"] == uri
        await peer.post(peer.request("resources/unsubscribe", uri))
        await shop.anotify_resource_updated("shop://news")
        await shop.asend_notification("x/y")
        assert await next_method(stream) == await next_method(elsewhere) == "x/y"


async def test_pending_resource_updates_are_merged(shop: Server) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://news"}))
    for _ in range(5):
        await shop.anotify_resource_updated("shop://news")
    await shop.asend_notification("x/y", session_id=peer.session)
    async with peer.stream() as stream:
        assert [await next_method(stream), await next_method(stream)] == [UPDATED, "x/y"]


@spec("RES-18")
async def test_resource_update_is_not_sent_after_read_permission_is_revoked(shop: Server) -> None:
    allowed = True
    shop.resource("shop://guarded", permission=lambda frame: allowed)(lambda: "x")
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://guarded"}))
    async with peer.stream() as stream:
        await shop.anotify_resource_updated("shop://guarded")
        assert await next_method(stream) == UPDATED
        allowed = False
        await shop.anotify_resource_updated("shop://guarded")
        await shop.asend_notification("x/y", session_id=peer.session)
        assert await next_method(stream) == "x/y"


@spec("RES-18")
async def test_resource_update_is_not_replayed_after_read_permission_is_revoked(
    shop: Server,
) -> None:
    allowed = True
    shop.resource("shop://guarded", permission=lambda frame: allowed)(lambda: "x")
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://guarded"}))
    async with peer.stream() as stream:
        await shop.asend_notification("x/y", session_id=peer.session)
        first = await stream.data_event()
        await shop.anotify_resource_updated("shop://guarded")
        assert await next_method(stream) == UPDATED
    allowed = False
    await shop.asend_notification("x/z", session_id=peer.session)
    async with peer.stream(last=first.id) as stream:
        assert await next_method(stream) == "x/z"


@spec("RES-18")
@pytest.mark.parametrize("uri", ["shop://none", "", "news"])
async def test_subscription_to_an_unknown_resource_is_rejected(shop: Server, uri: str) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    error = (await peer.post(peer.request("resources/subscribe", {"uri": uri}))).json()["error"]
    assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_subscription_to_a_template_that_takes_the_uri_is_accepted(shop: Server) -> None:
    @shop.resource("shop://pages/{page}")
    def page(uri: str) -> str:
        return uri

    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    uri = "shop://pages/1"
    reply = await peer.post(peer.request("resources/subscribe", {"uri": uri}))
    assert reply.json()["result"] == {}


async def test_subscription_beyond_the_limit_is_rejected(
    shop: Server, set_constants: SetConstants
) -> None:
    set_constants(MAX_SUBSCRIPTIONS=1)
    shop.resource("shop://more")(lambda: "x")
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    for uri, code in (("shop://news", None), ("shop://more", -32602), ("shop://news", None)):
        reply = await peer.post(peer.request("resources/subscribe", {"uri": uri}))
        assert reply.json().get("error", {}).get("code") == code


async def test_session_components_send_notifications_only_to_their_session(shop: Server) -> None:
    @shop.tool
    def learn(frame: Frame) -> Any:
        """Registers components for this session only."""
        return "learnt", frame.register_tool("trick").register_tool("other").register_prompt("p")

    @shop.tool
    def unlearn(frame: Frame) -> Any:
        """Unregisters all of them."""
        return "forgotten", frame.clear_components()

    peer, other = AsgiClient(shop, NEWEST_SESSION), AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    await other.initialize()
    async with peer.stream() as stream, other.stream() as elsewhere:
        await peer.post(peer.call("learn"))
        assert sorted([await next_method(stream), await next_method(stream)]) == sorted(
            [TOOLS, PROMPTS]
        )
        await peer.post(peer.call("unlearn"))
        assert sorted([await next_method(stream), await next_method(stream)]) == sorted(
            [TOOLS, PROMPTS]
        )
        await shop.asend_notification("x/y")
        assert await next_method(stream) == await next_method(elsewhere) == "x/y"


async def test_none_as_session_id_raises_value_error(shop: Server) -> None:
    with pytest.raises(ValueError, match="None is not a session id"):
        shop.send_notification("x/y", session_id=None)
    with pytest.raises(ValueError, match="None is not a session id"):
        await shop.asend_notification("x/y", session_id=None)


async def test_sync_ping_in_an_event_loop_raises_runtime_error(shop: Server) -> None:
    with pytest.raises(RuntimeError, match="would block the event loop"):
        shop.ping("session")


async def test_ping_that_cannot_be_stored_fails_at_once(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    assert peer.session is not None

    async def fail(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no store")

    monkeypatch.setattr(stores.events(), "append", fail)
    with pytest.raises(ConnectionError, match="cannot be stored"):
        await shop.aping(peer.session, timeout=TIMEOUT)


async def test_notification_to_an_unknown_session_is_ignored(shop: Server) -> None:
    await shop.asend_notification("x/y", session_id="unknown")
    await shop.asend_notification("x/y", session_id="stdio.unknown")


async def test_notification_unknown_to_the_revision_is_not_sent(shop: Server) -> None:
    peer = AsgiClient(shop, "2025-06-18")
    await peer.initialize()
    async with peer.stream() as stream:
        method = "notifications/elicitation/complete"
        await shop.asend_notification(method, {"elicitationId": "1"}, session_id=peer.session)
        await shop.asend_notification(method, {"elicitationId": "1"})
        await shop.asend_notification("x/y", session_id=peer.session)
        assert await next_method(stream) == "x/y"


# Failures.


async def test_notification_is_sent_even_if_the_event_store_fails(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("no store")

    async with open_listen_stream(shop) as stream:
        monkeypatch.setattr(stores.events(), "append", broken)
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await shop.anotify_tools_list_changed()
            await shop.anotify_resource_updated("shop://news")
        assert [await next_method(stream), await next_method(stream)] == [TOOLS, UPDATED]
    assert "cannot be stored" in caplog.text


def test_notification_without_a_publisher_is_ignored(shop: Server) -> None:
    with PUBLISHER.replaced(None):
        shop.notify_tools_list_changed()
        shop.send_notification("x/y")


async def test_failing_receiver_does_not_affect_other_receivers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: list[bus.Message] = []
    here = bus.here()

    def fail(message: Any) -> None:
        raise RuntimeError("no")

    await here.subscribe("group", fail)
    await here.subscribe("group", got.append)
    with caplog.at_level(logging.ERROR, "django_mcp"):
        await bus.publish("group", {"a": 1})
    for receiver in (fail, got.append):
        here.unsubscribe("group", receiver)
        here.unsubscribe("group", receiver)
    await bus.publish("group", {"a": 2})
    assert got == [{"a": 1}]
    assert "A receiver failed" in caplog.text


def test_group_names_are_valid_for_every_channel_layer() -> None:
    name = bus.group("resource", "shop", "shop://" + "x" * 1000, "\0é")
    assert len(name) < 100
    assert all(
        character.isascii() and (character.isalnum() or character in "._-") for character in name
    )
    assert bus.group("a", "b") != bus.group("a", "c")


# Sessions of other servers, and sessions that have ended.


async def test_notification_to_a_session_of_another_server_is_not_stored(shop: Server) -> None:
    other = Server("other")
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    assert peer.session is not None

    await other.notifications.send_notification("shop/news", session_id=peer.session)
    assert await stored_for(peer) is None

    await shop.notifications.send_notification("shop/news", session_id=peer.session)
    assert await stored_for(peer) == 1


async def test_messages_of_a_deleted_session_are_forgotten(shop: Server) -> None:
    peer = AsgiClient(shop, NEWEST_SESSION)
    await peer.initialize()
    assert peer.session is not None
    await shop.notifications.send_notification("shop/news", session_id=peer.session)

    assert (await peer.delete()).status == 204

    assert await stored_for(peer) is None


async def stored_for(peer: AsgiClient) -> int | None:
    """How many messages wait for the session of a client; None if it has no outbox."""
    return await stores.events().last(address(str(peer.session)), session_messages.OUTBOX)
