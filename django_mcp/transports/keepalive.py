"""The experimental ``notifications/keepalive``, on one connection of a session.

A server declares it with ``Server.set_keepalive``. The keepalive comments of SSE streams do not
depend on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.server.server import Server
from django_mcp.runtime import background

METHOD = "notifications/keepalive"
UNANSWERED = "Keepalive failure threshold reached; closing transport"
"""The reason which the server's ``handle_error`` receives, as the seeds have it."""


class Keepalive:
    """Sends the notification at an interval, until it fails too often in a row."""

    def __init__(
        self, server: Server, send: Callable[[bytes], bool], give_up: Callable[[], Awaitable[None]]
    ) -> None:
        """``send`` sends a message, and returns whether the previous one has been sent.

        ``give_up`` closes the connection and ends its session.
        """
        self._server = server
        self._send = send
        self._give_up = give_up
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._server.keepalive is not None and self._timer is None:
            self._schedule(self._server.keepalive.interval_ms)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, interval_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        keepalive = self._server.keepalive
        if keepalive is None:
            return
        try:
            is_sent = self._send(jsonrpc.encode(jsonrpc.notification(METHOD)))
        except OSError:
            is_sent = False
        self._failures = 0 if is_sent else self._failures + 1
        if self._failures < keepalive.failure_threshold:
            self._schedule(keepalive.interval_ms)
            return
        self._server.report(UNANSWERED)
        background.spawn(self._give_up())  # type: ignore[arg-type]
