"""System checks of REST tools: views that cannot be offered, and views that need an API token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from django_mcp import registry
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication
from django_mcp.components.base import ConfigurationError
from django_mcp.rest import availability
from django_mcp.server.server import Server

TAG = "django_mcp"


def check(find: Callable[[Server], Iterator[CheckMessage]]) -> Any:
    """Register a check of each server, which is skipped where its tools cannot be built."""

    @register(TAG)
    def run(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
        messages: list[CheckMessage] = []
        for server in registry.servers():
            try:
                any(server.components.all())  # Builds the tools.
            except (ConfigurationError, DatabaseError, ImproperlyConfigured):
                continue  # Tables may not exist yet; a broken declaration has a check of its own.
            messages += find(server)
        return messages

    return run


@check
def check_offered_views(server: Server) -> Iterator[CheckMessage]:
    for reason in availability.missing(server).values():
        yield Warning(
            f"The MCP server {server.name!r} lacks a tool: {reason}",
            hint="Correct it, or leave this view or action out. All other tools work.",
            id="django_mcp_rest.W001",
        )


@check
def check_tokens_of_views(server: Server) -> Iterator[CheckMessage]:
    if _accepts_tokens_of_the_api_only(server):
        return
    for where, reader in availability.needing_token(server):
        yield Warning(
            f"{where} is a tool of the MCP server {server.name!r}, and {reader} reads "
            "request.auth. Callers whom RESTFrameworkAuthentication has not accepted have no token "
            "of the API, and their calls are rejected.",
            hint=(
                "Set auth=… to a function of the Frame that returns request.auth for such callers, "
                "or accept tokens of the API only, or leave the view out."
            ),
            id="django_mcp_rest.W002",
        )


def _accepts_tokens_of_the_api_only(server: Server) -> bool:
    try:
        authenticators = registry.authenticators(server)
    except Exception:
        return False  # Another check reports it.
    return all(isinstance(each, RESTFrameworkAuthentication) for each in authenticators)
