"""A mounted site whose process is told to stop, in the process of the test."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Server, registry, routing
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.runtime.process import stop_signals
from django_mcp.transports.http import shutdown
from tests.http_client import message
from tests.memory_stores import MEMORY
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from pytest_django import Settings

Handlers = dict[int, Any]


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Server:
    settings.DJANGO_MCP = {"STORES": MEMORY, "SHUTDOWN_TIMEOUT": 10}
    settings.ALLOWED_HOSTS = ["testserver"]
    server = Server("shop", path="/mcp", authenticators=[AnonymousAuthentication()])
    monkeypatch.setattr(registry, "_servers", {"shop": server})

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
    stop_signals._watchers.clear()


async def page(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise ValueError("Only HTTP is served here, as by Django")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a page"})


class Client:
    """Sends requests to an application."""

    def __init__(self) -> None:
        self.application = routing.mount(page)

    async def send(
        self, path: str, body: str = "", headers: dict[str, str] | None = None, **scope: Any
    ) -> tuple[int, list[tuple[bytes, bytes]], Any]:
        """The status, headers and JSON of a response."""
        sent: list[dict[str, Any]] = []
        waiting = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if waiting.is_set():
                await asyncio.Event().wait()
            waiting.set()
            return {"type": "http.request", "body": body.encode()}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        pairs = [(b"host", b"testserver")]
        pairs += [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        method = "POST" if body else "GET"
        await self.application(
            {"type": "http", "method": method, "path": path, "headers": pairs, **scope},
            receive,
            send,
        )
        content = b"".join(each.get("body", b"") for each in sent[1:])
        return sent[0]["status"], sent[0]["headers"], content

    async def call(self) -> tuple[int, dict[bytes, bytes], Any]:
        body, headers = message("add", {"a": 1, "b": 2})
        status, pairs, content = await self.send("/mcp", body, headers)
        return status, dict(pairs), json.loads(content)


async def test_call_that_arrives_a_moment_later_is_answered(
    server: Server, handlers: Handlers
) -> None:
    client = Client()
    await client.call()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0)
    status, headers, body = await client.call()

    assert shutdown.here(asyncio.get_running_loop()).has_begun
    assert (status, body["result"]["structuredContent"]) == (200, 3)
    assert headers[b"connection"] == b"close"


async def test_later_call_is_rejected_with_a_retry_time(
    server: Server, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LATE", 0.0)
    client = Client()
    await client.call()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    async with asyncio.timeout(SECONDS):
        while (found := await client.call())[0] == 200:
            await asyncio.sleep(0)
    status, headers, body = found

    assert (status, body["error"]["message"]) == (503, "The server is stopping")
    assert headers[b"retry-after"] == b"1"
    assert headers[b"connection"] == b"close"


async def test_pages_close_their_connection_but_not_in_http_2(
    server: Server, handlers: Handlers
) -> None:
    client = Client()
    await client.call()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0)
    first = await client.send("/page", http_version="1.1")
    second = await client.send("/page", http_version="2")

    assert first[1] == [(b"connection", b"close")]
    assert second[1] == []


async def test_signal_reaches_the_handler_of_the_server(server: Server, handlers: Handlers) -> None:
    client = Client()
    await client.call()
    for number in stop_signals.NUMBERS:
        handlers[number](number, None)

    assert handlers[0]() == [*stop_signals.NUMBERS]


async def test_handlers_are_installed_once(server: Server, handlers: Handlers) -> None:
    await Client().call()
    installed = dict(handlers)
    await Client().call()

    assert handlers == installed


async def test_process_without_handlers_of_a_server_keeps_its_own(
    server: Server, handlers: Handlers
) -> None:
    handlers[signal.SIGINT] = signal.default_int_handler
    handlers[signal.SIGTERM] = signal.SIG_DFL
    await Client().call()

    assert handlers[signal.SIGINT] is signal.default_int_handler
    assert handlers[signal.SIGTERM] is signal.SIG_DFL


async def test_listen_stream_of_a_process_that_stops_ends_at_once(
    server: Server, handlers: Handlers
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}
    _, headers = message("add", {})
    headers = {**headers, "Mcp-Method": "subscriptions/listen"}
    del headers["Mcp-Name"]
    client = Client()
    await client.call()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    await asyncio.sleep(0.1)
    async with asyncio.timeout(SECONDS):
        status, _, content = await client.send("/mcp", json.dumps(body), headers)

    last = json.loads(content.decode().strip().rpartition("data: ")[2])
    assert (status, last["id"], last["result"]["resultType"]) == (200, 7, "complete")


async def test_event_loop_that_has_stopped_can_start_again(
    server: Server, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "LATE", 0.0)
    client = Client()

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
            while (await client.call())[0] == 200:
                await asyncio.sleep(0)

    found: list[int] = []

    async def call() -> None:
        status, headers, _ = await client.call()
        found.append(status)
        assert b"connection" not in headers

    await live(stop_and_be_rejected)
    await live(call)

    assert found == [200]
