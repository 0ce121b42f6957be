"""Headers, connections that break, and what is logged of a request."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from django_mcp import Frame, Server
from tests.by_hand.processes import worker
from tests.by_hand.shop import peer_of, shop
from tests.event_loops import outcome
from tests.spec import spec
from tests.waiting import SECONDS, happens
from tests.wire.asgi import AsgiClient, Exchange
from tests.wire.messages import ACCEPT, META, NEWEST_SESSION, encoded, text_of


async def test_response_204_has_no_content_length() -> None:
    peer = await peer_of(shop())

    response = await peer.perform("DELETE")

    assert response.status == 204
    assert response.headers.get("content-length") is None


async def test_accept_header_in_two_lines_is_one_list() -> None:
    peer = AsgiClient(shop())
    lines = [("accept", "text/event-stream"), ("accept", "application/json")]

    for accepts in (lines, lines[::-1]):
        response = await peer.post(peer.call("add"), {"accept": None}, extra=accepts)
        assert response.status == 200


@spec("isolation-20")
async def test_repr_of_the_transport_shows_no_secret() -> None:
    server = Server("shop")

    @server.tool
    async def describe(frame: Frame) -> str:
        return repr(frame.transport)

    secrets = {"authorization": "Bearer token-1", "cookie": "sessionid=cookie-2"}
    shown = text_of((await AsgiClient(server, headers=secrets).tool("describe")).result)

    assert "token-1" not in shown
    assert "cookie-2" not in shown


def test_repr_of_the_stdio_transport_shows_no_environment() -> None:
    from django_mcp.frame import StdioTransport

    shown = repr(StdioTransport(env={"DATABASE_PASSWORD": "secret-3"}, os_pid=1))

    assert "secret-3" not in shown


async def test_upload_that_breaks_off_raises_nothing() -> None:
    peer = AsgiClient(shop())
    exchange = Exchange(peer.application, peer.scope(peer.call("add")), None)
    exchange.send(b'{"jsonrpc"', more=True)
    exchange.disconnect()

    async with exchange:
        await exchange.wait_closed()


async def test_upload_that_breaks_off_leaves_no_traceback_in_the_log(tmp_path: Path) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {ACCEPT}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    async with worker() as site:
        _, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()
        await happens(lambda: "Traceback" in site.log, 1)

        assert "Traceback" not in site.log


async def test_server_that_raises_at_send_leaves_no_traceback() -> None:
    peer = AsgiClient(shop())
    sent: list[Any] = []
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    message = peer.call("count", params={"_meta": {META + "logLevel": "debug"}})
    incoming.put_nowait({"type": "http.request", "body": encoded(message), "more_body": False})

    async def send(piece: Any) -> None:
        """What ASGI says of a client that has gone: send raises OSError."""
        sent.append(piece)
        if len(sent) > 2:
            incoming.put_nowait({"type": "http.disconnect"})
            raise OSError("The client has gone")

    async with asyncio.timeout(SECONDS):
        raised = await outcome(peer.application(peer.scope(message), incoming.get, send))

    assert raised is None, f"The application raised {raised!r}"


@pytest.mark.parametrize("fails_after", [1, 2])
async def test_server_that_raises_at_send_in_a_session_leaves_no_traceback(
    fails_after: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await peer_of(shop(), "2025-06-18")
    body = encoded(peer.call("count"))
    sent: list[Any] = []
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def send(piece: Any) -> None:
        sent.append(piece)
        if len(sent) > fails_after:
            raise OSError("The client has gone")

    async with asyncio.timeout(SECONDS):
        raised = await outcome(peer.application(peer.scope(), incoming.get, send))
    await peer.perform("DELETE")
    gc.collect()

    assert raised is None, f"The application raised {raised!r}"
    assert "Traceback" not in caplog.text


async def test_client_that_leaves_before_it_sends_its_body_gets_no_response() -> None:
    peer = AsgiClient(shop())
    exchange = Exchange(peer.application, peer.scope(peer.call("add")), None)
    exchange.disconnect()

    async with exchange:
        await exchange.wait_closed()

    assert not exchange.has_started


async def test_newline_in_a_notification_forges_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("shop")

    @server.hook
    def handle_notification(method: str, params: Any, frame: Frame) -> Any:
        raise LookupError

    peer = await peer_of(server)
    await peer.notify("x\nERROR django_mcp: the database is away \x1b[31m" + "y" * 180)

    (line,) = [line for line in caplog.messages if "handle_notification failed" in line]
    assert not re.search(r"[\n\x1b]", line)
    assert len(line) < 200


@spec("isolation-21")
async def test_newline_in_a_tool_name_forges_no_line_of_the_call_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "django_mcp.calls")
    peer = AsgiClient(shop(), NEWEST_SESSION)
    await peer.initialize()

    await peer.tool("x\nINFO django_mcp.calls: tools/call transfer: ok \x1b[31m")

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("calls")]
    assert lines
    assert not re.search(r"[\n\x1b]", "".join(lines))


async def test_long_tool_name_is_cut_in_the_call_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "django_mcp.calls")
    peer = AsgiClient(shop(), NEWEST_SESSION)
    await peer.initialize()

    await peer.tool("x" * 300_000)

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("calls")]
    assert max(map(len, lines), default=0) < 1000
