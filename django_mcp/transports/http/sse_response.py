"""The writer of one SSE response: in order, together where they follow at once, and bounded.

| state | meaning | who moves it |
|---|---|---|
| ``OPEN`` | events are accepted; the first one starts the response | the owner |
| ``ENDED`` | nothing more is accepted; ``send_last`` completes the response | ``close`` |
| ``LOST`` | the client has disconnected | ``lose``, or the ASGI server, by an ``OSError`` |
| ``CUT_OFF`` | the client did not read its messages | ``cut_off``: the owner, or a limit here |

No way leads back. While events wait, a task of the writer's own sends them, so that the cancelled
task of a handler tears none of them apart. It begins with the next iteration of the event loop:
events that are written until then are sent together. ``hold`` makes the events wait, in each state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from django_mcp.core.log import log_repeated
from django_mcp.transports.http.request import HeaderPairs, Send

MAX_WAITING = 1024 * 1024
"""Bytes that may wait for a client."""
STALLED = 60.0
"""Seconds until a client that takes no bytes counts as disconnected."""

HEADERS: HeaderPairs = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies like nginx buffer responses otherwise.
    (b"x-accel-buffering", b"no"),
)


class State(Enum):
    OPEN = auto()
    ENDED = auto()
    LOST = auto()
    CUT_OFF = auto()


# Names of the module, which take a tenth of the time of an attribute of the Enum.
OPEN = State.OPEN
ENDED = State.ENDED
LOST = State.LOST
CUT_OFF = State.CUT_OFF


class StreamWriter:
    state = OPEN
    is_used = False
    """Whether events were written: the response is a stream, or about to become one."""
    has_started = False
    """Whether the ASGI server has its status and headers."""
    headers: HeaderPairs = ()
    """Headers of the response besides the usual ones of streams."""
    before_start: Callable[[], Awaitable[None]] | None = None
    """Awaited before the response starts."""
    on_lost: Callable[[], None] | None = None
    """Called once, if the client goes before the response is complete."""
    _waiting: bytes | bytearray = b""
    """The events that wait for the network. Nearly always it is one, which is not copied."""
    _sender: asyncio.Task[None] | None = None
    _sending_since: float | None = None
    """The time of the message that the ASGI server has not accepted yet."""
    _held: asyncio.Future[None] | None = None
    """Is done when events that are held back may be sent."""

    def __init__(self, send: Send, loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is accepted."""
        return self.state is not OPEN

    @property
    def is_sending(self) -> bool:
        """Whether a task sends events, or is about to."""
        return self._sender is not None

    @property
    def is_blocked(self) -> bool:
        """Whether the ASGI server has not accepted a message yet."""
        return self._sending_since is not None

    @property
    def is_half_full(self) -> bool:
        return len(self._waiting) > MAX_WAITING // 2

    @property
    def size(self) -> int:
        """The number of bytes that wait."""
        return len(self._waiting)

    @property
    def silence(self) -> float:
        """For how many seconds the ASGI server has not accepted a message."""
        return 0.0 if self._sending_since is None else self._loop.time() - self._sending_since

    @property
    def is_stalled(self) -> bool:
        """Whether the client does not read: it has to be cut off, or was."""
        return self.silence > STALLED or self.state is CUT_OFF

    def write(self, events: bytes) -> bool:
        """Send events soon. Return False, and drop them, if too many wait already.

        A closed writer drops them without a word.
        """
        waiting = self._waiting
        if self.state is not OPEN:
            return True
        if len(waiting) > MAX_WAITING:
            return False
        if not waiting:
            self._waiting = events
        elif isinstance(waiting, bytearray):
            waiting += events
        else:
            self._waiting = bytearray(waiting + events)
        if self._sender is None:
            self.is_used = True
            self._send_soon()
        return True

    def hold(self) -> None:
        """Let events wait until ``resume``."""
        if self._held is None:
            self._held = self._loop.create_future()

    def resume(self) -> None:
        held = self._held
        self._held = None
        self._send_soon()
        if held is not None:
            held.set_result(None)

    def drop_waiting(self) -> None:
        """Drop the events which wait."""
        self._waiting = b""

    async def flush(self) -> None:
        """Wait until the ASGI server has accepted all events, those that are held back as well."""
        while waited := self._sender or (self._held if self.state is OPEN else None):
            await asyncio.shield(waited)

    async def end(self, last: bytes) -> None:
        """Send the events that wait, and then complete the response with ``last``."""
        try:
            async with asyncio.timeout(STALLED):
                await self.flush()
        except TimeoutError:
            self.cut_off()
        if not self.is_closed:
            self.close()
            await self.send_last(last)

    def close(self) -> bool:
        """Accept nothing more; return whether events were accepted until now."""
        if self.state is not OPEN:
            return False
        self.state = ENDED
        return True

    async def send_last(self, events: bytes) -> None:
        """Complete a response that is closed; start it, if nothing was sent before."""
        try:
            async with asyncio.timeout(STALLED):
                if not self.has_started:
                    await self._start()
                await self._pass_on(_body(events, more=False))
        except TimeoutError:
            self.cut_off()
        except OSError:
            # ASGI servers raise it after a disconnect.
            self.lose()
        finally:
            self.on_lost = None

    def lose(self) -> None:
        """Note that the client has disconnected."""
        self._give_up(LOST)

    def cut_off(self) -> None:
        """Send nothing more to a client that does not read."""
        if self.state is not CUT_OFF:
            log_repeated(logging.WARNING, "A stream is cut off because its client does not read it")
            self._give_up(CUT_OFF)
            if self._sender is not None and self.is_blocked:
                self._sender.cancel()

    def _give_up(self, state: State) -> None:
        if self.state in (OPEN, ENDED):
            self.state = state
            self._waiting = b""
            on_lost = self.on_lost
            self.on_lost = None
            if on_lost is not None:
                on_lost()

    def _send_soon(self) -> None:
        if self._sender is None and self._waiting and self._held is None:
            self._sender = self._loop.create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        try:
            if self._waiting and not self.has_started:
                await self._start()
            while self._waiting and self._held is None:
                events = bytes(self._waiting)
                self._waiting = b""
                await self._pass_on(_body(events, more=True))
        except OSError:
            self.lose()
        except asyncio.CancelledError:
            if self.state is not CUT_OFF:
                raise
        finally:
            self._sender = None

    async def _start(self) -> None:
        if self.before_start is not None:
            await self.before_start()
        if self.state in (OPEN, ENDED):  # It may have been lost meanwhile.
            self.has_started = True
            headers = [*HEADERS, *self.headers]
            await self._pass_on({"type": "http.response.start", "status": 200, "headers": headers})

    async def _pass_on(self, message: dict[str, Any]) -> None:
        self._sending_since = self._loop.time()
        try:
            await self._send(message)
        finally:
            self._sending_since = None


def _body(events: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": events, "more_body": more}
