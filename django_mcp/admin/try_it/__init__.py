"""Calls of components from the admin, as the user who is logged in."""

from __future__ import annotations

from django.http import HttpRequest

PERMISSION = "django_mcp.try_component"


def may_try(request: HttpRequest) -> bool:
    """Whether the user may run components here, as far as each of them lets this user."""
    return request.user.has_perm(PERMISSION)
