"""Telling a running handler that nobody waits for it any more.

The seeds' stop token: a handler asks, waits or registers a callback; whoever runs the handler
requests. Safe to use from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from django_mcp.protocol.errors import Cancelled

logger = logging.getLogger("django_mcp")


class Cancellation:
    """Whether one request was cancelled, and why."""

    __slots__ = ("_callbacks", "_event", "_lock", "_reason", "_requested")

    def __init__(self) -> None:
        self._requested = False
        self._reason: str | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._event: threading.Event | None = None

    @property
    def requested(self) -> bool:
        """Whether the handler should stop; what it returns now is thrown away."""
        return self._requested

    @property
    def reason(self) -> str | None:
        """What the client gave as its reason, if anything."""
        return self._reason

    def raise_if_requested(self) -> None:
        """Raise Cancelled when the handler should stop: the usual line in a long loop."""
        if self._requested:
            raise Cancelled

    def on_request(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call ``callback`` once when cancellation is requested, at once when it already was.

        It runs in the thread that requests, so it must be quick; what it raises is logged. What
        is returned takes the callback back.
        """
        with self._lock:
            if not self._requested:
                self._callbacks.append(callback)
                return lambda: self._take_back(callback)
        _call(callback)
        return lambda: None

    def wait(self, timeout: float) -> bool:
        """Block this thread until cancellation is requested, for at most ``timeout`` seconds."""
        with self._lock:
            if self._requested:
                return True
            self._event = self._event or threading.Event()
        return self._event.wait(timeout)

    async def await_request(self, timeout: float | None = None) -> bool:
        """``wait`` for async code; without a timeout, for as long as it takes."""
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        take_back = self.on_request(lambda: loop.call_soon_threadsafe(asked.set))
        try:
            async with asyncio.timeout(timeout):
                await asked.wait()
        except TimeoutError:
            return self._requested
        finally:
            take_back()
        return True

    def request(self, reason: str | None = None) -> None:
        """Ask the handler to stop; asking again changes nothing."""
        with self._lock:
            if self._requested:
                return
            self._requested, self._reason = True, reason
            callbacks, self._callbacks = self._callbacks, []
        if self._event is not None:
            self._event.set()
        for callback in callbacks:
            _call(callback)

    def _take_back(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class NullCancellation(Cancellation):
    """The cancellation of a Frame made by hand: it is never requested."""

    __slots__ = ()

    def on_request(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Never call ``callback``."""
        return lambda: None

    def request(self, reason: str | None = None) -> None:
        """Do nothing."""

    def __reduce__(self) -> str:
        return "NULL_CANCELLATION"


NULL_CANCELLATION = NullCancellation()


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        logger.exception("A callback of a cancellation failed")
