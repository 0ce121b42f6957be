"""Messages to the test client: notifications, and messages that break their revision."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from django_mcp.core.ports import Port
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import Revision

CHECK_MESSAGE: Port[Callable[[Revision, Json, str | None], None]] = Port(
    "checks messages", default=lambda revision, message, method: None
)
"""Raises AssertionError for a message of a server that violates its revision. It is also given the
method of the request if the message is a response. The tests of this package fill it."""


class ReceivedNotifications:
    """The notifications that a client has received."""

    notifications: list[dict[str, Any]]

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The parameters of the progress notifications."""
        return self.params_of("notifications/progress")

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The parameters of the log messages."""
        return self.params_of("notifications/message")

    def params_of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the notifications of a method, in their order."""
        return [sent.get("params", {}) for sent in self.notifications if sent["method"] == method]


class Arrivals:
    """Waits for the notifications of one client."""

    def __init__(self, received: ReceivedNotifications) -> None:
        self._received = received
        self._arrived = asyncio.Event()
        self._awaited: Counter[str] = Counter()

    def note(self) -> None:
        """Wake up whoever waits: a notification has arrived."""
        self._arrived.set()

    async def next(self, method: str) -> dict[str, Any]:
        """Return the parameters of the next notification of a method that nobody waited for."""
        number = self._awaited[method]
        self._awaited[method] += 1
        while len(params := self._received.params_of(method)) <= number:
            self._arrived.clear()
            await self._arrived.wait()
        return params[number]


class Violations:
    """The findings of the checks in messages, until a request of the test completes."""

    def __init__(self) -> None:
        self._errors: list[AssertionError] = []

    def look_at(self, revision: Revision, message: Json, method: str | None) -> None:
        try:
            CHECK_MESSAGE.get()(revision, message, method)
        except AssertionError as violation:
            self._errors.append(violation)

    def raise_first(self) -> None:
        """Raise the first one that was not raised yet."""
        if self._errors:
            raise self._errors.pop(0)
