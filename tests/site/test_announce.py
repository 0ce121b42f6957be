"""Announcing from anywhere in a project: from a view, a signal, a thread, a command, a handler."""

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

from django_mcp import Frame, Server, hub, stores
from django_mcp.announcer import Announcing
from django_mcp.testing.exchange import PATIENCE, Exchange
from tests.behaviour.conftest import configure
from tests.transports.driving import MODERN, PRIMED, Peer, message_of

__all__ = ["configure"]

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"


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
async def listening(server: Server) -> AsyncIterator[Exchange]:
    """A client of the stateless era which hears of everything."""
    peer = Peer(server, version=MODERN)
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["shop://news"],
    }
    async with peer.posting(peer.listen(id=1, **wanted)) as stream:
        await message_of(stream)
        yield stream


async def heard(stream: Exchange) -> str:
    method: str = (await message_of(stream))["method"]
    return method


# From where it is announced.


async def test_a_view_announces(shop: Server) -> None:
    def view(request: Any) -> HttpResponse:
        shop.notify_tools_list_changed()
        return HttpResponse()

    async with listening(shop) as stream:
        await sync_to_async(view)(RequestFactory().get("/"))
        assert await heard(stream) == TOOLS


async def test_an_async_view_announces(shop: Server) -> None:
    async with listening(shop) as stream:
        await shop.anotify_prompts_list_changed()
        assert await heard(stream) == PROMPTS


async def test_a_receiver_of_a_signal_announces(shop: Server) -> None:
    saved = Signal()

    def announce(**_: Any) -> None:
        shop.notify_resource_updated("shop://news")

    saved.connect(announce)
    async with listening(shop) as stream:
        await sync_to_async(saved.send)(None)
        assert await heard(stream) == UPDATED
        await saved.asend(None)
        assert await heard(stream) == UPDATED
        saved.send(None)  # In the event loop's own thread it is announced soon.
        assert await heard(stream) == UPDATED


async def test_a_plain_thread_announces(shop: Server) -> None:
    async with listening(shop) as stream:
        thread = threading.Thread(target=shop.notify_resources_list_changed)
        thread.start()
        await asyncio.to_thread(thread.join, PATIENCE)
        assert await heard(stream) == RESOURCES


async def test_a_command_announces(shop: Server) -> None:
    class Command(BaseCommand):
        def handle(self, *_: Any, **__: Any) -> None:
            shop.notify_tools_list_changed()

    async with listening(shop) as stream:
        await asyncio.to_thread(call_command, Command())
        assert await heard(stream) == TOOLS


@pytest.mark.parametrize("version", [PRIMED, MODERN])
async def test_a_handler_announces(shop: Server, version: str) -> None:
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

    peer = Peer(shop, version=version)
    if version == PRIMED:
        await peer.initialize()
    async with listening(shop) as stream:
        for tool in ("restock", "arestock"):
            assert "result" in (await peer.post(peer.call(tool))).json()
            assert await heard(stream) == UPDATED


async def test_many_handlers_which_wait_for_the_store_do_not_wait_for_each_other(
    shop: Server, configure: Any
) -> None:
    configure(SYNC_THREADS=2)
    meeting = threading.Barrier(2)

    @shop.tool
    def tell(frame: Frame) -> str:
        """Occupies a thread, and then needs the store."""
        meeting.wait(PATIENCE)
        shop.send_notification("x/y", session_id=frame.get_mcp_session_id())
        return "told"

    peer = Peer(shop)
    await peer.initialize()
    replies = await asyncio.gather(*(peer.post(peer.call("tell")) for _ in range(2)))
    assert [reply.json()["result"]["content"][0]["text"] for reply in replies] == ["told"] * 2


def test_without_an_event_loop_it_is_announced_to_those_who_come_later(shop: Server) -> None:
    shop.notify_tools_list_changed()
    shop.notify_resource_updated("shop://news")
    shop.send_notification("x/y", {"a": 1})


