"""The health endpoints of a mounted server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp import Server, registry, routing
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.frame.session import Session
from django_mcp.pubsub import channel_layer
from django_mcp.stores.memory import MemoryEventStore, MemorySessionStore
from django_mcp.transports.http import health, shutdown
from tests.memory_stores import MEMORY
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from pytest_django import Settings

Answer = tuple[int, dict[bytes, bytes], bytes]


class SlowSessions(MemorySessionStore):
    """A store that counts its loads, and answers when ``go_on`` is set."""

    loads = 0
    at_once = 0
    go_on: asyncio.Event | None = None

    async def load(self, session_id: str) -> Session | None:
        cls = type(self)
        cls.loads += 1
        cls.at_once += 1
        try:
            if cls.go_on is not None:
                await cls.go_on.wait()
            return await super().load(session_id)
        finally:
            cls.at_once -= 1


class FailingEvents(MemoryEventStore):
    async def is_closed(self, session: str, stream: str) -> bool:
        raise ConnectionRefusedError("the password is xyzzy")


@pytest.fixture(autouse=True)
def site(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A site with one server, and stores in memory."""
    server = Server("shop", path="/shop/mcp", authenticators=[AnonymousAuthentication()])
    monkeypatch.setattr(registry.registered, "servers", {"shop": server})
    use(settings)
    monkeypatch.setattr(SlowSessions, "loads", 0)
    monkeypatch.setattr(SlowSessions, "go_on", None)
    return iter([None])


def use(settings: Settings, **backends: str) -> None:
    named = {kind: {"BACKEND": f"{__name__}.{name}"} for kind, name in backends.items()}
    settings.DJANGO_MCP = {"STORES": {**MEMORY, **named}}


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"Django"})


async def get(path: str, method: str = "GET", application: Any = None) -> Answer:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    # Probes name the worker by its address: their Host is in no list.
    headers = [(b"host", b"10.0.0.7:8001")]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await (application or routing.mount(nothing))(scope, receive, send)
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


@pytest.mark.parametrize("path", ["/shop/mcp/healthz", "/shop/mcp/readyz", "/shop/mcp/readyz/"])
async def test_process_that_can_serve_is_healthy(path: str) -> None:
    status, headers, body = await get(path)

    assert (status, body) == (200, b"ok\n")
    assert headers[b"cache-control"] == b"no-store"


async def test_head_is_answered_without_a_body() -> None:
    status, headers, body = await get("/shop/mcp/readyz", "HEAD")

    assert (status, headers[b"content-length"], body) == (200, b"3", b"")


async def test_other_methods_are_not_allowed() -> None:
    status, headers, _ = await get("/shop/mcp/healthz", "POST")

    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")


async def test_server_at_such_a_path_is_served_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("own", path="/shop/mcp/healthz", authenticators=[AnonymousAuthentication()])
    monkeypatch.setitem(registry.registered.servers, "own", server)

    status, _, _ = await get("/shop/mcp/healthz")

    assert status == 403


async def test_store_that_fails_makes_the_process_unready_but_not_dead(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings, events="FailingEvents")
    status, headers, body = await get("/shop/mcp/readyz")
    alive, _, _ = await get("/shop/mcp/healthz")

    assert (status, body, headers[b"retry-after"]) == (503, b"not ready\n", b"1")
    assert alive == 200
    assert "The event store fails: ConnectionRefusedError" in caplog.text
    assert "xyzzy" not in caplog.text


async def test_state_is_logged_when_it_changes_and_not_at_each_request(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    use(settings, events="FailingEvents")
    caplog.set_level(logging.INFO, "django_mcp")
    for _ in range(3):
        await get("/shop/mcp/readyz")
    use(settings)
    for _ in range(3):
        await get("/shop/mcp/readyz")

    assert [record.getMessage() for record in caplog.records] == [
        "This process is not ready: The event store fails: ConnectionRefusedError",
        "This process is ready again",
    ]


async def test_stores_are_probed_once_a_second(settings: Settings) -> None:
    use(settings, sessions="SlowSessions")
    await asyncio.gather(*(get("/shop/mcp/readyz") for _ in range(20)))
    await get("/shop/mcp/readyz")

    assert SlowSessions.loads == 1


async def test_store_that_hangs_is_probed_by_one_task(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.05)
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    use(settings, sessions="SlowSessions")
    SlowSessions.go_on = asyncio.Event()
    statuses = [(await get("/shop/mcp/readyz"))[0] for _ in range(3)]
    hanging = SlowSessions.at_once
    SlowSessions.go_on.set()
    async with asyncio.timeout(SECONDS):
        while (await get("/shop/mcp/readyz"))[0] != 200:
            await asyncio.sleep(0)

    assert statuses == [503, 503, 503]
    assert hanging == 1


async def test_store_that_never_answers_is_asked_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(settings, sessions="SlowSessions")
    monkeypatch.setattr(SlowSessions, "go_on", asyncio.Event())
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(health, "GIVE_UP_AFTER", 0.05)
    monkeypatch.setattr(health, "VALID_FOR", 0.0)
    assert not await health.is_ready()
    async with asyncio.timeout(SECONDS):
        while SlowSessions.loads < 2:
            await asyncio.sleep(0.02)
            await health.is_ready()
    assert SlowSessions.at_once <= 1
    monkeypatch.setattr(SlowSessions, "go_on", None)
    async with asyncio.timeout(SECONDS):
        while not await health.is_ready():
            await asyncio.sleep(0.02)


async def test_channel_layer_that_fails_makes_the_process_unready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Layer:
        async def group_send(self, group: str, message: Any) -> None:
            raise OSError("gone")

    monkeypatch.setattr(channel_layer, "shared", Layer)

    assert (await get("/shop/mcp/readyz"))[0] == 503


async def test_process_that_stops_is_alive_but_not_ready() -> None:
    stopping = shutdown.here(asyncio.get_running_loop())
    await stopping.begin()
    found = [(await get(f"/shop/mcp/{name}"))[0] for name in ("healthz", "readyz")]
    stopping.withdraw()

    assert found == [200, 503]
    assert (await get("/shop/mcp/readyz"))[0] == 200


async def test_health_endpoints_have_url_patterns() -> None:
    patterns = routing.urlpatterns()

    assert any(pattern.resolve("shop/mcp/readyz") for pattern in patterns)
