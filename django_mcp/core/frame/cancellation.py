"""Cancellation of a running handler: a thread-safe stop token."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from django_mcp.core.protocol.errors import Cancelled

logger = logging.getLogger("django_mcp")


class Cancellation:
    """Whether one request was cancelled, and why."""

    # Of the class, because nearly no request is cancelled, and each has a cancellation.
    is_cancelled = False
    """``requested``, which a property would make slower to read."""
    _reason: str | None = None
    _callbacks: tuple[Callable[[], object], ...] = ()
    _lock = threading.Lock()
    """One for all requests: it is held for a moment, and never while a callback runs."""

    @property
    def requested(self) -> bool:
        """Whether the handler should stop; its return value is discarded."""
        return self.is_cancelled

    @property
    def reason(self) -> str | None:
        """The client's reason, if it gave one."""
        return self._reason

    def raise_if_requested(self) -> None:
        """Raise Cancelled when the handler should stop; call it in long loops."""
        if self.is_cancelled:
            raise Cancelled

    def on_request(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call ``callback`` when cancellation is requested, or at once if it already was.

        It runs in the thread that requests cancellation, so it must be quick. Returns a function
        that removes the callback.
        """
        with self._lock:
            if not self.is_cancelled:
                self._callbacks = (*self._callbacks, callback)
                return lambda: self._remove(callback)
        _call(callback)
        return lambda: None

    def wait(self, timeout: float) -> bool:
        """Block this thread until cancellation is requested, for at most ``timeout`` seconds."""
        event = threading.Event()
        remove = self.on_request(event.set)
        try:
            return event.wait(timeout)
        finally:
            remove()

    async def await_request(self, timeout: float | None = None) -> bool:
        """``wait`` for async code; without a timeout, wait indefinitely."""
        loop = asyncio.get_running_loop()
        requested = asyncio.Event()
        remove = self.on_request(lambda: loop.call_soon_threadsafe(requested.set))
        try:
            async with asyncio.timeout(timeout):
                return await requested.wait()
        except TimeoutError:
            return self.is_cancelled
        finally:
            remove()

    def request(self, reason: str | None = None) -> None:
        """Request cancellation; further requests have no effect."""
        with self._lock:
            if self.is_cancelled:
                return
            self.is_cancelled = True
            self._reason = reason
            callbacks = self._callbacks
            self._callbacks = ()
        for callback in callbacks:
            _call(callback)

    def _remove(self, callback: Callable[[], object]) -> None:
        with self._lock:
            self._callbacks = tuple(each for each in self._callbacks if each is not callback)


class NullCancellation(Cancellation):
    """The cancellation of a Frame made by hand: it is never requested."""

    def on_request(self, callback: Callable[[], object]) -> Callable[[], None]:
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
