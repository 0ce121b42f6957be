"""Principal, Authenticator and Challenge: who is calling, who finds out, and what else to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls, as one authenticator vouches for it.

    ``scheme`` and ``subject`` together name a caller; sessions and signed state are bound to
    them. ``user`` is the Django user.
    """

    scheme: str
    subject: str = ""
    user: Any = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """What sessions, cursors and signed state of this caller are bound to."""
        return f"{self.scheme}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A refusal which says how to authenticate: the HTTP status and its headers."""

    status: int = 401
    headers: tuple[tuple[bytes, bytes], ...] = ()
    message: str = "Authentication required"


class Authenticator(Protocol):
    """One way of telling who calls.

    It answers a Principal for credentials it accepts, a Challenge for credentials of its kind
    which are no good, and None when it finds none of its kind: then the next one is asked.
    """

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        """Who sent the request of this ASGI ``scope``."""
        ...
