"""The app configuration."""

from __future__ import annotations

from django.apps import AppConfig


class OAuthConfig(AppConfig):
    name = "django_mcp.oauth"
    label = "django_mcp_oauth"
    verbose_name = "MCP: access by OAuth"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_mcp.oauth import checks  # noqa: F401 - the import registers them
