"""stdio: one message per line, for a client that started this process.

Revisions with and without sessions are served on the same pipe. Only this module reads the real
standard input and writes to the real standard output (see ``guarded_stdio``).

| state of the output | meaning | who moves it |
|---|---|---|
| idle | written messages go to the client at once | ``write``: waiting |
| waiting | lines wait; above MAX_WAITING no message is read | the client reads: idle |
| broken | written messages are dropped | ``give_up``, or an error of the pipe |
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple, cast

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf
from django_mcp.core.auth.base import Principal
from django_mcp.core.frame.transport import StdioTransport
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import RequestId
from django_mcp.core.server.server import Server
from django_mcp.pubsub import bus, switches
from django_mcp.runtime import lifespan
from django_mcp.transports import site
from django_mcp.transports.connection import connection

logger = logging.getLogger("django_mcp")

MAX_WAITING = 1024 * 1024
"""Bytes that wait for the client; with more, no message is read, and handlers that send wait."""
MAX_UNREAD = 64 * MAX_WAITING
"""Bytes that may wait for a client which reads nothing. Its connection is then closed."""


class StdoutSink:
    """Writes as much as the client accepts; if ``out`` does not block, the rest follows later."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._waiting = bytearray()
        self._written = asyncio.Event()
        self.is_broken = False
        """Whether the client has closed its side, or was given up."""
        self.reading: asyncio.Future[None] | None = None
        """Reads until the client closes its side."""

    @property
    def is_stuck(self) -> bool:
        return self.is_broken or bool(self._waiting)

    def end(self) -> None:
        if self.reading is not None:
            self.reading.cancel()

    def write(self, message: bytes, /) -> None:
        """Write one message as a line (T-STDIO-01, -02)."""
        line = message + b"\n"
        if not self._waiting:
            line = line[self._write(line) :]
            if line and not self.is_broken:
                asyncio.get_running_loop().add_writer(self._out, self._write_waiting)
        if not self.is_broken:
            self._waiting += line
        if len(self._waiting) > MAX_UNREAD:
            logger.warning("The connection is closed because its client does not read it")
            self.give_up()
            self.end()

    async def wait_for_room(self, most: int | None = None) -> None:
        """Wait until at most so many bytes wait for the client, by default MAX_WAITING."""
        while len(self._waiting) > (MAX_WAITING if most is None else most):
            self._written.clear()
            await self._written.wait()

    def give_up(self) -> None:
        """Drop waiting messages, and all later ones."""
        self.is_broken = True
        if self._waiting:
            self._waiting.clear()
            asyncio.get_running_loop().remove_writer(self._out)
            self._written.set()

    def _write(self, data: bytes | bytearray) -> int:
        """Write as much as the pipe takes; return how many bytes need not be written again.

        These are all of them if the client has gone.
        """
        try:
            accepted = 0 if self.is_broken else self._out.write(data)
            self._out.flush()
        except OSError:
            self.is_broken = True
        return len(data) if self.is_broken else accepted or 0

    def _write_waiting(self) -> None:
        del self._waiting[: self._write(self._waiting)]
        if not self._waiting:
            asyncio.get_running_loop().remove_writer(self._out)
        self._written.set()


