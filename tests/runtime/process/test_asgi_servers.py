"""ASGI servers that are told later to stop, in the process of the test."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest
import uvicorn

from django_mcp.runtime.process import asgi_servers
from django_mcp.runtime.process.asgi_servers import Uvicorn
from tests.waiting import SECONDS, until

REQUEST = b"GET / HTTP/1.1\r\nHost: testserver\r\nConnection: close\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


async def test_connections_that_nobody_has_accepted_are_served() -> None:
    config = uvicorn.Config(application, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.ensure_future(server.serve([listener]))
    try:
        await until(lambda: server.started)
        # Without a step of the event loop, which would accept them.
        clients = [socket.create_connection(listener.getsockname()) for _ in range(5)]
        for client in clients:
            client.sendall(REQUEST)
        found = asgi_servers.find(server.handle_exit)
        assert isinstance(found, Uvicorn)
        await found.close_listeners()
        answers = [await _read(client) for client in clients]
    finally:
        server.should_exit = True
        await serving

    assert [b"done" in answer for answer in answers] == [True] * 5
    assert listener.fileno() == -1


async def test_process_without_free_descriptors_closes_its_listening_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(listener: socket.socket) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    config = uvicorn.Config(application, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.ensure_future(server.serve([listener]))
    try:
        await until(lambda: server.started)
        client = socket.create_connection(listener.getsockname())
        monkeypatch.setattr(socket.socket, "accept", fail)
        found = asgi_servers.find(server.handle_exit)
        assert isinstance(found, Uvicorn)
        await found.close_listeners()
    finally:
        server.should_exit = True
        await serving
    client.close()

    assert listener.fileno() == -1


async def _read(client: socket.socket) -> bytes:
    reader, writer = await asyncio.open_connection(sock=client)
    async with asyncio.timeout(SECONDS):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_handler_of_another_server_is_called_at_once() -> None:
    assert asgi_servers.find(lambda number, frame: None) is None
