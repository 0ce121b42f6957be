"""The principals of commands, which act for a user of the site or for nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.management.base import CommandError, CommandParser

from django_mcp.core.auth import selection
from django_mcp.core.auth.base import Principal
from django_mcp.core.auth.selection import Selection


def add_arguments(parser: CommandParser) -> None:
    """Add the options which name the caller."""
    parser.add_argument("--user", help="username of whoever calls; without it, nobody does")
    parser.add_argument(
        "--scope", action="append", default=[], help="a scope of the caller; may be repeated"
    )


def add_selection_arguments(parser: CommandParser) -> None:
    """Add the options which select components, as the query of a URL does."""
    parser.add_argument("--groups", help="only the components of these groups: tickets,billing")
    parser.add_argument(
        "--read-only", action="store_true", help="only what is declared to change nothing"
    )
    parser.add_argument(
        "--all-tools", action="store_true", help="list all tools, where the server lists few"
    )


def selected(options: Mapping[str, Any]) -> Selection | None:
    """Return the selected caller; raises CommandError."""
    try:
        groups = [] if options["groups"] is None else selection.read_groups(options["groups"])
        return selection.of_names(
            groups, read_only=options["read_only"], all_tools=options["all_tools"]
        )
    except ValueError as error:
        raise CommandError(str(error)) from error


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
