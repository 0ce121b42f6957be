"""What is remembered of a client between its requests, in the revisions which have sessions.

A session is a frozen value; stores keep it. What a handler changed is recorded as a list of
changes, each naming one key, so that calls which run at once, also on different workers,
never lose each other's. It knows nothing of where sessions are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import sha256
from typing import Any

from django_mcp.frozen import quickly_made
from django_mcp.protocol.errors import Json


@lru_cache(maxsize=1024)
def address(session_id: str) -> str:
    """The name by which a session is kept and called from inside.

    Whoever has the id of a session has the session, so it is known to the client and to the
    message at hand alone. Stores, groups of the channel layer and logs hold its address, from
    which nobody can tell it. One request asks for it several times, which is why it is remembered.
    """
    return sha256(session_id.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a handler changed: ``action`` on ``key`` of the session's ``area``."""

    area: str
    action: str
    key: str = ""
    value: Any = None


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One client's session: opened by ``initialize``, bound to the principal who opened it."""

    id: str
    server: str
    principal: str
    version: str
    client_info: Json = field(default_factory=dict)
    client_capabilities: Json = field(default_factory=dict)
    init_meta: Json = field(default_factory=dict)
    initialized: bool = False
    initializer: str = ""
    """Who called the server's ``init``: whoever was the first to say so."""
    turn: Json = field(default_factory=dict)
    """Who answers a request of this session, where they are answered one after the other."""
    log_level: str | None = None
    pagination_limit: int | None = None
    assigns: Json = field(default_factory=dict)
    components: Mapping[str, Json] = field(default_factory=dict)
    """Components registered at run time, as specifications, by kind and key."""
    private: Json = field(default_factory=dict)
    """What a site keeps beside the assigns, under keys of its own."""
    subscriptions: frozenset[str] = frozenset()
    """URIs of the resources whose changes the client wants to hear of."""
    heard: int | None = None
    """How far the client was told what every client of the server is told; None for not at all."""
    cancelled: Mapping[str, float] = field(default_factory=dict)
    """Requests given up before they were seen to run: until when to remember, by key."""

    @property
    def address(self) -> str:
        """The name by which this session is kept and called from inside."""
        return address(self.id)

    def apply(self, changes: Iterable[Change]) -> Session:
        """This session after ``changes``; raises KeyError for an action that does not exist."""
        session = self
        for change in changes:
            session = ACTIONS[change.action](session, change)
        return session

    def to_json(self) -> dict[str, Any]:
        """The session as a JSON object."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {**values, "subscriptions": sorted(self.subscriptions)}

    @classmethod
    def from_json(cls, value: Json) -> Session:
        """The session that ``to_json`` described; members it does not know are left out."""
        known = {**value, "subscriptions": frozenset(value.get("subscriptions", ()))}
        if not known.keys() <= FIELDS:
            known = {name: known[name] for name in FIELDS & known.keys()}
        return cls(**known)


FIELDS = frozenset(entry.name for entry in fields(Session))


def _with(session: Session, area: str, value: Any) -> Session:
    # In half the time of ``replace``, which looks at each field anew.
    values = {name: getattr(session, name) for name in FIELDS}
    return Session(**{**values, area: value})


def _set(session: Session, change: Change) -> Session:
    return _with(session, change.area, change.value)


def _put(session: Session, change: Change) -> Session:
    area = {**getattr(session, change.area), change.key: change.value}
    return _with(session, change.area, area)


def _remove(session: Session, change: Change) -> Session:
    area = dict(getattr(session, change.area))
    area.pop(change.key, None)
    return _with(session, change.area, area)


def _clear(session: Session, change: Change) -> Session:
    return _with(session, change.area, {})


def _append_note(session: Session, change: Change) -> Session:
    area = {**getattr(session, change.area), change.key: change.value}
    return _with(session, change.area, dict([*area.items()][-NOTES:]))


def _claim(session: Session, change: Change) -> Session:
    """Whoever is first has it."""
    return session if getattr(session, change.area) else _with(session, change.area, change.value)


def _lease(session: Session, change: Change) -> Session:
    """Whoever is first has it, until she gives it back or her time is over."""
    held = getattr(session, change.area)
    is_held = bool(held) and held["by"] != change.key and held["until"] > change.value["now"]
    lease = {"by": change.key, "until": change.value["until"]}
    return session if is_held else _with(session, change.area, lease)


def _release(session: Session, change: Change) -> Session:
    held = getattr(session, change.area)
    return _with(session, change.area, {}) if held.get("by") == change.key else session


def _include(session: Session, change: Change) -> Session:
    return _with(session, change.area, getattr(session, change.area) | {change.key})


def _exclude(session: Session, change: Change) -> Session:
    return _with(session, change.area, getattr(session, change.area) - {change.key})


ACTIONS: Mapping[str, Callable[[Session, Change], Session]] = {
    "set": _set,
    "put": _put,
    "remove": _remove,
    "clear": _clear,
    "note": _append_note,
    "claim": _claim,
    "lease": _lease,
    "give_back": _release,
    "include": _include,
    "exclude": _exclude,
}
"""``set`` replaces an area; ``put``, ``remove`` and ``clear`` work on mappings, and ``note``, which
keeps the newest few; ``include`` and ``exclude`` work on sets. ``claim``, ``lease`` and
``give_back`` settle who has something that only one can have."""

NOTES = 20
"""How many notes an area keeps which clients write without being asked."""
