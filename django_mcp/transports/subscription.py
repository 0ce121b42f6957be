"""The state of one listen stream, over every transport: its filter and its messages.

A method of an extension may open a stream as well, which a function of its own writes to.

| state | meaning | who moves it |
|---|---|---|
| new | it subscribes; messages of extensions wait, and changes are not sent      | ``open``: open |
| open | changes are sent | ``close``: closed |
| closed | nothing is sent | nobody |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from django_mcp.core.auth.base import Principal
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol import jsonrpc, subscriptions
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.subscriptions import Filter
from django_mcp.core.server.extensions import INSTALLED, Serve
from django_mcp.core.server.server import server_of
from django_mcp.pubsub import announcements, bus
from django_mcp.runtime import background

Write = Callable[[bytes], None]


def of(
    frame: Frame, wanted: Filter | Serve, write: Write, end: Callable[[], object]
) -> Subscription | ServedStream:
    """The state of the stream that a request opens; ``end`` ends it for the server."""
    if isinstance(wanted, Filter):
        return Subscription(frame, wanted, write)
    return ServedStream(frame, wanted, write, end)


class ServedStream:
    """A stream: a function of an extension sends its notifications."""

    def __init__(self, frame: Frame, serve: Serve, write: Write, end: Callable[[], object]) -> None:
        self.frame = frame
        self._serve = serve
        self._write = write
        self._end = end
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the function; ``close`` must follow, also after a cancellation."""
        _forget_params(self.frame)
        self._task = background.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._serve(self)
        finally:
            self._end()

    def send(self, method: str, params: Json, /) -> None:
        self._write(_notification(self.frame, method, params))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def reauthenticated(self, principal: Principal) -> None:
        self.frame = replace(self.frame, user=principal.user, auth=principal)


def _forget_params(frame: Frame) -> None:
    """Drop the parameters of the request: they may be large, and the stream open for days.

    The coroutines that wait for its end refer to them too, so they are cleared, not replaced.
    """
    cast("dict[str, Any]", frame.message.params).clear()


def _notification(frame: Frame, method: str, params: Json) -> bytes:
    """The notification of an extension, with the id of the request that opened the stream."""
    meta = {**(params.get("_meta") or {}), **subscriptions.meta(frame.request_id)}
    return jsonrpc.encode(jsonrpc.notification(method, {**params, "_meta": meta}))


class Subscription:
    def __init__(self, frame: Frame, wanted: Filter, write: Callable[[bytes], None]) -> None:
        self.frame = frame
        self._wanted = wanted
        self._write = write
        self._id = jsonrpc.encode(frame.request_id)
        self._is_open = False
        self._groups: list[str | None] = []
        self._coalescer = announcements.Coalescer(self._send_soon)
        self._early: list[bytes] | None = []
        """The messages of extensions before the acknowledgement; None after it."""
        self._closers: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Subscribe and acknowledge; ``close`` must follow, also after a cancellation."""
        _forget_params(self.frame)
        # In this order: once the client reads this, later notifications are sent to it.
        server = server_of(self.frame)
        # Changes of lists are announced without a URI.
        groups: list[str | None] = [None] if self._wanted.lists else []
        groups += self._wanted.uris
        for uri in groups:
            self._groups.append(uri)
            await announcements.here().subscribe(server, uri, self._receive)
        for name, values in self._wanted.of_extensions.items():
            _, listen_filter = INSTALLED.filters[name]
            self._closers.append(await listen_filter.open(self, values))
        acknowledgement = subscriptions.acknowledgement(self.frame.request_id, self._wanted)
        self._write(jsonrpc.encode(acknowledgement))
        self._is_open = True
        for message in self._early or ():
            self._write(message)
        self._early = None

    def close(self) -> None:
        self._is_open = False
        self._coalescer.close()
        for uri in self._groups:
            announcements.here().unsubscribe(server_of(self.frame), uri, self._receive)
        self._groups.clear()
        for close in self._closers:
            close()
        self._closers.clear()

    def reauthenticated(self, principal: Principal) -> None:
        self.frame = replace(self.frame, user=principal.user, auth=principal)

    def _receive(self, message: bus.Message) -> None:
        method = message["method"]
        uri = message.get("uri")
        if uri is not None or method in self._wanted.methods:
            self._coalescer.add((method, uri))

    def _send_soon(self, change: Any) -> None:
        method, uri = change
        if uri is None:
            self._send(method, None)
        else:
            background.spawn(self._send_update(method, uri))

    async def _send_update(self, method: str, uri: str) -> None:
        """Send an update of a resource, if the client may still read it (SUB-11)."""
        if await visibility.is_readable(self.frame, uri):
            self._send(method, uri)

    def send(self, method: str, params: Json, /) -> None:
        """Send a notification of an extension, once the client has the acknowledgement."""
        message = _notification(self.frame, method, params)
        if self._is_open:
            self._write(message)
        elif self._early is not None:
            self._early.append(message)

    def _send(self, method: str, uri: str | None) -> None:
        # Nothing may be sent before the acknowledgement (SUB-01).
        if self._is_open:
            self._write(subscriptions.change_notification(method, uri, self._id))
