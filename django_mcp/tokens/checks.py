"""System checks of the app ``django_mcp.tokens``; they run without a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning, register

from django_mcp import registry
from django_mcp.auth.token import TokenAuthentication
from django_mcp.server.server import Server


@register("django_mcp")
def check_use(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    if any(map(accepts_tokens, registry.servers())):
        return []
    return [
        Warning(
            "django_mcp.tokens is installed, but no MCP server accepts its tokens.",
            hint='Add "django_mcp.auth.token.TokenAuthentication" to '
            'DJANGO_MCP["AUTHENTICATORS"], or to authenticators=[…] of a Server.',
            id="django_mcp_tokens.W001",
        )
    ]


def accepts_tokens(server: Server) -> bool:
    """Whether personal access tokens are accepted by ``server``."""
    try:
        found = registry.authenticators(server)
    except Exception:
        return False  # The checks of django_mcp report it.
    return any(isinstance(item, TokenAuthentication) for item in found)
