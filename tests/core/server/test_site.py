"""The server within its site: admin, checks, lifespan and documentation."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import AsyncClient

from django_mcp import Frame, registry, routing, signals
from tests.by_hand.processes import environment
from tests.by_hand.shop import peer_of, shop
from tests.memory_stores import Configure
from tests.processes import ROOT
from tests.waiting import SECONDS, happens


@pytest.fixture
def sessions_in_database(configure: Configure) -> None:
    configure(STORES={})


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sessions_in_database", "thread_sensitive")
async def test_session_ended_in_the_admin_ends_its_streams_and_sends_the_signal(
    configure: Configure,
) -> None:
    from django.contrib.auth import get_user_model

    from django_mcp.models import McpSession

    configure(STORES={})
    server = shop()
    received: list[Any] = []

    @server.tool
    async def wait(frame: Frame) -> str:
        frame.client.log("error", "started")
        await asyncio.sleep(60)
        return "done"

    def ended(sender: Any, **facts: Any) -> None:
        received.append(facts)

    user = await database_sync_to_async(get_user_model().objects.create_superuser)("boss")
    browser = AsyncClient()
    await browser.aforce_login(user)
    peer = await peer_of(server)
    signals.session_ended.connect(ended)
    try:
        async with peer.open_get() as stream, peer.open_post(peer.call("wait")) as running:
            assert await stream.status() == 200
            await running.message()
            keys = [str(key) async for key in McpSession.objects.values_list("pk", flat=True)]
            page = "/admin/django_mcp/mcpsession/"
            form = {"action": "delete_selected", "_selected_action": keys, "post": "yes"}
            assert (await browser.post(page, form)).status_code == 302
            assert (await peer.tool("add")).status == 404
            has_ended = await happens(lambda: stream.is_complete, 2)
            is_cancelled = await happens(lambda: running.is_complete, 2)
    finally:
        signals.session_ended.disconnect(ended)

    assert has_ended, "The stream is still open"
    assert is_cancelled, "The call is still running"
    assert len(received) == 1


def test_check_command_does_not_open_servers() -> None:
    """In a process of its own, since checks may have run in this one."""
    code = """
import django
django.setup()
from django.core.management import call_command
from django_mcp import registry, tool
from django_mcp.stores import memory
from django_mcp import Server
appended = []
async def append(self, *args, **kwargs):
    appended.append(args)
    return 1
memory.MemoryEventStore.append = append
call_command("check")
@tool
def later() -> str:
    "Is registered later."
    return ""
import time; time.sleep(0.3)
print("announced" if appended else "silent")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )

    assert done.stdout.strip().splitlines()[-1:] == ["silent"], done.stderr


async def test_lifespan_messages_reach_the_wrapped_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry.registered, "servers", {})
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    seen: list[str] = []

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        while True:
            message = await receive()
            seen.append(message["type"])
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    incoming: asyncio.Queue[Any] = asyncio.Queue()
    sent: list[str] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    incoming.put_nowait({"type": "lifespan.startup"})
    incoming.put_nowait({"type": "lifespan.shutdown"})
    async with asyncio.timeout(SECONDS):
        await routing.mount(wrapped)({"type": "lifespan"}, incoming.get, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert seen == ["lifespan.startup", "lifespan.shutdown"]


def test_documented_transport_example_has_every_method_of_its_interface() -> None:
    from django_mcp.transports.connection.connection import MessageSink

    document = (ROOT / "docs" / "writing" / "transport.md").read_text()
    example = document.partition("class McpConsumer")[2].partition("```")[0]
    needed = [name for name in vars(MessageSink) if not name.startswith("_")]

    missing = [name for name in needed if not re.search(rf"\b(def )?{name}\b *[(:=]", example)]
    assert missing == []
