"""Standalone streams of sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from django_mcp.core.auth.base import Principal

INITIAL_NOTIFICATIONS = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
]


async def has_no_output(*streams: Any) -> bool:
    """Whether these streams have no events, after all pending work is done."""
    for _ in range(20):
        await asyncio.sleep(0)
    return all(stream._outgoing.empty() for stream in streams)


class NameHeaderAuthentication:
    """Trusts the header of the caller."""

    async def authenticate(self, scope: Any, /) -> Any:
        name = dict(scope["headers"])[b"x-name"].decode()
        return Principal(scheme="named", subject=name)


ACCEPT_RESULT = {"action": "accept", "content": {"name": "Ann"}}
