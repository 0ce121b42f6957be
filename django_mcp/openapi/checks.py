"""System checks of views as tools: those that are missing or need a token, and skipped middleware.

They examine the views without their schemas. Problems of schemas are found when the tools are
built: at the first use of a server, by ``mcp_show``, and by ``check --deploy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp import registry
from django_mcp.core.server.server import Server
from django_mcp.openapi import availability, batches
from django_mcp.openapi.availability import LeftOut
from django_mcp.openapi.calls import view_middleware

TAG = "django_mcp"


@register(TAG)
def check_views(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    for server in registry.servers():
        # Tables may not exist yet; the URLconf has checks of its own.
        with suppress(DatabaseError, ImproperlyConfigured, ImportError):
            batches.examine(server)
    servers = registry.servers()
    of_servers = [*_missing(servers), *_left_out(servers), *_secrets(servers)]
    return [*of_servers, *_skipped_middleware()]


def _skipped_middleware() -> Iterator[CheckMessage]:
    servers = [server for server in registry.servers() if availability.has_views(server)]
    skipped = view_middleware.skipped(servers)
    if skipped:
        yield Warning(
            "Calls of views as tools skip this middleware, which requests of the API go through: "
            f"{', '.join(skipped)}.",
            hint=view_middleware.HINT,
            id="django_mcp_openapi.W003",
        )


def _missing(servers: Sequence[Server]) -> Iterator[CheckMessage]:
    """One message for each cause: many actions, on several servers, may share it."""
    operations: dict[str, dict[str, str]] = {}
    names: dict[str, dict[str, None]] = {}
    for server in servers:
        for where, reason in availability.missing(server).items():
            cause = availability.cause_of(where, reason)
            operations.setdefault(cause, {}).setdefault(where, reason)
            names.setdefault(cause, {})[server.name] = None
    for cause, reasons in operations.items():
        first, *others = reasons
        also = f" The same holds for {_shown(others)}." if others else ""
        servers_named = ", ".join(map(repr, names[cause]))
        lack = "The MCP server {} lacks" if len(names[cause]) == 1 else "The MCP servers {} lack"
        reason = reasons[first]
        end = "" if reason.endswith((".", ")", "?")) else "."
        yield Warning(
            f"{lack.format(servers_named)} a tool: {reason}{end}{also}",
            hint="Correct it, or leave this operation out. All other tools work.",
            id="django_mcp_openapi.W001",
        )


def _shown(operations: Sequence[str]) -> str:
    others = f" and {len(operations) - SHOWN:,} others" if len(operations) > SHOWN else ""
    return f"{', '.join(operations[:SHOWN])}{others}"


def _left_out(servers: Sequence[Server]) -> Iterator[CheckMessage]:
    """The tools that some callers do not have: one message for all that one declaration opens."""
    readers: dict[str, dict[str, None]] = {}
    operations: dict[str, dict[str, None]] = {}
    for where, reader, authenticators in _of(servers, availability.without_token):
        readers.setdefault(authenticators, {})[reader] = None
        operations.setdefault(authenticators, {})[where] = None
    for authenticators, found_readers in readers.items():
        yield Warning(
            f"request.auth may be read by {_shown([*found_readers])}: by what decides about "
            f"{_shown([*operations[authenticators]])}. Callers of {authenticators} have no token "
            "of the API: for them, these are no tools.",
            hint=(
                "Say what request.auth is for such callers: by auth=… of rest_tools, or for all "
                'views by DJANGO_MCP["REST_AUTH"]. If the view may treat them like a login by '
                'session, it is "django_mcp.rest.without_token". Otherwise leave the views out.'
            ),
            id="django_mcp_openapi.W002",
        )
    yield from _of_other_classes(servers)


def _of_other_classes(servers: Sequence[Server]) -> Iterator[CheckMessage]:
    operations: dict[tuple[str, str], dict[str, None]] = {}
    for where, classes, authenticators in _of(servers, availability.without_class):
        operations.setdefault((classes, authenticators), {})[where] = None
    for (classes, authenticators), places in operations.items():
        yield Warning(
            f"{_shown([*places])}: these accept callers of {classes} only. For callers of "
            f"{authenticators}, they are no tools.",
            hint=(
                "Leave them out by exclude=…, or accept these callers by authenticated_by=[…] with "
                "the class, callback or security scheme for which they count. "
                "RESTFrameworkAuthentication and NinjaAuthentication need it among their own; "
                "openapi_tools has credentials=… as well."
            ),
            id="django_mcp_openapi.W002",
        )


def _of(
    servers: Sequence[Server], left_out: Callable[[Server], Iterator[LeftOut]]
) -> Iterator[tuple[str, str, str]]:
    """Yield where an operation is, why callers do not have it, and their authenticators."""
    for server in servers:
        for where, reason, authenticators in left_out(server):
            yield where, reason, ", ".join(authenticators)


def _secrets(servers: Sequence[Server]) -> Iterator[CheckMessage]:
    """The tools that may hand credentials to a model, in one message."""
    names = {
        where: name for server in servers for where, name in availability.secrets(server).items()
    }
    if names:
        shown = [f"{where} ({name!r})" for where, name in names.items()]
        yield Warning(
            f"By their names, these tools may answer with credentials: {_shown(shown)}. The model, "
            "its host and their logs would have them.",
            hint=(
                "Leave them out: name what becomes a tool by include=[…], or actions=[…] of "
                "rest_tools. Silence this check if none of these is a secret."
            ),
            id="django_mcp_openapi.W004",
        )


SHOWN = 3
"""Operations that a warning names. Hundreds of views often share one permission class."""
