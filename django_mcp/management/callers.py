"""The principals of commands, which act for a user of the site or for nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.management.base import CommandError, CommandParser

from django_mcp.auth.base import Principal


def add_arguments(parser: CommandParser) -> None:
    """Add the options which name the caller."""
    parser.add_argument("--user", help="username of whoever calls; without it, nobody does")
    parser.add_argument(
        "--scope", action="append", default=[], help="a scope of the caller; may be repeated"
    )


def principal(scheme: str, username: str | None, scopes: Iterable[str]) -> Principal:
    """Return the caller; raises CommandError for an unknown or deactivated user."""
    user: Any = AnonymousUser() if username is None else _user(username)
    return Principal(scheme=scheme, user=user, scopes=frozenset(scopes))


def _user(username: str) -> Any:
    model = get_user_model()
    try:
        user = model._default_manager.get_by_natural_key(username)
    except model.DoesNotExist as error:
        raise CommandError(f"There is no user {username!r}") from error
    if not user.is_active:
        raise CommandError(f"The user {username!r} is deactivated")
    return user
