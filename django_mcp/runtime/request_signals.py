"""Django's ``request_started`` and ``request_finished``, for HTTP requests to MCP servers.

Django's own receivers close old connections and forget logged queries. ``runtime.connections`` does
that for each thread, and their change of threads would cost as much as a whole call. So the
signals are sent to all other receivers, and not at all where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core import signals
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, reset_queries
from django.dispatch import Signal

OWN = frozenset(map(id, (reset_queries, close_old_connections, close_caches, reset_urlconf)))
"""The receivers that Django itself connects, by their id in a Signal."""


class OtherReceivers:
    """The receivers of both signals besides Django's own."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        """All receivers, as they were at the last ``update``."""
        self.are_any = False
        """Whether the signals have to be sent."""
        self.started = Signal()
        self.finished = Signal()

    def update(self) -> None:
        self.seen = [[*signal.receivers] for signal in SIGNALS]
        for signal, receivers in zip((self.started, self.finished), self.seen, strict=True):
            # The first member of an entry names the receiver, and its sender.
            signal.receivers = [each for each in receivers if each[0][0] not in OWN]
        self.are_any = bool(self.started.receivers or self.finished.receivers)


SIGNALS = (signals.request_started, signals.request_finished)
OTHERS = OtherReceivers()


async def send_started(sender: type, scope: Mapping[str, Any]) -> None:
    """Send ``request_started`` as Django's ASGI handler does it."""
    await OTHERS.started.asend(sender=sender, scope=scope)


async def send_finished(sender: type) -> None:
    """Send ``request_finished``; its receivers run on the thread of the request."""
    await OTHERS.finished.asend(sender=sender)
