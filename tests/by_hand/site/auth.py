"""Authenticators of the site."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model

from django_mcp.core.auth.base import Challenge, Principal


class UserName:
    """``Authorization: Bearer`` with the name of a user, who is looked up."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal | Challenge | None:
        header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        if not header:
            return None
        name = header.partition(" ")[2]
        user = await get_user_model().objects.filter(username=name, is_active=True).afirst()
        if user is None:
            return Challenge()
        await asyncio.sleep(0)
        return Principal(scheme="token", subject=str(user.pk), user=user)
