"""System checks of the app ``django_mcp.contrib.tokens``; they run without a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Warning, register
from django.core.exceptions import ImproperlyConfigured

from django_mcp import registry
from django_mcp.auth.token import TokenAuthentication
from django_mcp.core.server.server import Server


@register("django_mcp")
def check_use(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    # A check stays registered where a test has changed INSTALLED_APPS.
    if not apps.is_installed("django_mcp.contrib.tokens"):
        return []
    try:
        servers = registry.mountable()
    except ImproperlyConfigured:
        return []  # The checks of django_mcp report it, and what None stands for below.
    if any(accepts_tokens(server) is not False for server in servers):
        return []
    return [
        Warning(
            "django_mcp.contrib.tokens is installed, but no MCP server accepts its tokens.",
            hint='Add "django_mcp.auth.token.TokenAuthentication" to '
            'DJANGO_MCP["AUTHENTICATORS"], or to authenticators=[…] of a Server.',
            id="django_mcp_tokens.W001",
        )
    ]


def accepts_tokens(server: Server) -> bool | None:
    """Whether ``server`` accepts personal access tokens; None if it cannot be found out."""
    try:
        authenticators = registry.authenticators(server)
    except Exception:  # The class of an authenticator may raise anything.
        return None  # A check of django_mcp says why: E005 or E006.
    return any(isinstance(item, TokenAuthentication) for item in authenticators)
