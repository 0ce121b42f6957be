"""A mounted site whose process is told to stop, in the process of the test."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Server, registry, routing
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.concurrency import loops
from django_mcp.runtime.process import stop_signals
from django_mcp.testing import asgi
from django_mcp.transports.http import shutdown
from tests.memory_stores import MEMORY
from tests.waiting import SECONDS
from tests.wire.asgi import AsgiClient, Reply

if TYPE_CHECKING:
    from pytest_django import Settings

Handlers = dict[int, Any]


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Server:
    settings.DJANGO_MCP = {"STORES": MEMORY, "SHUTDOWN_TIMEOUT": 10}
    settings.ALLOWED_HOSTS = ["testserver"]
    server = Server("shop", path="/mcp", authenticators=[AnonymousAuthentication()])
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})

    @server.tool
    async def add(a: int, b: int) -> int:
        """The sum."""
        return a + b

    return server


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handlers]:
    """The signal handlers of the process, those of an ASGI server to begin with."""
    received: list[int] = []
    found: Handlers = dict.fromkeys(
        stop_signals.NUMBERS, lambda number, frame: received.append(number)
    )
    found[0] = lambda: received
    monkeypatch.setattr(signal, "getsignal", found.get)
    monkeypatch.setattr(signal, "signal", found.__setitem__)
    yield found
    loops.STATE.clear()


async def page(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise ValueError("Only HTTP is served here, as by Django")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a page"})


@pytest.fixture
def client(server: Server, handlers: Handlers) -> AsgiClient:
    """A client of a mounted site, in a process with signal handlers."""
    return AsgiClient(server, application=routing.mount(page))


async def add(client: AsgiClient) -> Reply:
    return await client.tool("add", a=1, b=2)


async def open_page(client: AsgiClient, http_version: str) -> asgi.Reply:
    scope = asgi.http_scope("GET", "/page") | {"http_version": http_version}
    return await asgi.perform(client.application, scope)


async def test_call_that_arrives_a_moment_later_is_answered(
    client: AsgiClient, handlers: Handlers
) -> None:
    await add(client)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0)
    reply = await add(client)

    assert shutdown.here(asyncio.get_running_loop()).has_begun
    assert (reply.status, reply.result["structuredContent"]) == (200, 3)
    assert reply.headers["connection"] == "close"


async def test_later_call_is_rejected_with_a_retry_time(
    client: AsgiClient, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LATE", 0.0)
    await add(client)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    async with asyncio.timeout(SECONDS):
        while (reply := await add(client)).status == 200:
            await asyncio.sleep(0)

    assert (reply.status, reply.error["message"]) == (503, "The server is stopping")
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["connection"] == "close"


async def test_pages_close_their_connection_but_not_in_http_2(
    client: AsgiClient, handlers: Handlers
) -> None:
    await add(client)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0)
    first = await open_page(client, "1.1")
    second = await open_page(client, "2")

    assert first.headers == {"connection": "close"}
    assert second.headers == {}


async def test_signal_reaches_the_handler_of_the_server(
    client: AsgiClient, handlers: Handlers
) -> None:
    await add(client)
    for number in stop_signals.NUMBERS:
        handlers[number](number, None)

    assert handlers[0]() == [*stop_signals.NUMBERS]


async def test_handlers_are_installed_once(client: AsgiClient, handlers: Handlers) -> None:
    await add(client)
    installed = dict(handlers)
    await add(client)

    assert handlers == installed


async def test_process_without_handlers_of_a_server_keeps_its_own(
    client: AsgiClient, handlers: Handlers
) -> None:
    handlers[signal.SIGINT] = signal.default_int_handler
    handlers[signal.SIGTERM] = signal.SIG_DFL
    await add(client)

    assert handlers[signal.SIGINT] is signal.default_int_handler
    assert handlers[signal.SIGTERM] is signal.SIG_DFL


async def test_listen_stream_of_a_process_that_stops_ends_at_once(
    client: AsgiClient, handlers: Handlers
) -> None:
    await add(client)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0.1)
    reply = await client.post(client.listen(7, toolsListChanged=True))

    assert (reply.status, reply.answer["id"]) == (200, 7)
    assert reply.result["resultType"] == "complete"


async def test_event_loop_that_has_stopped_can_start_again(
    client: AsgiClient, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LATE", 0.0)

    async def live(during: Callable[[], Any]) -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        answered: asyncio.Queue[Any] = asyncio.Queue()
        living = asyncio.ensure_future(
            client.application({"type": "lifespan"}, messages.get, answered.put)
        )
        messages.put_nowait({"type": "lifespan.startup"})
        await answered.get()
        await during()
        messages.put_nowait({"type": "lifespan.shutdown"})
        await living

    async def stop_and_be_rejected() -> None:
        handlers[signal.SIGTERM](signal.SIGTERM, None)
        async with asyncio.timeout(SECONDS):
            while (await add(client)).status == 200:
                await asyncio.sleep(0)

    found: list[int] = []

    async def call() -> None:
        reply = await add(client)
        found.append(reply.status)
        assert "connection" not in reply.headers

    await live(stop_and_be_rejected)
    await live(call)

    assert found == [200]