# What is announced.


async def test_what_changes_at_run_time_is_announced_once_a_list(shop: Server) -> None:
    async with listening(shop) as stream:
        for number in range(5):
            shop.tool(name=f"tool_{number}")(lambda: "x")
        shop.remove("prompt", "greet")
        assert shop.remove("prompt", "greet") is False
        shop.resource("shop://{id}", name="template")(lambda id: id)
        assert sorted([await heard(stream) for _ in range(3)]) == sorted(
            [TOOLS, PROMPTS, RESOURCES]
        )
        shop.notify_resource_updated("shop://news")
        assert await heard(stream) == UPDATED


async def test_what_is_declared_before_the_start_is_not_announced(shop: Server) -> None:
    peer = Peer(Server("other", announce_on_start=False))
    await peer.initialize()
    async with listening(shop) as stream:
        Server("new").tool(name="x")(lambda: "x")
        shop.notify_resource_updated("shop://news")
        assert await heard(stream) == UPDATED


async def test_servers_do_not_hear_each_other(shop: Server) -> None:
    other = Server("other")
    other.tool(name="x")(lambda: "x")
    async with listening(shop) as stream:
        await other.anotify_tools_list_changed()
        await other.anotify_resource_updated("shop://news")
        await shop.anotify_prompts_list_changed()
        assert await heard(stream) == PROMPTS


async def test_a_session_hears_of_what_it_subscribed_to(shop: Server) -> None:
    peer, other = Peer(shop), Peer(shop)
    await peer.initialize()
    await other.initialize()
    uri = {"uri": "shop://news"}
    assert (await peer.post(peer.request("resources/subscribe", uri))).json()["result"] == {}
    async with peer.stream() as stream, other.stream() as elsewhere:
        await shop.anotify_resource_updated("shop://other")
        await shop.anotify_resource_updated("shop://news")
        assert (await message_of(stream))["params"] == uri
        await peer.post(peer.request("resources/unsubscribe", uri))
        await shop.anotify_resource_updated("shop://news")
        await shop.asend_notification("x/y")
        assert await heard(stream) == await heard(elsewhere) == "x/y"


async def test_updates_that_waited_are_told_once(shop: Server) -> None:
    peer = Peer(shop)
    await peer.initialize()
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://news"}))
    for _ in range(5):
        await shop.anotify_resource_updated("shop://news")
    await shop.asend_notification("x/y", session_id=peer.session)
    async with peer.stream() as stream:
        assert [await heard(stream), await heard(stream)] == [UPDATED, "x/y"]


async def test_who_may_not_read_any_more_is_not_told(shop: Server) -> None:
    allowed = True
    shop.resource("shop://guarded", permission=lambda frame: allowed)(lambda: "x")
    peer = Peer(shop)
    await peer.initialize()
    await peer.post(peer.request("resources/subscribe", {"uri": "shop://guarded"}))
    async with peer.stream() as stream:
        await shop.anotify_resource_updated("shop://guarded")
        assert await heard(stream) == UPDATED
        allowed = False
        await shop.anotify_resource_updated("shop://guarded")
        await shop.asend_notification("x/y", session_id=peer.session)
        assert await heard(stream) == "x/y"


@pytest.mark.parametrize("uri", ["shop://none", "", "news"])
async def test_nobody_subscribes_to_what_is_not_there(shop: Server, uri: str) -> None:
    peer = Peer(shop)
    await peer.initialize()
    error = (await peer.post(peer.request("resources/subscribe", {"uri": uri}))).json()["error"]
    assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_a_session_subscribes_to_a_bounded_number(shop: Server, configure: Any) -> None:
    configure(MAX_SUBSCRIPTIONS=1)
    shop.resource("shop://more")(lambda: "x")
    peer = Peer(shop)
    await peer.initialize()
    for uri, code in (("shop://news", None), ("shop://more", -32602), ("shop://news", None)):
        reply = await peer.post(peer.request("resources/subscribe", {"uri": uri}))
        assert reply.json().get("error", {}).get("code") == code


