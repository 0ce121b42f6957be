"""stdio: one message a line, in and out, for a client that started this process.

Both eras are served on the one pipe. Only this file writes to the real standard output; what
anybody else prints goes to standard error (see ``guarded_stdout``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

from django.contrib.auth.models import AnonymousUser

from django_mcp import conf, dispatch, threads, undo
from django_mcp.auth.base import Principal
from django_mcp.dispatch import Reply
from django_mcp.frame import Frame, StdioTransport
from django_mcp.protocol import envelope, jsonrpc
from django_mcp.protocol.errors import InvalidRequest, McpError
from django_mcp.protocol.headers import Mirrored
from django_mcp.protocol.jsonrpc import Notification, Request, RequestId, Response
from django_mcp.protocol.revisions import BY_VERSION, NEWEST, Opening, Revision
from django_mcp.server import Server
from django_mcp.session import Session
from django_mcp.stores.base import pack, unpack
from django_mcp.transports import base

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

GRACE = 1.0
"""Seconds that running calls are given to end after the client has closed its side."""


class Pipe:
    """The way out: whole lines, one after the other, whoever writes them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, line: bytes) -> None:
        """Write one message, which is a whole line (T-STDIO-01, -02)."""
        self._out.write(line)
        self._out.flush()


class StdioExchange:
    """The Exchange of one request that came over stdio."""

    mirrored: Mirrored | None = None

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()

    async def run(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run a synchronous function in a thread of the pool."""
        return await threads.run(function, *args)

    async def attempt(self, function: Callable[..., T], /, *args: Any) -> T:
        """Run it as ``run`` does; a question undoes what it wrote."""
        return await undo.run(function, *args)

    async def attempt_async(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Await ``coroutine``; a question undoes what it wrote."""
        return await undo.run_async(coroutine)

    def wait(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Run ``coroutine`` on the event loop from a handler's thread."""
        if self._is_here():
            coroutine.close()
            raise RuntimeError(
                "A synchronous call to the client would block the event loop: in an async "
                "handler, await the method whose name begins with 'a'."
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def write(self, message: dict[str, Any], /) -> None:
        """Send a notification, before the answer; lines of several requests interleave."""
        line = jsonrpc.encode(message) + b"\n"
        if self._is_here():
            self._pipe.write(line)
        else:
            self._loop.call_soon_threadsafe(self._pipe.write, line)

    async def flush(self) -> None:
        """Let what was written by now be written."""
        await asyncio.sleep(0)

    async def ask(self, method: str, params: dict[str, Any], /, *, timeout: float) -> Any:
        """Asking over stdio."""
        raise ConnectionError("This client cannot be asked")

    def _is_here(self) -> bool:
        """Whether this is the thread of the event loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


class Conversation:
    """One client's conversation with one Server over a pair of pipes."""

    def __init__(
        self, server: Server, out: BinaryIO, *, principal: Principal | None = None
    ) -> None:
        self.server = server
        self.session: Session | None = None
        self._pipe = Pipe(out)
        self._running: dict[tuple[type, RequestId], tuple[asyncio.Task[None], Frame]] = {}
        self._caller = base.Caller(
            principal=principal or Principal(scheme="stdio", user=AnonymousUser()),
            transport=StdioTransport(env=dict(os.environ), os_pid=os.getpid()),
        )

    async def serve(self, lines: AsyncIterator[bytes]) -> None:
        """Answer line after line, many at once, until the client closes its side."""
        async for line in lines:
            if line.strip():
                self._receive(line)
        tasks = [task for task, _ in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        for task, frame in tuple(self._running.values()):
            frame.cancellation.request("The client has gone")
            task.cancel()

    def _receive(self, line: bytes) -> None:
        """Take one line; what cannot be read is refused, and the next line is read."""
        try:
            value = jsonrpc.decode(line)
            if isinstance(value, list):
                raise InvalidRequest("Send one message a line: this revision has no batches")
            self._take(jsonrpc.read(value))
        except McpError as error:
            self._fail(error, NEWEST, getattr(error, "request_id", None))

    def _take(self, message: Request | Notification | Response) -> None:
        if isinstance(message, Request):
            self._start(message)
        elif isinstance(message, Notification):
            self._notified(message)

    # Requests.

    def _start(self, request: Request) -> None:
        place = (type(request.id), request.id)
        if place in self._running:
            raise InvalidRequest("A request with this id is running", request_id=request.id)
        if len(self._running) >= conf.get().max_in_flight:
            raise InvalidRequest("Too many requests are running", request_id=request.id)
        try:
            frame = self._frame(request)
        except McpError as error:
            self._fail(error, self._revision(), request.id)
            return
        task = asyncio.ensure_future(self._answer(frame))
        self._running[place] = (task, frame)
        task.add_done_callback(lambda _: self._running.pop(place, None))

    def _frame(self, request: Request) -> Frame:
        call = base.Call(
            server=self.server, caller=self._caller, exchange=StdioExchange(self._pipe)
        )
        if envelope.is_enveloped(request.params, None):
            return base.enveloped(call, request, self._envelope(request))
        if request.method == "initialize" and self.session is not None:
            raise InvalidRequest("This session is already open")
        if self.session is not None:
            return base.in_session(call, request, self.session)
        if request.method in OPENING:
            return base.opening(call, request)
        if request.method not in self.server.revisions(Opening.HANDSHAKE)[-1].requests:
            return base.enveloped(call, request, self._envelope(request))
        raise InvalidRequest("Open the session with initialize first")

    def _envelope(self, request: Request) -> envelope.Envelope:
        return envelope.read(request, None, self.server.stateless)

    async def _answer(self, frame: Frame) -> None:
        try:
            reply = await base.answer(frame)
        except asyncio.CancelledError:
            # Whoever cancelled does not want an answer (CANC-06, STD-05).
            return
        if frame.cancellation.requested:
            return
        reply = self._keep(frame, reply)
        self._pipe.write(dispatch.encode(reply.message) + b"\n")

    def _keep(self, frame: Frame, reply: Reply) -> Reply:
        """Remember what the answer changed: the session it opened, or its assigns."""
        assert frame.request is not None
        if frame.request.method == "initialize" and reply.error is None:
            self.session = base.new_session(reply.frame, "stdio")
        elif self.session is not None and frame.get_mcp_session_id() is not None:
            try:
                changed = pack(self.session.apply(reply.frame.changes))
            except TypeError:
                return base.unkept(reply)
            self.session = unpack(changed, session_id=self.session.id)
        return reply

    # Notifications.

    def _notified(self, message: Notification) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(message.params)
        elif message.method == "notifications/initialized" and self.session is not None:
            self.session = self.session.apply([base.INITIALIZED])

    def _cancel(self, params: Mapping[str, Any]) -> None:
        """Stop the request which the client has given up; an unknown one is ignored (CANC-11)."""
        identity = params.get("requestId")
        if not jsonrpc.is_id(identity):
            return
        running = self._running.get((type(identity), identity))
        if running is None:
            return
        task, frame = running
        if frame.request is not None and frame.request.method != "initialize":
            frame.cancellation.request(str(params.get("reason") or "")[:200] or None)
            task.cancel()

    # Refusals.

    def _revision(self) -> Revision:
        return NEWEST if self.session is None else BY_VERSION[self.session.version]

    def _fail(self, error: McpError, revision: Revision, identity: RequestId | None) -> None:
        message = jsonrpc.error(identity, revision.error(error))
        self._pipe.write(jsonrpc.encode(message) + b"\n")


OPENING = ("initialize", "ping")
"""What may be called before a session is open (LIFE-01, LIFE-11)."""


async def stdin_lines(limit: int) -> AsyncIterator[bytes]:
    """The lines of standard input; one longer than ``limit`` bytes is answered as unreadable."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                yield error.partial
            return
        except asyncio.LimitOverrunError as error:
            await _skip_line(reader, error.consumed)
            yield TOO_LONG
            continue
        yield line


async def _skip_line(reader: asyncio.StreamReader, consumed: int) -> None:
    """Read past the rest of a line that is too long to be kept."""
    while True:
        await reader.readexactly(consumed)
        try:
            await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            consumed = error.consumed
            continue
        return


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
        real.flush()
        os.dup2(real.fileno(), 1)
        real.close()


async def serve(server: Server, out: BinaryIO) -> None:
    """Serve ``server`` to the client on standard input, writing messages to ``out``."""
    await Conversation(server, out).serve(stdin_lines(conf.get().max_body_size))
