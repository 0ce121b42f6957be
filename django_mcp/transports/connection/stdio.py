"""stdio: one message per line, for a client that started this process.

Revisions with and without sessions are served on the same pipe. Only this module writes to the
real standard output; other output goes to standard error (see ``guarded_stdout``).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf
from django_mcp.auth.base import Principal
from django_mcp.frame.transport import StdioTransport
from django_mcp.runtime import lifespan
from django_mcp.server.server import Server
from django_mcp.transports import frames
from django_mcp.transports.connection import connection


class StdoutSink:
    is_stuck = False
    """Writing blocks until the line is accepted, or fails."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.reading: asyncio.Future[None] | None = None
        """Reads until the client closes its side."""

    def end(self) -> None:
        if self.reading is not None:
            self.reading.cancel()

    def write(self, message: bytes, /) -> None:
        """Write one message as a line (T-STDIO-01, -02)."""
        self._out.write(message + b"\n")
        self._out.flush()


class StdioConnection(connection.Connection):
    def __init__(self, server: Server, out: BinaryIO, principal: Principal | None = None) -> None:
        principal = principal or Principal(scheme="stdio", user=AnonymousUser())
        transport = StdioTransport(env=dict(os.environ), os_pid=os.getpid())
        self._lines = StdoutSink(out)
        origin = frames.RequestOrigin(principal, transport)
        super().__init__(server, self._lines, origin, scheme="stdio")

    async def serve(self, lines: AsyncIterator[bytes]) -> None:
        """Answer lines, many concurrently, until the client or the server closes the connection."""
        self._lines.reading = reading = asyncio.ensure_future(self._read(lines))
        try:
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.result()
        finally:
            reading.cancel()
            await self.close()

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            if line.strip():
                self.receive(line)


async def stdin_lines(limit: int) -> AsyncIterator[bytes]:
    """The lines of standard input; one longer than ``limit`` bytes is answered as invalid."""
    reader, loop = asyncio.StreamReader(limit=limit), asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    except (ValueError, OSError, NotImplementedError):
        # Standard input is a file, or this is Windows: the event loop cannot read it.
        threading.Thread(target=_feed, args=(reader, loop), daemon=True).start()
    while line := await _line(reader):
        yield line


def _feed(reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    while data := os.read(sys.stdin.fileno(), 65536):
        loop.call_soon_threadsafe(reader.feed_data, data)
    loop.call_soon_threadsafe(reader.feed_eof)


async def _line(reader: asyncio.StreamReader) -> bytes:
    is_too_long = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            is_too_long = True
            await reader.readexactly(error.consumed)
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
        return TOO_LONG if is_too_long else line


TOO_LONG = b"A line that is longer than a message may be"
"""Replaces such a line: it is not JSON, and is rejected like other invalid input."""


@contextmanager
def guarded_stdout() -> Iterator[BinaryIO]:
    """The real standard output, for messages only: prints and logs go to standard error.

    So does what was printed before and is still in Python's buffer.
    """
    real = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout.flush()
    printed, sys.stdout = sys.stdout, sys.stderr
    try:
        yield real
    finally:
        sys.stdout = printed
        printed.flush()
        real.flush()
        os.dup2(real.fileno(), 1)
        real.close()


async def serve(server: Server, out: BinaryIO) -> None:
    await lifespan.start(server)
    try:
        await StdioConnection(server, out).serve(stdin_lines(conf.get().max_body_size))
    finally:
        await lifespan.stop(server)
