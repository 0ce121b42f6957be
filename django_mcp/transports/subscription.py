"""What one listen stream hears, and how it is told: the same over every transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django_mcp.auth.base import Principal
from django_mcp.dispatch import visibility
from django_mcp.frame.frame import Frame
from django_mcp.protocol import jsonrpc, subscriptions
from django_mcp.protocol.jsonrpc import RequestId
from django_mcp.protocol.subscriptions import Filter
from django_mcp.pubsub import bus, publisher


class Subscription:
    """A subscription which is honoured from ``open`` to ``close``."""

    __slots__ = ("_frame", "_id", "_is_open", "_wanted", "_write")

    def __init__(self, frame: Frame, wanted: Filter, write: Callable[[bytes], None]) -> None:
        """``write`` sends one encoded message."""
        self._frame = frame
        self._wanted = wanted
        self._write = write
        self._id = subscriptions.encoded_id(self.id)
        self._is_open = False

    @property
    def id(self) -> RequestId:
        """The id of the request which asked for it."""
        assert self._frame.request is not None
        assert self._frame.request.id is not None
        return self._frame.request.id

    async def open(self) -> None:
        """Listen, and acknowledge; who opens must close, also when this was cancelled."""
        # Listen first: what is announced when the client reads this is announced to it.
        for group in self._groups():
            await bus.here().subscribe(group, self._hear)
        self._write(jsonrpc.encode(subscriptions.acknowledgement(self.id, self._wanted)))
        self._is_open = True

    def close(self) -> None:
        """Hear nothing more."""
        self._is_open = False
        for group in self._groups():
            bus.here().unsubscribe(group, self._hear)

    def recognised(self, principal: Principal) -> None:
        """Note what the client may do now."""
        self._frame = replace(self._frame, user=principal.user, auth=principal)

    def _groups(self) -> list[str]:
        server = self._frame.server
        of_lists = [publisher.of_server(server)] if self._wanted.lists else []
        return of_lists + [publisher.of_resource(server, uri) for uri in self._wanted.uris]

    def _hear(self, message: bus.Message) -> None:
        method, uri = message["method"], message.get("uri")
        if uri is not None:
            bus.spawn(self._tell_of(method, uri))
        elif method in self._wanted.methods:
            self._tell(method, None)

    async def _tell_of(self, method: str, uri: str) -> None:
        """Tell of a change to a resource, if the caller may still read it (SUB-11)."""
        if await visibility.readable(self._frame, uri):
            self._tell(method, uri)

    def _tell(self, method: str, uri: str | None) -> None:
        # Nothing may be sent before the acknowledgement (SUB-01).
        if self._is_open:
            self._write(subscriptions.announcement(method, uri, self._id))
