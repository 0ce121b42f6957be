"""Whether a user has a permission, and a token the scopes: one answer for lists, calls and streams.

``has`` calls Django's ``user.has_perm``, through every backend of the site. It does not call
``ahas_perm``, which Django answers from its own tables where a backend or a user model overrides
``has_perm`` only. Since ``has_perm`` may query, it is called in a thread. The answers for a user of
a cached token are remembered as long as the principal is cached:

| the answers are | from | until |
|---|---|---|
| remembered | the moment when the principal is cached | TOKEN_CACHE_TTL is over, or ``forget`` |
| asked anew | ``forget``, after a change | the principal is cached again |

Every copy of the cached user shares them, those in open streams too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

ATTRIBUTE = "_mcp_permission_answers"
"""The attribute of a user with its answers. It is not on the principal, because middleware may
replace its user: the answers for one user must never be taken for another one."""


def _is_logged_in(user: Any) -> bool:
    return bool(user.is_authenticated and user.is_active)


def _is_staff(user: Any) -> bool:
    return _is_logged_in(user) and bool(user.is_staff)


def _is_superuser(user: Any) -> bool:
    return _is_logged_in(user) and bool(user.is_superuser)


USER_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "login_required": _is_logged_in,
    "staff_member": _is_staff,
    "superuser": _is_superuser,
}
"""The short words for permissions, which need no query; ``components.base`` names them."""


class Answers:
    """The answers of ``has_perm`` for one user, until a time of the monotonic clock."""

    __slots__ = ("by_permission", "until")

    def __init__(self, until: float) -> None:
        self.by_permission: dict[str, bool] = {}
        self.until = until


def remember(user: Any, until: float) -> None:
    """Remember answers for ``user`` and its copies from now on."""
    setattr(user, ATTRIBUTE, Answers(until))


def forget(user: Any) -> None:
    """Forget the answers for ``user`` and its copies, and the ones that are being asked for."""
    answers = getattr(user, ATTRIBUTE, None)
    if answers is not None:
        answers.until = 0.0


def is_remembered(user: Any) -> bool:
    """Whether the next answer for ``user`` will be remembered."""
    answers = getattr(user, ATTRIBUTE, None)
    return answers is not None and time.monotonic() < answers.until


def at_hand(user: Any, permission: str) -> bool | None:
    """Return the answer if it needs no query, else None."""
    if user is None:
        return False
    check = USER_CHECKS.get(permission)
    if check is not None:
        return check(user)
    answers = getattr(user, ATTRIBUTE, None)
    if answers is None or time.monotonic() >= answers.until:
        return None
    answer: bool | None = answers.by_permission.get(permission)
    return answer


def has(user: Any, permission: str) -> bool:
    """Return whether ``user`` has ``permission``: to be called where queries may run."""
    answer = at_hand(user, permission)
    if answer is not None:
        return answer
    # Before the question: an answer that is forgotten meanwhile must not be remembered.
    answers = getattr(user, ATTRIBUTE, None)
    answer = bool(user.has_perm(permission))
    if answers is not None:
        answers.by_permission[permission] = answer
    return answer


# Scopes of access tokens, which may include others.

Hierarchy = Mapping[str, Iterable[str]]
"""The scopes which a scope includes, by its name."""


def grants_scopes(granted: frozenset[str], needed: Iterable[str], hierarchy: Hierarchy) -> bool:
    """Whether ``granted``, with all scopes that they include, has every one of ``needed``."""
    missing = {*needed} - granted
    return not missing or (bool(hierarchy) and missing <= included_scopes(granted, hierarchy))


def included_scopes(granted: Iterable[str], hierarchy: Hierarchy) -> set[str]:
    """Return ``granted`` with all scopes that they include, directly or not."""
    scopes: set[str] = set()
    waiting = [*granted]
    while waiting:
        scope = waiting.pop()
        if scope not in scopes:
            scopes.add(scope)
            waiting.extend(hierarchy.get(scope, ()))
    return scopes
