"""System checks of REST tools: views that are missing or need a token, and skipped middleware.

They examine what is known without a schema. What the schemas of a view lack is known when the tools
are built: at the first use of a server, by ``mcp_show``, and by ``check --deploy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp import conf, registry
from django_mcp.rest import availability, batches
from django_mcp.server.server import Server

TAG = "django_mcp"


@register(TAG)
def check_views(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    for server in registry.servers():
        # Tables may not exist yet; the URLconf has checks of its own.
        with suppress(DatabaseError, ImproperlyConfigured, ImportError):
            batches.examine(server)
        messages += _missing(server)
        messages += _needing_token(server)
    return [*messages, *_skipped_middleware()]


OF_HTTP = (
    "django.",
    "django_mcp.",
    "corsheaders.",
    "debug_toolbar.",
    "whitenoise.",
    "django_htmx.",
)
"""Packages of middleware that is for browsers, or that this package has an equivalent of."""


def _skipped_middleware() -> Iterator[CheckMessage]:
    if not any(map(availability.has_views, registry.servers())):
        return
    run = conf.get().django_middleware
    of_site = [path for path in settings.MIDDLEWARE if not path.startswith(OF_HTTP)]
    skipped = [path for path in of_site if run != "all" and path not in run]
    if skipped:
        yield Warning(
            "Calls of views as tools skip this middleware, which requests of the API go through: "
            f"{', '.join(skipped)}.",
            hint=(
                'List in DJANGO_MCP["DJANGO_MIDDLEWARE"] what has to happen around such calls: '
                "a change log, for instance. The hook around_call of a server can do it for tasks "
                "as well. Silence this check if nothing is missing."
            ),
            id="django_mcp_rest.W003",
        )


def _missing(server: Server) -> Iterator[CheckMessage]:
    for reason in availability.missing(server).values():
        yield Warning(
            f"The MCP server {server.name!r} lacks a tool: {reason}",
            hint="Correct it, or leave this view or action out. All other tools work.",
            id="django_mcp_rest.W001",
        )


def _needing_token(server: Server) -> Iterator[CheckMessage]:
    operations_by_reader: dict[str, list[str]] = {}
    for where, reader in availability.needing_token(server).items():
        operations_by_reader.setdefault(reader, []).append(where)
    for reader, operations in operations_by_reader.items():
        first = ", ".join(operations[:SHOWN])
        others = f" and {len(operations) - SHOWN:,} others" if len(operations) > SHOWN else ""
        yield Warning(
            f"{reader} reads request.auth, and decides about tools of the MCP server "
            f"{server.name!r}: {first}{others}. Callers whom RESTFrameworkAuthentication has not "
            "accepted have no token of the API, and their calls are rejected.",
            hint=(
                "Set auth=… to a function of the Frame that returns request.auth for such callers, "
                "or accept tokens of the API only, or leave the views out."
            ),
            id="django_mcp_rest.W002",
        )


SHOWN = 3
"""Operations that a warning names. Hundreds of views often share one permission class."""