async def test_a_session_hears_of_its_own_components(shop: Server) -> None:
    @shop.tool
    def learn(frame: Frame) -> Any:
        """Registers for this session alone."""
        return "learnt", frame.register_tool("trick").register_tool("other").register_prompt("p")

    @shop.tool
    def unlearn(frame: Frame) -> Any:
        """Takes it all back."""
        return "forgotten", frame.clear_components()

    peer, other = Peer(shop), Peer(shop)
    await peer.initialize()
    await other.initialize()
    async with peer.stream() as stream, other.stream() as elsewhere:
        await peer.post(peer.call("learn"))
        assert sorted([await heard(stream), await heard(stream)]) == sorted([TOOLS, PROMPTS])
        await peer.post(peer.call("unlearn"))
        assert sorted([await heard(stream), await heard(stream)]) == sorted([TOOLS, PROMPTS])
        await shop.asend_notification("x/y")
        assert await heard(stream) == await heard(elsewhere) == "x/y"


async def test_a_client_without_a_session_is_told_nothing_later(shop: Server) -> None:
    with pytest.raises(ValueError, match="None names no session"):
        shop.send_notification("x/y", session_id=None)
    with pytest.raises(ValueError, match="None names no session"):
        await shop.asend_notification("x/y", session_id=None)


async def test_a_ping_waits_in_no_event_loop(shop: Server) -> None:
    with pytest.raises(RuntimeError, match="await its twin"):
        shop.ping("session")


async def test_an_unknown_session_is_told_nothing(shop: Server) -> None:
    await shop.asend_notification("x/y", session_id="unknown")
    await shop.asend_notification("x/y", session_id="stdio.unknown")


async def test_a_revision_is_sent_only_what_it_knows(shop: Server) -> None:
    peer = Peer(shop, version="2025-06-18")
    await peer.initialize()
    async with peer.stream() as stream:
        method = "notifications/elicitation/complete"
        await shop.asend_notification(method, {"elicitationId": "1"}, session_id=peer.session)
        await shop.asend_notification(method, {"elicitationId": "1"})
        await shop.asend_notification("x/y", session_id=peer.session)
        assert await heard(stream) == "x/y"


# What goes wrong.


async def test_an_announcement_which_cannot_be_kept_still_reaches_those_who_listen(
    shop: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("no store")

    async with listening(shop) as stream:
        monkeypatch.setattr(stores.events(), "append", broken)
        with caplog.at_level(logging.ERROR, "django_mcp"):
            await shop.anotify_tools_list_changed()
            await shop.anotify_resource_updated("shop://news")
        assert [await heard(stream), await heard(stream)] == [TOOLS, UPDATED]
    assert "cannot be kept" in caplog.text


def test_without_the_app_nothing_is_announced(
    shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Announcing, "announcer", None)
    shop.notify_tools_list_changed()
    shop.send_notification("x/y")


async def test_a_receiver_which_fails_hinders_no_other(caplog: pytest.LogCaptureFixture) -> None:
    got: list[hub.Message] = []
    ears = hub.here()

    def fail(message: Any) -> None:
        raise RuntimeError("no")

    await ears.join("group", fail)
    await ears.join("group", got.append)
    with caplog.at_level(logging.ERROR, "django_mcp"):
        await hub.publish("group", {"a": 1})
    for receiver in (fail, got.append):
        ears.leave("group", receiver)
        ears.leave("group", receiver)
    await hub.publish("group", {"a": 2})
    assert got == [{"a": 1}]
    assert "A receiver failed" in caplog.text


def test_names_of_groups_fit_every_layer() -> None:
    name = hub.group("resource", "shop", "shop://" + "x" * 1000, "\0é")
    assert len(name) < 100
    assert all(
        character.isascii() and (character.isalnum() or character in "._-") for character in name
    )
    assert hub.group("a", "b") != hub.group("a", "c")
