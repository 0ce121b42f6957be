"""Answers of permissions for the pages of one list: each permission is asked once for all.

The cursor of the next page names the answers, which are kept in this process for a minute, and for
a bounded number of components. Another worker asks again. A call always asks.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from django_mcp.core.components.base import Component
    from django_mcp.core.frame.frame import Frame

LIFETIME = 60.0
MAX_ANSWERS = 50_000
"""Answers of all lists together: some megabytes."""

Answers = dict["Component", bool]


class _Kept(NamedTuple):
    caller: Any
    answers: Answers
    until: float


class _Store:
    """The answers for all lists, the oldest first; its owner holds ``_lock``."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._count = 0
        """Answers of all lists: adding them up would take longer with each list."""

    def put(self, name: str, kept: _Kept) -> None:
        self._kept[name] = kept
        self._count += len(kept.answers)
        while self._kept:
            oldest, answer = next(iter(self._kept.items()))
            if self._count <= MAX_ANSWERS and answer.until >= time.monotonic():
                return
            self.pop(oldest)

    def pop(self, name: str) -> _Kept | None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._count -= len(kept.answers)
        return kept


_store = _Store()
_lock = Lock()


def is_kept(component: Component) -> bool:
    """Whether the permission depends on the caller alone, and may be asked once for a list."""
    permission = component.permission
    return isinstance(permission, str) or getattr(permission, "is_of_caller", False)


def take(frame: Frame, name: str) -> Answers:
    """Return the answers of the pages before, which no other page gets; empty if there are none."""
    with _lock:
        kept = _store.pop(name)
    if kept is None or kept.until < time.monotonic() or kept.caller != _caller(frame):
        return {}
    return kept.answers


def keep(frame: Frame, answers: Answers) -> str:
    """Keep the answers for the next page, and return their name."""
    name = secrets.token_urlsafe(6)
    kept = _Kept(_caller(frame), answers, time.monotonic() + LIFETIME)
    with _lock:
        _store.put(name, kept)
    return name


def _caller(frame: Frame) -> Any:
    # The cursor is of this principal; another token of the same user may have other scopes.
    principal = frame.principal
    return (principal.key, principal.scopes, principal.selection, dict(principal.claims))
