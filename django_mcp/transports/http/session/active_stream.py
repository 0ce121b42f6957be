"""Which of a session's standalone streams may speak: the newest that is open, on any worker.

Every message belongs to exactly one stream (T-HTTP-51, -52). Streams of a session agree over
its group: a new one asks for the word and is given it, with how far the client was told; one
that closes passes it back. A stream whose worker died is noticed when it does not answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django_mcp.pubsub import bus, publisher

PATIENCE = 0.3
"""Seconds in which a stream on another worker says that it has the word."""
LONG_PATIENCE = 5.0
"""Seconds in which it then finishes what it was saying."""

LogPosition = int | None


class ActiveStream:
    """The part of one stream in that agreement."""

    def __init__(
        self,
        session: str,
        name: str,
        *,
        speak: Callable[[LogPosition], None],
        fall_silent: Callable[[], Awaitable[LogPosition]],
    ) -> None:
        """``speak`` is called with how far the client was told, if that is known here."""
        self.has_word = False
        self._at = time.time_ns()
        self._session = session
        self._name = name
        self._speak = speak
        self._fall_silent = fall_silent
        self._newer: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_waiting = False

    async def open(self) -> None:
        """Ask for the word; it is taken when nobody answers."""
        self._is_waiting = True
        await self._tell("opened", at=self._at)
        if self._is_waiting and self._timer is None:
            self._wait(PATIENCE if bus.shared_layer() is not None else 0)

    async def close(self, position: LogPosition) -> None:
        """Pass the word back."""
        had_word, self.has_word = self.has_word or self._is_waiting, False
        self._stop_waiting()
        await self._tell("closed", had_word=had_word, heard=position)

    def probe(self) -> None:
        """Ask whether there is still a newer stream, unless this one is the newest."""
        if not self.has_word and not self._is_waiting:
            self._newer.clear()
            self._is_waiting = True
            self._wait(PATIENCE)
            self._tell_soon("probed")

    def hear(self, message: bus.Message) -> None:
        """Take what another stream of the session says."""
        if message["stream"] != self._name and message.get("to", self._name) == self._name:
            STEPS[message["standing"]](self, message)

    # What another stream says.

    def _opened(self, message: bus.Message) -> None:
        other = message["stream"]
        if self._is_waiting and (message["at"], other) < (self._at, self._name):
            # Both have only just opened, and this one is the newer.
            self._tell_soon("present", to=other)
            return
        self._newer[other] = None
        if self.has_word:
            self.has_word = False
            self._tell_soon("yielding", to=other)
            bus.spawn(self._yield(other))
        elif self._is_waiting:
            # The word is on its way to us: let the other one wait until we can pass it on.
            self._tell_soon("yielding", to=other)

    def _yielding(self, _: bus.Message) -> None:
        if self._is_waiting:
            self._wait(LONG_PATIENCE)

    def _yielded(self, message: bus.Message) -> None:
        self._newer.pop(message["stream"], None)
        if not self.has_word:
            self._stop_waiting()
            self._take_or_pass_on(message["heard"])

    def _closed(self, message: bus.Message) -> None:
        self._newer.pop(message["stream"], None)
        if message["had_word"] and not self._newer and not self.has_word:
            self._stop_waiting()
            self._take_or_pass_on(message["heard"])

    def _probed(self, message: bus.Message) -> None:
        if message["stream"] not in self._newer:
            self._tell_soon("present", to=message["stream"])

    def _present(self, message: bus.Message) -> None:
        self._newer[message["stream"]] = None
        self._stop_waiting()

    # What this one does.

    async def _yield(self, to: str) -> None:
        await self._tell("yielded", to=to, heard=await self._fall_silent())

    def _take_or_pass_on(self, position: LogPosition) -> None:
        if self._newer:
            self._tell_soon("yielded", to=[*self._newer][-1], heard=position)
        else:
            self.has_word = True
            self._speak(position)

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._waited)

    def _waited(self) -> None:
        self._stop_waiting()
        self._take_or_pass_on(None)

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _tell(self, what: str, **facts: Any) -> None:
        await publisher.send_to_session(self._session, "standing", **self._told(what, facts))

    def _tell_soon(self, what: str, **facts: Any) -> None:
        told = {"event": "standing", **self._told(what, facts)}
        bus.publish_soon(publisher.of_session(self._session), told)

    def _told(self, what: str, facts: dict[str, Any]) -> dict[str, Any]:
        return {"standing": what, "stream": self._name, **facts}


STEPS: Mapping[str, Callable[[ActiveStream, bus.Message], None]] = {
    "opened": ActiveStream._opened,
    "yielding": ActiveStream._yielding,
    "yielded": ActiveStream._yielded,
    "closed": ActiveStream._closed,
    "probed": ActiveStream._probed,
    "present": ActiveStream._present,
}
"""What a stream does when it hears this of another one."""
