"""Principal, Authenticator and Challenge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    ``scheme`` and ``subject`` together identify the caller; sessions and signed state are bound
    to them. ``user`` is the Django user, whose primary key is the subject unless one is given.
    """

    scheme: str
    subject: str = ""
    user: Any = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Two users must never be one principal; raises ValueError for a user without a key."""
        user = self.user
        if self.subject or user is None or not getattr(user, "is_authenticated", True):
            return
        if getattr(user, "pk", None) is None:
            raise ValueError(f"A Principal with the user {user!r} needs a subject")
        object.__setattr__(self, "subject", str(user.pk))

    @property
    def key(self) -> str:
        """The identity to which sessions, cursors and signed state are bound."""
        return f"{self.scheme}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A rejection with an HTTP status, and headers which describe how to authenticate."""

    status: int = 401
    headers: tuple[tuple[bytes, bytes], ...] = ()
    message: str = "Authentication required"


class Authenticator(Protocol):
    """One authentication scheme.

    It returns a Principal for valid credentials, a Challenge for invalid credentials of its
    scheme, and None without such credentials: the next authenticator is then tried.
    """

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        """Authenticate the request of this ASGI ``scope``."""
