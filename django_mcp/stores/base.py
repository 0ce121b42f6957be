"""SessionStore and EventStore: the contracts, in words.

A store is named in ``DJANGO_MCP["STORES"]`` as ``{"BACKEND": dotted path, "OPTIONS": {…}}``.
To add one, write a sibling of this file and run ``django_mcp.testing.contracts`` on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django_mcp.session import Change, Session


class StoreFull(Exception):
    """A bound of the store is reached; the request that needed more is refused."""


class SessionStore(ABC):
    """Keeps sessions until they end or nobody has used them for ``idle_timeout`` seconds.

    What one worker has written, every other worker reads; an expired session is as unknown
    as one that never was.
    """

    def __init__(self, *, idle_timeout: float, limit_per_principal: int) -> None:
        self.idle_timeout = idle_timeout
        self.limit_per_principal = limit_per_principal

    @abstractmethod
    async def create(self, session: Session) -> None:
        """Keep a new session; raises StoreFull when its principal has too many."""

    @abstractmethod
    async def load(self, session_id: str) -> Session | None:
        """The session, which counts as used now, or None when there is none of this id."""

    @abstractmethod
    async def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        """Apply ``changes`` to the session as it is now, atomically; None when it has ended.

        Updates that run at once are applied one after the other, none is lost.
        """

    @abstractmethod
    async def touch(self, session_id: str) -> None:
        """Count the session as used now: an open stream keeps its session alive by this."""

    @abstractmethod
    async def delete(self, session_id: str) -> bool:
        """End the session; False when there was none."""

    @abstractmethod
    async def subscribers(self, server: str, uri: str) -> list[str]:
        """The ids of the live sessions of ``server`` that subscribed to the resource ``uri``."""

    @abstractmethod
    async def prune(self) -> int:
        """Forget expired sessions; how many there were."""


@dataclass(frozen=True, slots=True)
class Event:
    """One message of a stream: its number in the stream, from 1, and its JSON text."""

    number: int
    data: str


class EventStore(ABC):
    """Keeps the messages of streams for clients that lost their connection.

    A stream is named by an opaque string and belongs to one session. Numbers grow by one
    within a stream. At most ``limit`` events of a stream are kept, the newest, and none
    longer than ``lifetime`` seconds.
    """

    def __init__(self, *, limit: int, lifetime: float) -> None:
        self.limit = limit
        self.lifetime = lifetime

    @abstractmethod
    async def append(self, session_id: str, stream: str, data: Iterable[str]) -> int:
        """Keep messages at the end of the stream; the number of the last one."""

    @abstractmethod
    async def after(self, session_id: str, stream: str, number: int) -> list[Event] | None:
        """The events after ``number``, in order; None when this session has no such stream."""

    @abstractmethod
    async def close(self, session_id: str, stream: str) -> None:
        """Note that nothing more will be appended; what is kept stays until it expires."""

    @abstractmethod
    async def is_closed(self, session_id: str, stream: str) -> bool:
        """Whether nothing more will be appended; True for an unknown stream as well."""

    @abstractmethod
    async def forget(self, session_id: str) -> None:
        """Forget every stream of the session."""

    @abstractmethod
    async def prune(self) -> int:
        """Forget what is too old; how many events there were."""
