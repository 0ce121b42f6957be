"""The state of one client between its requests, in revisions with sessions.

A session is an immutable value. A call records its changes as a list, and each change names one
key. So concurrent calls, also on different workers, never overwrite each other's changes. This
module knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from django_mcp.core.protocol.errors import Json


@lru_cache(maxsize=1024)
def address(session_id: str) -> str:
    """The hash of a session for stores, channel groups and logs: its id is a credential."""
    return sha256(session_id.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a session: ``action`` on ``key`` of its ``area``.

    An area is a field of ``Session``, and ``ACTIONS`` is the table of the actions.
    """

    area: str
    action: str
    key: str = ""
    value: Any = None


EMPTY: Json = MappingProxyType({})


class Session(NamedTuple):
    """One client's session, opened by ``initialize`` and bound to the principal who opened it.

    A session that an anonymous caller has opened is bound to the first principal who authenticates
    in it, once.

    It is a named tuple, because each request makes one, and a frozen dataclass takes 3 µs longer.
    """

    id: str
    server: str
    principal: str
    version: str
    caller: str = ""
    """The key that sessions are counted by, since anonymous callers have no principal."""
    client_info: Json = EMPTY
    client_capabilities: Json = EMPTY
    init_meta: Json = EMPTY
    initialized: bool = False
    initializer: str = ""
    """The request that runs the server's ``init`` hook: the first one to claim it."""
    lock: Json = EMPTY
    """The session lock, where requests are serialized."""
    log_level: str | None = None
    pagination_limit: int | None = None
    assigns: Json = EMPTY
    components: Mapping[str, Json] = EMPTY
    """Runtime components as JSON, by kind and key."""
    private: Json = EMPTY
    """Private data under a site's own keys."""
    subscriptions: frozenset[str] = frozenset()
    """URIs of the resources that the client is subscribed to."""
    anonymous_at: str | None = None
    """The endpoint of the anonymous caller that opened it; None for the session of a principal."""
    log_position: int | None = None
    """How far its GET streams have sent the server's log; it may be a minute old."""
    opened_at: float | None = None
    """When it was opened, in seconds since the epoch; None where its duration is not measured."""
    cancelled: Mapping[str, float] = EMPTY
    """The times when requests were cancelled, by key, for the workers that answer them."""

    @property
    def address(self) -> str:
        return address(self.id)

    @property
    def counted_as(self) -> str:
        """Sessions with the same value count together toward the limit of the session store."""
        return self.caller or self.principal

    def apply(self, changes: Iterable[Change]) -> Session:
        """Return the session after ``changes``; raises KeyError for an unknown action."""
        session = self
        for change in changes:
            present = getattr(session, change.area)
            changed = ACTIONS[change.action](present, change)
            if changed is not present:
                session = session._replace(**{change.area: changed})
        return session

    def for_principal(self, principal: str, caller: str) -> list[Change]:
        """The changes that bind an anonymous session to a principal.

        Its values are dropped, as Django flushes a session at login: whoever opened it must not
        leave anything there for somebody else.
        """
        flushed = [Change(area, "set", value=self._field_defaults[area]) for area in FLUSHED]
        return [
            Change("principal", "set", value=principal),
            Change("caller", "set", value=caller),
            Change("anonymous_at", "set", value=None),
            *flushed,
        ]

    def to_json(self) -> dict[str, Any]:
        """Its values as JSON has them, without those that are equal to the default."""
        values: dict[str, Any] = {}
        for name, value in zip(self._fields, self, strict=True):
            default = self._field_defaults.get(name)
            if value is default or value == default:
                continue
            values[name] = dict(value) if type(value) is MappingProxyType else value
        if self.subscriptions:
            values["subscriptions"] = sorted(self.subscriptions)
        return values

    @classmethod
    def from_json(cls, value: Json) -> Session:
        """Return the session that ``to_json`` described; unknown members are ignored."""
        if "subscriptions" in value:
            value = {**value, "subscriptions": frozenset(value["subscriptions"])}
        if not value.keys() <= FIELDS:
            value = {name: value[name] for name in FIELDS & value.keys()}
        return cls(**value)


FIELDS = frozenset(Session._fields)
FLUSHED = (
    "lock",
    "log_level",
    "pagination_limit",
    "assigns",
    "components",
    "private",
    "subscriptions",
    "cancelled",
)
"""The fields that a session loses when a principal takes it over from an anonymous caller."""


MAX_NOTES = 20
"""Keys that ``note`` keeps in an area."""


def _claim(present: Any, change: Change) -> Any:
    """Set an area that is empty."""
    return present or change.value


def _note(present: Any, change: Change) -> Any:
    """Put a key, and keep the newest ones only: clients may add any number."""
    notes = {**present, change.key: change.value}
    newest = [*notes.items()][-MAX_NOTES:]
    return dict(newest)


def _remove(present: Any, change: Change) -> Any:
    return {key: value for key, value in present.items() if key != change.key}


def _advance(present: Any, change: Change) -> Any:
    """Set a number unless it is smaller: changes may arrive late."""
    return max(present or 0, change.value)


def _lease(lease: Any, change: Change) -> Any:
    """Take a lease; the first holder keeps it until release or expiry."""
    if lease and lease["by"] != change.key and lease["until"] > change.value["now"]:
        return lease
    return {"by": change.key, "until": change.value["until"]}


def _renew(lease: Any, change: Change) -> Any:
    """Extend a lease for its holder; it may have been released by now, as changes may be late."""
    if lease.get("by") == change.key:
        return {"by": change.key, "until": change.value["until"]}
    return lease


def _release(lease: Any, change: Change) -> Any:
    """End a lease, unless somebody else holds it."""
    if lease.get("by") == change.key:
        return {}
    return lease


ACTIONS: Mapping[str, Callable[[Any, Change], Any]] = {
    # Any area.
    "set": lambda present, change: change.value,
    "claim": _claim,
    # Mappings.
    "put": lambda present, change: {**present, change.key: change.value},
    "note": _note,
    "remove": _remove,
    "clear": lambda present, change: {},
    # Sets.
    "include": lambda present, change: present | {change.key},
    "exclude": lambda present, change: present - {change.key},
    # Numbers.
    "advance": _advance,
    # Leases.
    "lease": _lease,
    "renew": _renew,
    "release": _release,
}
"""The value of an area after each action."""
