"""Handlers that end the process, or that hold up its end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from django_mcp import Frame, Server, registry, routing
from tests.by_hand.processes import call, environment, request, stdio, worker
from tests.event_loops import outcome
from tests.memory_stores import Configure, configure
from tests.processes import ROOT
from tests.spec import spec
from tests.waiting import SECONDS, happens
from tests.wire.asgi import AsgiClient
from tests.wire.messages import NEWEST_SESSION, STATELESS, encoded, text_of

__all__ = ["configure"]

LONG = 120
"""Seconds of a handler that the end of its process does not await."""
ENDS = SECONDS
"""Seconds within which the process ends, on a busy machine."""


async def test_system_exit_in_an_async_handler_is_a_failed_handler_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "exit_in_async"})
        pong = await server.ask(2, "ping")

    assert answer["result"]["isError"] is True
    assert pong["result"] == {}


@spec("answers-01")
async def test_system_exit_in_an_async_handler_is_a_failed_handler_over_http(
    tmp_path: Path,
) -> None:
    async with worker() as site:
        session = await site.initialize()
        answer = await outcome(site.post(call(1, "exit_in_async"), session))
        assert not isinstance(answer, BaseException), f"The worker has ended: {answer!r}"
        pong = await site.post(request(2, "ping"), session)

    assert answer.result["isError"] is True
    assert pong.result == {}


@spec("answers-07")
async def test_child_process_cannot_read_the_messages_of_the_client() -> None:
    pings = range(100, 120)
    async with stdio() as server:
        await server.initialize()
        server.write(call(1, "child_reads_stdin"))
        await server.until(method="notifications/message")
        for number in pings:
            server.write(request(number, "ping"))
            await asyncio.sleep(0.05)
        found = await server.until(id=1)
        last = await outcome(server.ask(200, "ping"))

    assert text_of(found["result"]) == "b''"
    assert not isinstance(last, BaseException)
    assert {message.get("id") for message in server.seen} >= {*pings}


@spec("answers-09")
@pytest.mark.parametrize("how", ["end of input", signal.SIGTERM, signal.SIGINT])
async def test_stdio_process_ends_while_a_sync_handler_runs(how: Any) -> None:
    async with stdio() as server:
        await server.initialize()
        server.write(call(1, "block", {"seconds": LONG}))
        await server.until(method="notifications/message")
        if how == "end of input":
            server.close()
        else:
            server.process.send_signal(how)
        ended = await outcome(server.ended(ENDS))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


async def test_stdio_process_ends_while_a_handler_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROBUSTNESS_EXIT_WITHIN", "1")
    async with stdio(SHUTDOWN_TIMEOUT=0.1) as server:
        await server.initialize()
        server.write(call(1, "go_on", {"seconds": LONG}))
        await server.until(method="notifications/message")
        server.close()
        ended = await outcome(server.ended(ENDS))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


async def test_stdio_process_ends_when_the_client_closed_its_output() -> None:
    async with stdio() as server:
        await server.initialize()
        assert server.process.stdout is not None
        server.process.stdout._transport.close()  # type: ignore[attr-defined]
        for number in range(3):
            server.write(request(number, "ping"))
            await asyncio.sleep(0.1)
        ended = await outcome(server.ended(ENDS))

    assert not isinstance(ended, TimeoutError), "The process serves nobody"


async def test_handler_finds_an_empty_standard_input_over_stdio() -> None:
    async with stdio() as server:
        await server.initialize()
        answer = await server.ask(1, "tools/call", {"name": "read_input"})
        pong = await server.ask(2, "ping")

    assert text_of(answer["result"]) == "EOFError"
    assert pong["result"] == {}


@pytest.mark.nightly
@pytest.mark.parametrize("tool", ["block", "wait"])
async def test_http_worker_ends_while_a_handler_runs(tmp_path: Path, tool: str) -> None:
    async with worker(SHUTDOWN_TIMEOUT=1) as site:
        session = await site.initialize()
        async with site.stream(call(1, tool, {"seconds": LONG}), session) as stream:
            await stream.message()
            site.stop()
            ended = await outcome(site.ended(ENDS))

    assert not isinstance(ended, TimeoutError), "The process waits for its handler"


@pytest.mark.parametrize("version", [STATELESS, NEWEST_SESSION])
@pytest.mark.parametrize("tool", ["block", "wait"])
async def test_running_call_is_cancelled_when_the_lifespan_ends(
    version: str, tool: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.registered, "servers", {})
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    configure(SHUTDOWN_TIMEOUT=0.05)
    server, go_on = Server("shop"), threading.Event()
    ended: list[str | None] = []

    @server.tool
    async def wait(frame: Frame) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(frame.cancellation.reason)
        return "done"

    @server.tool
    def block(frame: Frame) -> str:
        frame.cancellation.on_request(lambda: ended.append(frame.cancellation.reason))
        go_on.wait(SECONDS)
        return "done"

    peer = AsgiClient(server, version)
    if version != STATELESS:
        await peer.initialize()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "lifespan.startup"})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("Only HTTP is served here, as by Django")

    mounted = routing.mount(pages)
    living = asyncio.ensure_future(mounted({"type": "lifespan"}, messages.get, send))
    async with peer.open_post(peer.call(tool)) as call:
        await asyncio.sleep(0.1)
        messages.put_nowait({"type": "lifespan.shutdown"})
        response = await call.reply()
    go_on.set()
    await living

    assert response.error["message"] == "The server is stopping"
    assert ended == ["The server is stopping"]
    assert sent[-1] == {"type": "lifespan.shutdown.complete"}


@pytest.mark.nightly
async def test_short_call_is_answered_when_the_http_worker_stops(tmp_path: Path) -> None:
    async with worker(SHUTDOWN_TIMEOUT=3) as site:
        session = await site.initialize()
        async with site.stream(call(1, "wait", {"seconds": 0.5}), session) as stream:
            await stream.message()
            site.stop()
            answer = await stream.message()

    assert answer is not None
    assert text_of(answer["result"]) == "done"


@pytest.mark.nightly
@spec("answers-08")
def test_client_that_does_not_read_holds_up_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "mcp_stdio"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (
            call(1, "large", {"size": 300_000}, version=STATELESS),
            call(2, "touch", {"path": str(made)}, version=STATELESS),
        ):
            process.stdin.write(encoded(message) + b"\n")
            process.stdin.flush()
            process.stdout.peek(1)  # type: ignore[attr-defined]
        was_made = asyncio.run(happens(made.exists, 3))
    finally:
        process.kill()
        process.communicate()

    assert was_made, "Nothing is answered while the client does not read"
