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
    active_stream: Json = field(default_factory=dict)
    """The lease of the GET stream which sends, and its position in the server's log."""
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
    """Set an area that is empty."""
    return session if getattr(session, change.area) else _with(session, change.area, change.value)


def _lease(session: Session, change: Change) -> Session:
    """The first holder keeps the lease until release or expiry."""
    held = getattr(session, change.area)
    is_held = bool(held) and held["by"] != change.key and held["until"] > change.value["now"]
    lease = {"by": change.key, "until": change.value["until"]}
    return session if is_held else _with(session, change.area, lease)


def _release(session: Session, change: Change) -> Session:
    held = getattr(session, change.area)
    return _with(session, change.area, {}) if held.get("by") == change.key else session


def _activate(session: Session, change: Change) -> Session:
    """Lease the area to a stream; with ``limit`` in the value, as the successor of its holder.

    The holder then has until ``limit`` to hand over. ``position`` is recorded for the holder only.
    """
    held, value = getattr(session, change.area), change.value
    is_holder = held.get("by") == change.key
    if is_holder and "next" in held:
        return session
    if is_holder or held.get("until", 0) <= value["now"]:
        kept = {**held, **value} if is_holder else held
        previous = {"previous": held["previous"]} if is_holder and "previous" in held else {}
        lease = {"by": change.key, "until": value["until"], "position": kept.get("position")}
        return _with(session, change.area, {**previous, **lease})
    if "limit" not in value:
        return session
    until = min(held["until"], value["limit"])
    return _with(session, change.area, {**held, "next": change.key, "until": until})


def _hand_over(session: Session, change: Change) -> Session:
    """Pass the lease of a stream and its position on to its successor, or release it."""
    held, value = dict(getattr(session, change.area)), change.value
    if held.get("next") == change.key:
        del held["next"]
    elif held.get("by") == change.key:
        position, successor = value.get("position"), held.get("next")
        held = {"position": held.get("position") if position is None else position}
        if successor is not None:
            held |= {"by": successor, "until": value["until"], "previous": change.key}
    return _with(session, change.area, held)


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
    "release": _release,
    "activate": _activate,
    "hand_over": _hand_over,
    "include": _include,
    "exclude": _exclude,
}
"""``set`` replaces an area; ``put``, ``remove`` and ``clear`` work on mappings, and ``note``, which
keeps the newest few; ``include`` and ``exclude`` work on sets. ``claim``, ``lease`` and
``release`` give something to one holder; ``activate`` and ``hand_over`` to the newest stream."""

NOTES = 20
"""How many notes an area keeps which clients write at will."""
