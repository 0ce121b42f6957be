"""When the events of a stream that answers a request are passed to the ASGI server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from django_mcp import Server, registry
from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.testing.asgi import http_scope
from django_mcp.transports.http.exchange import COALESCING_TIME, LARGE, YIELD_EVERY, HttpExchange
from django_mcp.transports.http.sse_response import StreamWriter
from tests.waiting import SECONDS


class Recorder:
    """An ASGI server: the events of each body that it was sent."""

    def __init__(self) -> None:
        self.bodies: list[list[Any]] = []

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            events = message["body"].decode().split("\n\n")[:-1]
            self.bodies.append([json.loads(event.removeprefix("data: ")) for event in events])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test writes follows at once, also on a slow machine."""
    monkeypatch.setattr("django_mcp.transports.http.exchange.COALESCING_TIME", 60.0)


async def _report(exchange: HttpExchange, steps: range) -> None:
    for step in steps:
        exchange.write({"step": step})
        await exchange.flush()


def exchange_over(server: Recorder) -> HttpExchange:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    mcp_server = Server("made for a test")
    authentication = registry.authentication_by(mcp_server, [AnonymousAuthentication()])
    return HttpExchange(mcp_server, authentication, http_scope(), receive, server.send)


def _steps(*numbers: int) -> list[dict[str, int]]:
    return [{"step": number} for number in numbers]


async def test_first_event_is_sent_before_flush_returns(at_once: None) -> None:
    server = Recorder()

    await _report(exchange_over(server), range(1))

    assert server.bodies == [_steps(0)]


async def test_events_which_follow_at_once_are_sent_together_when_the_handler_waits(
    at_once: None,
) -> None:
    server = Recorder()

    await _report(exchange_over(server), range(4))
    before = list(server.bodies)
    async with asyncio.timeout(SECONDS):
        while len(server.bodies) < 2:
            await asyncio.sleep(0)

    assert before == [_steps(0)]
    assert server.bodies == [_steps(0), _steps(1, 2, 3)]


async def test_event_after_a_pause_is_sent_before_flush_returns() -> None:
    server = Recorder()
    exchange = exchange_over(server)

    await _report(exchange, range(1))
    await asyncio.sleep(4 * COALESCING_TIME)
    await _report(exchange, range(1, 2))

    assert server.bodies == [_steps(0), _steps(1)]


async def test_handler_that_never_waits_sends_every_so_many_events(at_once: None) -> None:
    server = Recorder()

    await _report(exchange_over(server), range(2 * YIELD_EVERY))

    assert [len(body) for body in server.bodies] == [1, YIELD_EVERY - 1, YIELD_EVERY]


async def test_large_event_is_sent_before_flush_returns(at_once: None) -> None:
    server = Recorder()
    exchange = exchange_over(server)

    await _report(exchange, range(1))
    exchange.write({"text": "x" * LARGE})
    await exchange.flush()

    assert len(server.bodies) == 2


async def test_events_which_wait_are_sent_before_the_result(at_once: None) -> None:
    server = Recorder()
    exchange = exchange_over(server)

    await _report(exchange, range(3))
    await exchange.answer(b'{"result": {}}')

    assert server.bodies == [_steps(0), _steps(1, 2), [{"result": {}}]]


async def test_events_that_are_held_back_are_sent_before_the_end() -> None:
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    writer = StreamWriter(send, asyncio.get_running_loop())
    writer.hold()
    writer.write(b"held")
    ending = asyncio.create_task(writer.end(b"last"))
    await asyncio.sleep(0.01)
    assert bodies == []
    writer.resume()
    await ending
    assert bodies == [b"", b"held", b"last"]


async def test_held_stream_of_a_client_that_has_gone_ends() -> None:
    async def send(message: Any) -> None:
        raise AssertionError("Nothing is sent")

    writer = StreamWriter(send, asyncio.get_running_loop())
    writer.hold()
    writer.write(b"held")
    writer.lose()
    await asyncio.wait_for(writer.end(b"last"), SECONDS)
    writer.resume()
    await asyncio.sleep(0)
