"""Django's request_started and request_finished around HTTP requests to MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.core import signals
from django.db import close_old_connections

from django_mcp import Server
from django_mcp.runtime import request_thread
from django_mcp.runtime.around import django_handler
from django_mcp.transports.http.endpoint import Endpoint
from tests.around.requests import call
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django import Settings


@pytest.fixture
def server() -> Server:
    """A server with one tool."""
    server = Server("shop", authenticators=["django_mcp.auth.anonymous.AnonymousAuthentication"])

    @server.tool
    async def ping() -> str:
        return "pong"

    return server


@pytest.fixture
def received() -> Iterator[list[tuple[str, Any, Any]]]:
    """What a receiver of a site receives."""
    received: list[tuple[str, Any, Any]] = []

    def started(sender: Any, scope: Any = None, **_: Any) -> None:
        received.append(("started", sender, scope["path"]))

    async def finished(sender: Any, **_: Any) -> None:
        received.append(("finished", sender, None))

    signals.request_started.connect(started)
    signals.request_finished.connect(finished)
    yield received
    signals.request_started.disconnect(started)
    signals.request_finished.disconnect(finished)


async def test_signals_are_sent_with_the_scope_as_django_does(
    server: Server, received: list[tuple[str, Any, Any]]
) -> None:
    assert await call(server, "ping") == "pong"
    sender = Endpoint
    assert received == [("started", sender, "/"), ("finished", sender, None)]


async def test_signals_are_sent_once_for_a_request_within_middleware(
    server: Server, received: list[Any], settings: Settings
) -> None:
    names = ["tests.around.middleware_samples.OldStyle"]
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "DJANGO_MIDDLEWARE": names}
    assert await call(server, "ping") == "pong"
    assert [name for name, _, _ in received] == ["started", "finished"]


async def test_receiver_that_raises_keeps_no_thread(server: Server) -> None:
    def finished(**_: Any) -> None:
        raise LookupError("The metrics cannot be sent")

    signals.request_finished.connect(finished)
    try:
        with pytest.raises(LookupError):
            await call(server, "ping")
    finally:
        signals.request_finished.disconnect(finished)
    await asyncio.to_thread(wait_until, lambda: not request_thread._pool_of)


async def test_receivers_that_have_disconnected_are_not_called(server: Server) -> None:
    received = []

    def started(**_: Any) -> None:
        received.append(1)

    signals.request_started.connect(started)
    await call(server, "ping")
    signals.request_started.disconnect(started)
    await call(server, "ping")
    assert received == [1]
    assert not django_handler.OTHERS.are_any


async def test_connections_of_a_test_are_left_to_it(
    server: Server, received: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    receivers = [each[1]() for each in signals.request_started.receivers]
    assert close_old_connections in receivers
    # The database is not allowed in this test: Django's own receivers would ask for it.
    assert await call(server, "ping") == "pong"
    assert len(received) == 2
