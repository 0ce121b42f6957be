"""The state of one listen stream, over every transport: its filter and its messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from django_mcp.auth.base import Principal
from django_mcp.dispatch import visibility
from django_mcp.frame.frame import Frame
from django_mcp.protocol import jsonrpc, subscriptions
from django_mcp.protocol.subscriptions import Filter
from django_mcp.pubsub import bus, publisher


class Subscription:
    def __init__(self, frame: Frame, wanted: Filter, write: Callable[[bytes], None]) -> None:
        self._frame = frame
        self._wanted = wanted
        self._write = write
        self._id = subscriptions.encoded_id(frame.request_id)
        self._is_open = False

    async def open(self) -> None:
        """Subscribe and acknowledge; ``close`` must follow, also after a cancellation."""
        # The stream may be open for days, and its request may be large. The coroutines that wait
        # for its end refer to the parameters too, so they are cleared, not replaced.
        cast("dict[str, Any]", self._frame.message.params).clear()
        # In this order: what is published once the client reads this is sent to it.
        for group in self._groups():
            await bus.here().subscribe(group, self._receive)
        acknowledgement = subscriptions.acknowledgement(self._frame.request_id, self._wanted)
        self._write(jsonrpc.encode(acknowledgement))
        self._is_open = True

    def close(self) -> None:
        self._is_open = False
        for group in self._groups():
            bus.here().unsubscribe(group, self._receive)

    def reauthenticated(self, principal: Principal) -> None:
        self._frame = replace(self._frame, user=principal.user, auth=principal)

    def _groups(self) -> list[str]:
        server = self._frame.server
        of_lists = [publisher.of_server(server)] if self._wanted.lists else []
        return of_lists + [publisher.of_resource(server, uri) for uri in self._wanted.uris]

    def _receive(self, message: bus.Message) -> None:
        method, uri = message["method"], message.get("uri")
        if uri is not None:
            bus.spawn(self._send_update(method, uri))
        elif method in self._wanted.methods:
            self._send(method, None)

    async def _send_update(self, method: str, uri: str) -> None:
        """Send an update of a resource, if the client may still read it (SUB-11)."""
        if await visibility.is_readable(self._frame, uri):
            self._send(method, uri)

    def _send(self, method: str, uri: str | None) -> None:
        # Nothing may be sent before the acknowledgement (SUB-01).
        if self._is_open:
            self._write(subscriptions.change_notification(method, uri, self._id))
