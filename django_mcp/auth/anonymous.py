"""Everyone may call. An endpoint has to say so, since silence must not mean open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser

from django_mcp.auth.base import Principal

EVERYONE = Principal(scheme="public", user=AnonymousUser())


class AnonymousAuthentication:
    """Accepts every caller, as nobody in particular."""

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        """Everyone is the same principal, with Django's anonymous user."""
        return EVERYONE
