"""HTTP requests to an ASGI application in the same process, without a server or a socket.

This module depends on HTTP and server-sent events only, not on MCP.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from django_mcp.core.protocol import sse

Message = dict[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
Body = bytes | Iterable[bytes]

TIMEOUT = float(os.environ.get("MCP_TEST_TIMEOUT", "10"))
"""Seconds until a test stops waiting for an immediate event; a busy machine may need more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete response. Header names are lower case; the last of repeated headers wins."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[sse.Event]:
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
    """Return an ASGI scope as a server creates it. The default Host is ``testserver``."""
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


async def perform(application: Application, scope: Message, body: Body = b"") -> Reply:
    """Return the complete response; the application runs in the current task."""
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    for part in _parts(body):
        incoming.put_nowait(part)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with asyncio.timeout(TIMEOUT):
        await application(scope, incoming.get, send)
    start, *rest = sent
    return Reply(
        status=start["status"],
        headers=_headers(start),
        body=b"".join(message.get("body", b"") for message in rest),
    )


class Exchange:
    """One HTTP request to an application, with a streamed response.

    The context manager runs the application, and closes the connection on exit. An exception of
    the application is raised by the next method that waits for the response, which does so for
    ``timeout`` seconds, by default TIMEOUT.
    """

    def __init__(
        self,
        application: Application,
        scope: Message,
        body: Body | None = b"",
        *,
        timeout: float | None = None,
    ) -> None:
        self.has_started = False
        """Whether the application has sent a message."""
        self._timeout = TIMEOUT if timeout is None else timeout
        self._application = application
        self._scope = scope
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._outgoing: asyncio.Queue[Message | None] = asyncio.Queue()  # None marks the end.
        self._reading = asyncio.Event()
        self._reading.set()
        self._events = sse.Parser()
        self._parsed: list[sse.Event] = []
        self._start: Message | None = None
        self._complete = False
        self._connected = True
        self._is_error_raised = False
        self._task: asyncio.Task[None] | None = None
        for part in () if body is None else _parts(body):
            self._incoming.put_nowait(part)

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        """Close the connection, and cancel the application as ASGI servers do."""
        assert self._task is not None
        self.disconnect()
        self._task.cancel()
        await asyncio.wait([self._task])
        if error is None and not self._is_error_raised and not self._task.cancelled():
            self._task.result()

    # The request.

    def send(self, body: bytes, *, more: bool = False) -> None:
        """Send a part of the request body, which was None in the constructor."""
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self._reading.set()
            self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """Block the application at its next message, as a full socket does."""
        self._reading.clear()

    def resume_reading(self) -> None:
        self._reading.set()

    # The response.

    async def status(self) -> int:
        return cast("int", (await self._started())["status"])

    async def headers(self) -> dict[str, str]:
        return _headers(await self._started())

    async def read(self) -> bytes | None:
        """Return the next part of the body, which may be empty; None at the end."""
        await self._started()
        if self._complete:
            return None
        message = await self._next()
        self._complete = not message.get("more_body")
        return cast("bytes", message.get("body", b""))

    async def body(self) -> bytes:
        body = b""
        while (part := await self.read()) is not None:
            body += part
        return body

    async def event(self) -> sse.Event | None:
        """Return the next event, without comments; None at the end."""
        while not self._parsed:
            part = await self.read()
            if part is None:
                return None
            self._parsed += self._events.feed(part)
        return self._parsed.pop(0)

    async def events(self) -> AsyncIterator[sse.Event]:
        while (event := await self.event()) is not None:
            yield event

    async def wait_closed(self) -> None:
        assert self._task is not None
        async with asyncio.timeout(self._timeout):
            await asyncio.wait([self._task])
        self._is_error_raised = True
        self._task.result()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._incoming.get, self._send)
        finally:
            self._outgoing.put_nowait(None)

    async def _send(self, message: Message) -> None:
        await self._reading.wait()
        self.has_started = True
        self._outgoing.put_nowait(message)

    async def _started(self) -> Message:
        if self._start is None:
            self._start = await self._next()
        return self._start

    async def _next(self) -> Message:
        """Return the next message of the application, or raise its exception."""
        async with asyncio.timeout(self._timeout):
            message = await self._outgoing.get()
        if message is not None:
            return message
        self._outgoing.put_nowait(None)
        await self.wait_closed()
        raise ConnectionError("The application returned without completing its response")


def _parts(body: Body) -> list[Message]:
    *parts, last = [body] if isinstance(body, bytes) else body
    more = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    return [*more, {"type": "http.request", "body": last, "more_body": False}]


def _headers(start: Message) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
