"""The ASGI driver: each message is available as soon as the application sends it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_mcp.testing.asgi import Exchange, http_scope, perform

START: dict[str, Any] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"x-a", b"1")],
}


def piece(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Send back the request body, part by part."""
    await send(START)
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send(piece(message.get("body", b"")))
    await send(piece(b"!", more=False))


async def test_perform_runs_the_application_in_the_current_task() -> None:
    tasks = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        tasks.append(asyncio.current_task())
        await echo(scope, receive, send)

    reply = await perform(application, http_scope(), [b"a", b"b"])

    assert (reply.status, reply.body, reply.media_type) == (200, b"ab!", "text/plain")
    assert reply.headers["x-a"] == "1"
    assert tasks == [asyncio.current_task()]


async def test_response_is_read_while_it_is_sent() -> None:
    async with Exchange(echo, http_scope(), None) as exchange:
        assert await exchange.status() == 200
        exchange.send(b"a", more=True)
        assert await exchange.read() == b"a"
        exchange.send(b"b")
        assert await exchange.body() == b"b!"
        assert await exchange.read() is None
        await exchange.wait_closed()


async def test_events_split_across_chunks_are_parsed() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        for part in (b"data: 1\n\nda", b"ta: 2\n\n: comment\n\n", b"data: 3\n\n"):
            await send(piece(part))
        await send(piece(b"", more=False))

    async with Exchange(application, http_scope()) as exchange:
        assert [event.data async for event in exchange.events()] == ["1", "2", "3"]
        assert await exchange.event() is None


async def test_application_error_is_raised_to_the_reader() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        raise RuntimeError("Oh")

    async with Exchange(application, http_scope()) as exchange:
        assert await exchange.status() == 200
        with pytest.raises(RuntimeError, match="Oh"):
            await exchange.read()
        with pytest.raises(RuntimeError, match="Oh"):
            await exchange.wait_closed()
        raised = exchange

    assert raised.has_started


async def test_unread_application_error_is_raised_on_exit() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("Oh")

    with pytest.raises(RuntimeError, match="Oh"):
        async with Exchange(application, http_scope()):
            await asyncio.sleep(0)


async def test_incomplete_response_raises_connection_error() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)

    async with Exchange(application, http_scope()) as exchange:
        with pytest.raises(ConnectionError, match="without completing its response"):
            await exchange.body()


async def test_exit_disconnects_and_cancels_the_application() -> None:
    received: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        try:
            while True:
                received.append((await receive())["type"])
        finally:
            received.append("ended")

    async with Exchange(application, http_scope()) as exchange:
        exchange.disconnect()
        exchange.disconnect()
        for _ in range(3):
            await asyncio.sleep(0)

    assert received == ["http.request", "http.disconnect", "ended"]


async def test_application_waits_for_a_client_that_does_not_read() -> None:
    sent: list[int] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        for number in range(3):
            await send(piece(b"x", more=number < 2))
            sent.append(number)

    async with Exchange(application, http_scope()) as exchange:
        exchange.stop_reading()
        for _ in range(10):
            await asyncio.sleep(0)
        assert sent == []
        exchange.resume_reading()
        assert await exchange.body() == b"xxx"


def test_http_scope_matches_the_scope_of_a_server() -> None:
    scope = http_scope("GET", "/a", headers={"X-A": "é", "Host": "other"}, query="b=1")

    assert scope["headers"] == [(b"x-a", b"\xe9"), (b"host", b"other")]
    assert (scope["method"], scope["path"], scope["query_string"]) == ("GET", "/a", b"b=1")
    assert http_scope(scheme="https")["server"] == ("testserver", 443)
    assert http_scope()["headers"] == [(b"host", b"testserver")]
