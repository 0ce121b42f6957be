"""Responses of clients, which reach another worker than the one that waits for them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from django_mcp import Server, registry, stores
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol.jsonrpc import Response
from django_mcp.pubsub import bus, catch_up
from django_mcp.pubsub.pending_requests import (
    ExpectedResponse,
    PendingRequests,
    ResponseRoute,
    deliver,
)
from django_mcp.stores.memory import MemoryEventStore
from tests.memory_stores import configure
from tests.pubsub.failing_store import fail_first
from tests.pubsub.fake_layer import FakeLayer, layer
from tests.waiting import until

__all__ = ["configure", "layer"]


@pytest.fixture(autouse=True)
def _other_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver responses as a worker does which has the store in common with the one that waits."""
    monkeypatch.setattr(MemoryEventStore, "is_shared", True)
    monkeypatch.setattr(catch_up, "INTERVAL", 0.02)
    monkeypatch.setattr(ExpectedResponse, "deliver_here", lambda expected, payload: False)


@pytest.fixture
def route() -> ResponseRoute:
    session = Session(id="secret", server="shop", principal="ann", version="2025-11-25")
    server = Server("shop")
    registry.configure(server)
    return ResponseRoute(server, session)


class Waiting:
    """A call that waits for its client."""

    def __init__(self, route: ResponseRoute) -> None:
        self.sent: list[dict[str, Any]] = []
        requests = PendingRequests()
        waiting = requests.send_request(route, self.sent.append, "ping", {}, timeout=10)
        self.task = asyncio.ensure_future(waiting)

    async def response(self) -> Response:
        await until(lambda: self.sent)
        return Response(self.sent[0]["id"], error=None, result={"said": "secret word"})


async def test_response_is_found_by_its_hint(
    route: ResponseRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "INTERVAL", 1000.0)
    waiting = Waiting(route)
    assert await deliver(route, await waiting.response())
    assert await waiting.task == {"said": "secret word"}


@pytest.mark.parametrize("error", [None, ConnectionError("away")])
async def test_response_is_found_in_the_store_without_a_hint(
    route: ResponseRoute, layer: FakeLayer, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "publish_here", lambda name, message: False)
    layer.error = error
    waiting = Waiting(route)
    assert await deliver(route, await waiting.response())
    assert await waiting.task == {"said": "secret word"}


async def test_layer_that_hangs_holds_up_neither_the_poster_nor_the_call(
    route: ResponseRoute, layer: FakeLayer
) -> None:
    waiting = Waiting(route)
    response = await waiting.response()
    layer.hangs = True
    async with asyncio.timeout(0.9):  # Less than the limit of a hint.
        assert await deliver(route, response)
        assert await waiting.task == {"said": "secret word"}


async def test_stored_response_is_encrypted(
    route: ResponseRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[str] = []
    append = stores.events().append

    async def note(session: str, stream: str, data: Any) -> int:
        stored.extend(data)
        return await append(session, stream, data)

    monkeypatch.setattr(stores.events(), "append", note)
    waiting = Waiting(route)
    await deliver(route, await waiting.response())
    await waiting.task
    assert len(stored) == 1
    assert "secret word" not in stored[0]


async def test_forged_response_in_the_store_is_ignored(route: ResponseRoute) -> None:
    waiting = Waiting(route)
    response = await waiting.response()
    name = f"response.{route.name_in(response.id)}"
    await stores.events().append(route.session.address, name, ['{"result": {"said": "forged"}}'])
    await asyncio.sleep(0.1)
    assert not waiting.task.done()
    await deliver(route, response)
    assert await waiting.task == {"said": "secret word"}


async def test_response_that_cannot_be_stored_is_refused_at_once(
    route: ResponseRoute, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> int:
        raise ConnectionError("no store")

    waiting = Waiting(route)
    response = await waiting.response()
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "django_mcp"):
        patched.setattr(stores.events(), "append", fail)
        assert await deliver(route, response) is False
    assert "cannot be stored" in caplog.text
    assert await deliver(route, response)  # The client sends it again.
    assert await waiting.task == {"said": "secret word"}


async def test_response_that_could_not_be_read_is_read_again(
    route: ResponseRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(route)
    response = await waiting.response()
    fail_first(monkeypatch, "after", 3)
    await deliver(route, response)
    assert await waiting.task == {"said": "secret word"}


async def test_nothing_is_followed_after_the_response(route: ResponseRoute) -> None:
    waiting = Waiting(route)
    await deliver(route, await waiting.response())
    await waiting.task
    assert catch_up.here()._followed == {}
    assert not bus.here().is_used
