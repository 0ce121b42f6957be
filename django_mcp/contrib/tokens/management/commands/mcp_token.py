"""manage.py mcp_token: creates, lists and revokes personal access tokens."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from django_mcp import registry
from django_mcp.contrib.tokens.forms import (
    DEFAULT_LIFETIME,
    known_groups,
    known_scopes,
    known_servers,
)
from django_mcp.contrib.tokens.models import MAX_NAME_LENGTH, PersonalAccessToken
from django_mcp.core.protocol.limits import MAX_INTEGER

MAX_DAYS = 36_500


class Command(BaseCommand):
    help = "Creates, lists and revokes personal access tokens for MCP servers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create a token, and print it once")
        create.add_argument("user", help="the name of the user as whom the token authenticates")
        create.add_argument("--name", required=True, help="what the token is for")
        create.add_argument("--scope", action="append", default=[], dest="scopes", metavar="SCOPE")
        create.add_argument(
            "--server", action="append", default=[], dest="servers", metavar="SERVER",
            help="a server that accepts the token; without any, all of the site do",
        )  # fmt: skip
        create.add_argument(
            "--group", action="append", default=[], dest="groups", metavar="GROUP",
            help="a group of components that the token is for; without any, all of them",
        )  # fmt: skip
        create.add_argument(
            "--read-only", action="store_true", help="only for what changes nothing"
        )
        create.add_argument(
            "--days", type=int, default=DEFAULT_LIFETIME, metavar="N",
            help="the lifetime of the token; 0 for no limit (default: %(default)s)",
        )  # fmt: skip
        show = actions.add_parser("list", help="list tokens, newest first")
        show.add_argument("--user", help="only those of this user")
        show.add_argument("--json", action="store_true", help="print them as JSON")
        revoke = actions.add_parser("revoke", help="revoke tokens")
        revoke.add_argument("ids", nargs="*", type=int, metavar="ID", help="as listed")
        revoke.add_argument("--user", help="all tokens of this user")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        run: dict[str, Callable[..., None]] = {
            "create": self._create,
            "list": self._list,
            "revoke": self._revoke,
        }
        run[action](**options)

    @sensitive_variables("token")
    def _create(
        self,
        user: str,
        name: str,
        scopes: list[str],
        servers: list[str],
        groups: list[str],
        read_only: bool,
        days: int,
        **_: Any,
    ) -> None:
        owner = find_user(user)
        if not owner.is_active:
            raise CommandError(f"The user {user!r} is not active, so that no token is accepted.")
        if not name.strip() or len(name) > MAX_NAME_LENGTH:
            raise CommandError(f"--name must have 1 to {MAX_NAME_LENGTH} characters.")
        if not 0 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be a number from 0 to {MAX_DAYS}.")
        check_servers(servers)
        check_scopes(scopes)
        check_groups(groups)
        expires_at = timezone.now() + timedelta(days=days) if days else None
        row, token = PersonalAccessToken.objects.issue(
            owner,
            name.strip(),
            scopes=scopes,
            servers=servers,
            groups=groups,
            read_only=read_only,
            expires_at=expires_at,
        )
        # The token alone on standard output, where a script takes it from.
        self.stderr.write(f"Created token {row.pk}. It is not shown again:")
        self.stdout.write(token)

    def _list(self, user: str | None, json: bool, **_: Any) -> None:
        tokens = PersonalAccessToken.objects.select_related("owner")
        if user is not None:
            tokens = tokens.filter(owner=find_user(user))
        rows = [facts(token) for token in tokens.iterator(chunk_size=500)]
        if json:
            self.stdout.write(as_json(rows))
        elif not rows:
            self.stdout.write("There are no tokens.")
        else:
            self._write_table(rows)

    def _write_table(self, rows: list[dict[str, Any]]) -> None:
        limits = ("scopes", "servers", "groups", "access")
        columns = ("id", "user", "name", "token", "status", *limits, "expires", "used")
        cells = [[cell(row[column]) for column in columns] for row in rows]
        table = [[column.upper() for column in columns], *cells]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            self.stdout.write("  ".join(padded).rstrip())

    def _revoke(self, ids: list[int], user: str | None, **_: Any) -> None:
        if bool(ids) == (user is not None):
            raise CommandError("Name the ids of tokens, as listed by mcp_token list, or --user.")
        tokens = PersonalAccessToken.objects.all()
        if user is not None:
            tokens = tokens.filter(owner=find_user(user))
        else:
            # Some databases raise an error for a larger number.
            tokens = tokens.filter(pk__in=[id for id in ids if abs(id) < MAX_INTEGER])
            unknown = sorted({*ids} - {*tokens.values_list("pk", flat=True)})
            if unknown:
                raise CommandError(f"There is no token {', '.join(map(str, unknown))}.")
        self.stdout.write(f"Revoked {tokens.revoke()} tokens.")


def find_user(name: str) -> Any:
    model = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(name)
    except model.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None


def check_servers(names: list[str]) -> None:
    for name in names:
        try:
            registry.get(name)
        except LookupError as error:
            raise CommandError(f"{error}.") from None
        if name not in known_servers():
            raise CommandError(
                f"The MCP server {name!r} accepts no tokens: add "
                '"django_mcp.auth.token.TokenAuthentication" to its authenticators.'
            )


def check_scopes(names: list[str]) -> None:
    """Raise CommandError for a scope that no component, server or scope hierarchy names."""
    scopes = known_scopes()
    for name in names:
        if name not in scopes:
            offered = f"there are: {', '.join(scopes)}" if scopes else "the site has none"
            raise CommandError(f"There is no scope {name!r}; {offered}.")


def check_groups(names: list[str]) -> None:
    """Raise CommandError for a group that no component has."""
    groups = known_groups()
    for name in names:
        if name not in groups:
            offered = f"there are: {', '.join(groups)}" if groups else "the site has none"
            raise CommandError(f"There is no group {name!r}; {offered}.")


def facts(token: PersonalAccessToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "user": token.owner.get_username(),
        "name": token.name,
        "token": f"{token.start}…",
        "status": token.status,
        "scopes": token.scopes,
        "servers": token.servers or ["all"],
        "groups": token.groups or ["all"],
        "access": "read only" if token.read_only else "all",
        "expires": token.expires_at and token.expires_at.isoformat(timespec="minutes"),
        "used": token.last_used_at and token.last_used_at.isoformat(timespec="minutes"),
    }


def cell(value: Any) -> str:
    return (",".join(value) if isinstance(value, list) else str(value or "")) or "-"


def as_json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2, ensure_ascii=False)
