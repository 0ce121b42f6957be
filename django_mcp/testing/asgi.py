"""Driving an ASGI application in process: one HTTP request, and its response as it comes.

No server, no socket, no sleep: the application runs on the event loop of whoever asks. It knows
HTTP and server-sent events, and nothing of MCP.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from django_mcp.protocol import sse

Message = dict[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]

PATIENCE = 10.0
"""Seconds after which something that should happen at once is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole response. Header names are lower-case; of one that is repeated, the last is here."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body is, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0]

    def json(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)

    def events(self) -> list[sse.Event]:
        """The body, which is a stream of events."""
        return sse.Parser().feed(self.body)


def http_scope(
    method: str = "POST",
    path: str = "/",
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    query: str = "",
    scheme: str = "http",
    client: tuple[str, int] | None = ("127.0.0.1", 49152),
) -> Message:
    """An ASGI scope, as a server makes one. The Host is ``testserver`` unless it is given."""
    pairs = [*headers.items()] if isinstance(headers, Mapping) else [*headers]
    if not any(name.lower() == "host" for name, _ in pairs):
        pairs.insert(0, ("host", "testserver"))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        "client": client,
        "server": ("testserver", 443 if scheme == "https" else 80),
    }


async def perform(
    application: Application, scope: Message, body: bytes | Iterable[bytes] = b""
) -> Reply:
    """The response to a request whose client waits to the end, in the task of the caller.

    ``body`` may come in several pieces.
    """
    incoming = iter(_pieces(body))
    sent: list[Message] = []

    async def receive() -> Message:
        piece = next(incoming, None)
        return piece if piece is not None else await _never()

    async def send(message: Message) -> None:
        sent.append(message)

    async with asyncio.timeout(PATIENCE):
        await application(scope, receive, send)
    start, *rest = sent
    return Reply(
        status=start["status"],
        headers=_headers(start),
        body=b"".join(message.get("body", b"") for message in rest),
    )


class Exchange:
    """One HTTP request to an application, and its response piece by piece.

    As a context manager it runs the application; leaving the block closes the connection.
    Whatever the application raises is raised from the next thing that waits for it.
    """

    def __init__(
        self, application: Application, scope: Message, body: bytes | Iterable[bytes] | None = b""
    ) -> None:
        self.has_begun = False
        """Whether the application has sent anything by now."""
        self._application = application
        self._scope = scope
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._outgoing: asyncio.Queue[Message | None] = asyncio.Queue()  # None at the end.
        self._reading = asyncio.Event()
        self._reading.set()
        self._events = sse.Parser()
        self._parsed: list[sse.Event] = []
        self._start: Message | None = None
        self._complete = False
        self._connected = True
        self._has_told = False
        self._task: asyncio.Task[None] | None = None
        for piece in () if body is None else _pieces(body):
            self._incoming.put_nowait(piece)

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection, and end the application's task as servers end it then."""
        assert self._task is not None
        self.disconnect()
        self._task.cancel()
        await asyncio.wait([self._task])
        if error is None and not self._has_told and not self._task.cancelled():
            self._task.result()

    # The request.

    def send(self, body: bytes, *, more: bool = False) -> None:
        """Send a piece of the body, which was given as None at first."""
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        """Close the connection; once is enough."""
        if self._connected:
            self._connected = False
            self._reading.set()
            self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Be a client whose network is full: what is sent waits."""
        self._reading.clear()

    def go_on_reading(self) -> None:
        """Read again."""
        self._reading.set()

    # The response.

    async def status(self) -> int:
        """The status, as soon as the response has begun."""
        status: int = (await self._started())["status"]
        return status

    async def headers(self) -> dict[str, str]:
        """The headers, as soon as the response has begun."""
        return _headers(await self._started())

    async def read(self) -> bytes | None:
        """The next piece of the body, which may be empty; None at its end."""
        await self._started()
        if self._complete:
            return None
        message = await self._next()
        self._complete = not message.get("more_body")
        body: bytes = message.get("body", b"")
        return body

    async def body(self) -> bytes:
        """The rest of the body."""
        pieces: list[bytes] = []
        while (piece := await self.read()) is not None:
            pieces.append(piece)
        return b"".join(pieces)

    async def event(self) -> sse.Event | None:
        """The next event of the stream; None at its end. Comments are skipped."""
        while not self._parsed:
            piece = await self.read()
            if piece is None:
                return None
            self._parsed += self._events.feed(piece)
        return self._parsed.pop(0)

    async def events(self) -> AsyncIterator[sse.Event]:
        """The events of the stream, to its end."""
        while (event := await self.event()) is not None:
            yield event

    async def ended(self) -> None:
        """Wait until the application is done with the request."""
        assert self._task is not None
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self._task])
        self._has_told = True
        self._task.result()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._incoming.get, self._send)
        finally:
            self._outgoing.put_nowait(None)

    async def _send(self, message: Message) -> None:
        await self._reading.wait()
        self.has_begun = True
        self._outgoing.put_nowait(message)

    async def _started(self) -> Message:
        if self._start is None:
            self._start = await self._next()
        return self._start

    async def _next(self) -> Message:
        """The next message of the application, or the exception which ended it."""
        async with asyncio.timeout(PATIENCE):
            message = await self._outgoing.get()
        if message is not None:
            return message
        self._outgoing.put_nowait(None)
        await self.ended()
        raise ConnectionError("The application ended without ending its response")


def _pieces(body: bytes | Iterable[bytes]) -> list[Message]:
    pieces = [body] if isinstance(body, bytes) else [*body]
    last = len(pieces) - 1
    return [
        {"type": "http.request", "body": piece, "more_body": number < last}
        for number, piece in enumerate(pieces)
    ]


def _headers(start: Message) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}


async def _never() -> Message:
    """A client that waits: nothing comes from it any more."""
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
