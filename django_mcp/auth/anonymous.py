"""Anonymous access, which must be configured explicitly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser

from django_mcp.core.auth.base import Principal

ANONYMOUS = Principal(scheme="public", user=AnonymousUser())


class AnonymousAuthentication:
    """Accepts every caller as anonymous."""

    scheme = None
    accepts_all = True

    async def authenticate(self, scope: Mapping[str, Any], /) -> Principal:
        """Return the same principal for everyone, with Django's anonymous user."""
        return ANONYMOUS
