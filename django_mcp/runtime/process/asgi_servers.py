"""ASGI servers that receive the signal to stop later: first they only accept no more connections.

At SIGTERM, daphne breaks off every request, and uvicorn closes connections that it has not read
from yet, where a request may have arrived. So their listening sockets are closed first. The kernel
resets connections that it has made and nobody has accepted: they are accepted just before.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

ARRIVE_WITHIN = 0.3
"""Seconds until the requests of accepted connections have arrived."""
TICK = 0.05


class AsgiServer(ABC):
    finishes_requests: ClassVar[bool]
    """Whether it waits by itself for running requests, once it receives the signal."""

    @abstractmethod
    async def close_listeners(self) -> None:
        """Accept no more connections."""

    @abstractmethod
    async def wait_for_requests(self, seconds: float) -> None:
        """Wait until the requests that have arrived are answered, or for so many seconds."""


class Uvicorn(AsgiServer):
    """Also in gunicorn's worker."""

    finishes_requests = True

    def __init__(self, server: Any) -> None:
        self._server = server
        self._serving: set[asyncio.Task[Any]] = set()

    async def close_listeners(self) -> None:
        loop = asyncio.get_running_loop()
        servers = getattr(self._server, "servers", ())
        # In asyncio, a connection that is accepted needs two iterations of the loop, and fails if
        # its listening socket is closed by then.
        descriptors = [sock.fileno() for server in servers for sock in server.sockets]
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
        await asyncio.sleep(TICK)
        listeners = [socket.socket(fileno=os.dup(descriptor)) for descriptor in descriptors]
        for server in servers:
            server.close()
        # Close all of them before any connection is served.
        waiting = [connection for listener in listeners for connection in _close(listener)]
        for connection in waiting:
            task = asyncio.ensure_future(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Serve a connection, as uvicorn does one that it has accepted itself."""
        server = self._server
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = server.config.http_protocol_class(
                config=server.config,
                server_state=server.server_state,
                app_state=server.lifespan.state,
                _loop=loop,
            )
            return made

        await loop.connect_accepted_socket(protocol, connection, ssl=server.config.ssl)

    async def wait_for_requests(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Daphne(AsgiServer):
    finishes_requests = False

    def __init__(self, reactor: Any) -> None:
        from twisted.internet.interfaces import IListeningPort

        readers = reactor.getReaders()
        self._ports = [each for each in readers if IListeningPort.providedBy(each)]
        servers = (getattr(port.factory, "server", None) for port in self._ports)
        self._servers = [server for server in servers if server is not None]

    async def close_listeners(self) -> None:
        from twisted.internet.error import ConnectionDone
        from twisted.python.failure import Failure

        done = Failure(ConnectionDone())  # type: ignore[no-untyped-call]
        for port in self._ports:
            port.stopReading()
            while _has_connections(port.socket):
                port.doRead()
            # ``stopListening`` closes the socket in the next iteration of the reactor.
            port.socket.close()
            port.connectionLost(done)

    async def wait_for_requests(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline and any(map(self._is_busy, self._servers)):
            await asyncio.sleep(TICK)
        # The last response is sent in the next iterations of the reactor.
        await asyncio.sleep(TICK)

    def _is_busy(self, server: Any) -> bool:
        running = (each.get("application_instance") for each in server.connections.values())
        return any(task is not None and not task.done() for task in running)


def _close(listener: socket.socket) -> list[socket.socket]:
    """Close a listening socket; return the connections that waited at it."""
    waiting = []
    while _has_connections(listener):
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                break
            continue  # Another process was faster, or the client has gone.
        connection.setblocking(False)
        waiting.append(connection)
    listener.close()
    return waiting


EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of ``accept`` that the next attempt would raise, too: what still waits is reset."""


def _has_connections(listener: socket.socket) -> bool:
    """Whether connections wait at a listening socket, which is closed next if there are none.

    ``select`` lets other threads run, which may last for milliseconds; a connection that is made
    meanwhile would be reset. Asking Linux for the length of the queue does not.
    """
    if listener.family in (socket.AF_INET, socket.AF_INET6) and sys.platform == "linux":
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, QUEUE_LENGTH.size)
        (waiting,) = QUEUE_LENGTH.unpack(info)
        return bool(waiting)
    readable, _, _ = select.select([listener], [], [], 0)
    return bool(readable)


QUEUE_LENGTH = struct.Struct("24xI")
"""``tcpi_unacked`` of ``struct tcp_info``: for a listening socket, its connections that wait."""


def find(handler: Callable[..., Any]) -> AsgiServer | None:
    """The server of this process, by its handler of a signal; None for one of another kind."""
    owner = getattr(handler, "__self__", None)
    uvicorn = sys.modules.get("uvicorn.server")
    if uvicorn is not None and isinstance(owner, uvicorn.Server):
        return Uvicorn(owner)
    reactor = sys.modules.get("twisted.internet.reactor")
    if "daphne.server" in sys.modules and reactor is not None and owner is reactor:
        return Daphne(reactor)
    return None
