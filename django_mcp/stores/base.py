"""SessionStore and EventStore: the contracts, in words.

A store is named in ``DJANGO_MCP["STORES"]`` as ``{"BACKEND": dotted path, "OPTIONS": {…}}``.
To add one, write a sibling of this file and run ``django_mcp.testing.contracts`` on it.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import from_json

from django_mcp.frame.session import Change, Session

Clock = Callable[[], float]
"""Seconds since 1970. Every worker which shares a store must have the same time."""

ABANDONED = 24 * 60 * 60.0
"""After so many seconds of silence a stream which nobody closed was left behind by a worker
that died."""

PATIENCE = 10.0
"""Seconds after which a writer gives up who is overtaken, or locked out, every time."""


class StoreFull(Exception):
    """A bound of the store is reached; the request that needed more is refused."""


class StoreBusy(Exception):
    """Others held what was needed for longer than anybody should wait."""


class SessionStore(ABC):
    """Keeps sessions until they end or nobody has used them for ``idle_timeout`` seconds.

    What one worker has written, every other worker reads; an expired session is as unknown
    as one that never was. Use is noted to a twentieth of ``idle_timeout``, which spares most
    loads a write.

    The id of a session is its client's secret, so a store keeps it under its address.
    """

    def __init__(
        self, *, idle_timeout: float, limit_per_principal: int, now: Clock = time.time
    ) -> None:
        self.idle_timeout = idle_timeout
        self.limit_per_principal = limit_per_principal
        self.now = now
        self.grain = idle_timeout / 20
        """Use is noted again when it was noted so long ago."""

    @abstractmethod
    async def create(self, session: Session) -> None:
        """Keep a new session; raises StoreFull when its principal has too many."""

    @abstractmethod
    async def load(self, session_id: str) -> Session | None:
        """The session, which counts as used now, or None when there is none of this id."""

    @abstractmethod
    async def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        """Apply ``changes`` to the session as it is now, atomically; None when it has ended.

        Updates that run at once are applied one after the other, none is lost. The session
        counts as used now. Raises TypeError for a value which JSON cannot say.
        """

    @abstractmethod
    async def touch(self, session_id: str) -> None:
        """Count the session as used now: an open stream keeps its session alive by this."""

    @abstractmethod
    async def delete(self, session_id: str) -> bool:
        """End the session; False when there was none."""

    @abstractmethod
    async def subscribers(self, server: str, uri: str) -> list[str]:
        """The addresses of the live sessions of ``server`` that subscribed to ``uri``."""

    @abstractmethod
    async def prune(self) -> int:
        """Forget expired sessions; how many there were."""

    # For those who write a store.

    @property
    def oldest_use(self) -> float:
        """A session which was not used since is expired."""
        return self.now() - self.idle_timeout

    def is_live(self, used_at: float) -> bool:
        """Whether a session is not expired which was used then."""
        return used_at > self.oldest_use

    def is_worth_noting(self, used_at: float) -> bool:
        """Whether it is time to note another use of a session whose use was noted then."""
        return self.now() - used_at >= self.grain


@dataclass(frozen=True, slots=True)
class Event:
    """One message of a stream: its number in the stream, from 1, and its JSON text."""

    number: int
    data: str


class EventStore(ABC):
    """Keeps the messages of streams for clients that lost their connection.

    A stream is named by an opaque string and belongs to one session, which is named by its
    address. Numbers grow by one within a stream. At most ``limit`` events of a stream are
    kept, the newest, and none longer than ``lifetime`` seconds. A session has at most
    ``streams`` streams: for a further one the closed stream is forgotten that was quiet for
    the longest time.

    A closed stream is known for ``lifetime`` seconds more, an open one until it was silent for
    a day: its numbers must go on, even when all its events are too old.
    """

    def __init__(
        self, *, limit: int, lifetime: float, streams: int, now: Clock = time.time
    ) -> None:
        self.limit = limit
        self.lifetime = lifetime
        self.streams = streams
        self.now = now

    @abstractmethod
    async def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        """Keep messages at the end of the stream; the number of the last one.

        The first append makes the stream known, also one without messages. Raises StoreFull
        when the session has too many streams and none of them is closed.
        """

    @abstractmethod
    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        """The events after ``number``, in order; None when this session has no such stream."""

    @abstractmethod
    async def move(self, session: str, source: str, target: str) -> list[Event]:
        """Take the events out of one stream and append them to another, at once.

        Of all who move from the same stream each event goes to one alone. The events with
        their new numbers, in order; none when there is no such source.
        """

    @abstractmethod
    async def close(self, session: str, stream: str) -> None:
        """Note that nothing more will be appended; what is kept stays until it expires."""

    @abstractmethod
    async def is_closed(self, session: str, stream: str) -> bool:
        """Whether nothing more will be appended; True for an unknown stream as well."""

    @abstractmethod
    async def forget(self, session: str) -> None:
        """Forget every stream of the session."""

    @abstractmethod
    async def prune(self) -> int:
        """Forget what is too old; how many events there were."""

    # For those who write a store.

    def keeps_stream(self, touched_at: float, *, closed: bool) -> bool:
        """Whether a stream is known still that was appended to, or closed, then."""
        return self.now() - touched_at < self.stream_lifetime(closed=closed)

    def stream_lifetime(self, *, closed: bool) -> float:
        """How long a stream is known after it was appended to or closed."""
        return self.lifetime if closed else max(self.lifetime, ABANDONED)


def pack(session: Session) -> str:
    """The session as text without its id; raises TypeError for a value which JSON cannot say.

    What is as in a new session is left out: each request reads the text.
    """
    values = {name: value for name, value in session.to_json().items() if value != _NEW.get(name)}
    del values["id"]
    return _ENCODER.encode(values)


def unpack(text: str, *, session_id: str) -> Session:
    """The session that ``pack`` wrote down."""
    values: dict[str, Any] = _read(text)
    values["id"] = session_id
    return Session.from_json(values)


def _read(text: str) -> Any:
    """The value of JSON text, by the parser which takes a fifth of the time of Python's own.

    Python's own reads what the other refuses: half of a surrogate pair, and deep nesting.
    """
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def digest(*parts: str) -> str:
    """A name of fixed length and alphabet, fit for any index and any cache."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"A session remembers only what JSON can say, and {type(value).__name__} is not that. "
        "Assign a number, a text, a list or a dict instead, such as the primary key of a row."
    )


_NEW = Session(id="", server="", principal="", version="").to_json()
_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))
