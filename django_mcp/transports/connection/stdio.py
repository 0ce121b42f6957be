"""stdio: one message a line, in and out, for a client that started this process.

Both eras are served on the one pipe. Only this file writes to the real standard output; what
anybody else prints goes to standard error (see ``guarded_stdout``).
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
    """The way out: whole lines, one after the other, whoever writes them."""

    is_stuck = False
    """Writing blocks until it is taken, or fails."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.reading: asyncio.Future[None] | None = None
        """What goes on until the client closes its side."""

    def end(self) -> None:
        """Read no more."""
        if self.reading is not None:
            self.reading.cancel()

    def write(self, message: bytes, /) -> None:
        """Write one message as a line (T-STDIO-01, -02)."""
        self._out.write(message + b"\n")
        self._out.flush()


class StdioConnection(connection.Connection):
    """One client's conversation with one Server over a pair of pipes."""

    def __init__(
        self, server: Server, out: BinaryIO, *, principal: Principal | None = None
    ) -> None:
        caller = frames.RequestOrigin(
            principal=principal or Principal(scheme="stdio", user=AnonymousUser()),
            transport=StdioTransport(env=dict(os.environ), os_pid=os.getpid()),
        )
        self._lines = StdoutSink(out)
        super().__init__(server, self._lines, caller, scheme="stdio")

    async def serve(self, lines: AsyncIterator[bytes]) -> None:
        """Answer line after line, many at once, until the client closes its side, or we do."""
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
    """The lines of standard input; one longer than ``limit`` bytes is answered as unreadable."""
    reader = asyncio.StreamReader(limit=limit)
    await _connect(reader)
    while line := await _line(reader):
        yield line


async def _connect(reader: asyncio.StreamReader) -> None:
    """Let ``reader`` read standard input: a pipe or, where no event loop can, by a thread."""
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    except (ValueError, OSError, NotImplementedError):
        # It is a file, or we are on Windows.
        threading.Thread(target=_feed, args=(reader, loop), daemon=True).start()


def _feed(reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    while data := os.read(sys.stdin.fileno(), CHUNK):
        loop.call_soon_threadsafe(reader.feed_data, data)
    loop.call_soon_threadsafe(reader.feed_eof)


CHUNK = 65536
"""Bytes which a thread reads at once."""


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line, which at the end may lack its newline; nothing after the end."""
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
"""What stands for such a line: it is no JSON, and so it is refused like other noise."""


@contextmanager
def guarded_stdout() -> Iterator[BinaryIO]:
    """The real standard output, for messages alone: prints and logs go to standard error.

    What was printed before this point and still waits in Python's buffer goes there as well.
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
    """Serve ``server`` to the client on standard input, writing messages to ``out``."""
    await lifespan.start(server)
    try:
        await StdioConnection(server, out).serve(stdin_lines(conf.get().max_body_size))
    finally:
        await lifespan.stop(server)