class StdioConnection(connection.Connection):
    def __init__(
        self,
        server: Server,
        out: BinaryIO,
        principal: Principal | None = None,
        *,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """``ended`` is called as soon as either side has ended the connection."""
        self._ended = ended
        principal = principal or Principal(scheme="stdio", user=AnonymousUser())
        transport = StdioTransport(env=dict(os.environ), os_pid=os.getpid())
        self._lines = StdoutSink(out)
        super().__init__(server, self._lines, principal, transport, scheme="stdio")

    async def serve(self, lines: AsyncIterator[bytes | LongLine]) -> None:
        """Answer lines, many concurrently, until the client or the server closes the connection."""
        reading = asyncio.ensure_future(self._read(lines))
        self._lines.reading = reading
        try:
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.result()
        finally:
            reading.cancel()
            self._ended()
            await self.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(connection.grace_period()):
                    await self._lines.wait_for_room(0)
            self._lines.give_up()

    async def flush(self) -> None:
        await asyncio.sleep(0)
        await self._lines.wait_for_room()

    async def _read(self, lines: AsyncIterator[bytes | LongLine]) -> None:
        async for line in lines:
            await self._lines.wait_for_room()
            if self._lines.is_broken:
                return
            if isinstance(line, LongLine):
                message = f"A message may have at most {conf.get().max_body_size} bytes"
                self._reject(InvalidRequest(message, request_id=line.request_id))
            elif line.strip():
                self.receive(line)


async def read_lines(source: BinaryIO, limit: int) -> AsyncIterator[bytes | LongLine]:
    """The lines of a file or pipe; of one longer than ``limit`` bytes, only its ends.

    They end as well where its peer breaks off.
    """
    reader = asyncio.StreamReader(limit=limit)
    loop = asyncio.get_running_loop()
    if not await _is_watched(source, reader, loop):
        threading.Thread(target=_feed, args=(source, reader, loop), daemon=True).start()
    # A socket raises it where its peer has closed it without reading all that was sent.
    with suppress(OSError):
        while line := await _line(reader):
            yield line


async def _is_watched(
    source: BinaryIO, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop
) -> bool:
    """Let the event loop read ``source``; return False for a file or device, and on Windows."""
    # asyncio takes /dev/null for a pipe, and epoll refuses it later.
    if stat.S_ISCHR(os.fstat(source.fileno()).st_mode):
        return False
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    except (ValueError, OSError, NotImplementedError):
        return False
    return True


def _feed(source: BinaryIO, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    while data := os.read(source.fileno(), 65536):
        loop.call_soon_threadsafe(reader.feed_data, data)
    loop.call_soon_threadsafe(reader.feed_eof)


async def _line(reader: asyncio.StreamReader) -> bytes | LongLine:
    begin = b""
    end = b""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            part = await reader.readexactly(error.consumed)
            begin = begin or part[:EDGE]
            end = (end + part)[-EDGE:]
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
        return LongLine(begin, (end + line)[-EDGE:]) if begin else line


EDGE = 512
"""Bytes of each end of a long line: an id has at most 256 characters."""
_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]*")\s*'
_FIRST_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_LAST_ID = re.compile(rb",\s*" + _ID + rb"\}\s*\Z")
_METHOD = re.compile(rb'"method"\s*:')


class LongLine(NamedTuple):
    """The ends of a line that is longer than a message may be, and is not kept."""

    begin: bytes
    end: bytes

    @property
    def request_id(self) -> RequestId | None:
        """The id of a request, whose client waits for the response.

        Clients write it first, after ``jsonrpc``, or last. There it belongs to the message itself:
        a quote inside of a string would have a backslash.
        """
        member = _FIRST_ID.match(self.begin) or _LAST_ID.search(self.end)
        if member is None or not _METHOD.search(self.begin + self.end):
            return None
        with suppress(McpError):
            identity = jsonrpc.decode(member[1])
            return identity if jsonrpc.is_id(identity) else None
        return None


@contextmanager
def guarded_stdio() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The real standard input and output, for messages only.

    Handlers and child processes find an empty input. Prints and logs go to standard error, and so
    does what was printed before and is still in Python's buffer.
    """
    stdin = os.dup(0)
    stdout = os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout.flush()
    printed = sys.stdout
    sys.stdout = sys.stderr
    try:
        with os.fdopen(os.dup(stdin), "rb", buffering=0) as source, _opened(stdout) as out:
            yield source, out
    finally:
        sys.stdout = printed
        printed.flush()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(stdin)
        os.close(stdout)


@contextmanager
def _opened(stdout: int) -> Iterator[BinaryIO]:
    """The output as a file object. A pipe does not block; a file does, but never for long."""
    if sys.platform == "win32" or stat.S_ISREG(os.fstat(stdout).st_mode):
        with os.fdopen(os.dup(stdout), "wb") as out:
            yield out
        return
    os.set_blocking(stdout, False)
    try:
        with os.fdopen(os.dup(stdout), "wb", buffering=0) as pipe:
            yield cast(BinaryIO, pipe)
    finally:
        os.set_blocking(stdout, True)


async def serve(
    server: Server,
    source: BinaryIO,
    out: BinaryIO,
    principal: Principal | None = None,
    *,
    ended: Callable[[], object],
) -> None:
    """Serve until the connection is ended, and call ``ended`` then."""
    switches.follow()
    await site.start(server)
    connection = StdioConnection(server, out, principal, ended=ended)
    try:
        await connection.serve(read_lines(source, conf.get().max_body_size))
    finally:
        await lifespan.stop(server)
        await bus.end()
