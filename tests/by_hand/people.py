"""People who are known by a header."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from django.core.checks import CheckMessage, run_checks

from django_mcp.core.auth.base import Principal


@dataclass
class Person:
    """A user, as far as this package looks at users."""

    pk: int
    permissions: set[str] = field(default_factory=set)
    looked_up: int = 0
    is_authenticated = True
    is_active = True
    is_anonymous = False

    async def ahas_perm(self, name: str, obj: Any = None) -> bool:
        self.looked_up += 1
        await asyncio.sleep(0)
        return name in self.permissions

    def has_perm(self, name: str, obj: Any = None) -> bool:
        self.looked_up += 1
        return name in self.permissions

    def get_username(self) -> str:
        return f"user-{self.pk}"


class ByHeader:
    """``Authorization: Bearer 1`` is the user 1."""

    def __init__(self, *users: Person, subject: bool = True) -> None:
        self.users = {str(user.pk): user for user in users}
        self.subject = subject

    async def authenticate(self, scope: Any, /) -> Principal | None:
        header = dict(scope["headers"]).get(b"authorization", b"").decode()
        user = self.users.get(header.rpartition(" ")[2])
        if user is None:
            return None
        subject = str(user.pk) if self.subject else ""
        return Principal(scheme="token", subject=subject, user=user)


def bearer(user: int) -> dict[str, str]:
    return {"authorization": f"Bearer {user}"}


def problems(*, deploy: bool = False) -> list[CheckMessage]:
    found = run_checks(include_deployment_checks=deploy)
    return [message for message in found if (message.id or "").startswith("django_mcp.")]
