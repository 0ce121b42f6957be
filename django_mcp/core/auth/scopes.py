"""Scopes of access tokens, and which of them include others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Hierarchy = Mapping[str, Iterable[str]]
"""The scopes which a scope includes, by its name."""


def grants(granted: frozenset[str], needed: Iterable[str], hierarchy: Hierarchy) -> bool:
    """Whether ``granted``, with all scopes that they include, has every one of ``needed``."""
    missing = {*needed} - granted
    return not missing or (bool(hierarchy) and missing <= included(granted, hierarchy))


def included(granted: Iterable[str], hierarchy: Hierarchy) -> set[str]:
    """Return ``granted`` with all scopes that they include, directly or not."""
    scopes: set[str] = set()
    waiting = [*granted]
    while waiting:
        scope = waiting.pop()
        if scope not in scopes:
            scopes.add(scope)
            waiting.extend(hierarchy.get(scope, ()))
    return scopes
