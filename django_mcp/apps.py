"""Two configurations of the app: one discovers every installed app's ``mcp.py``, one does not."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class SimpleMcpConfig(AppConfig):
    """django_mcp without discovery, for sites that register everything by hand."""

    name = "django_mcp"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, let servers announce and be called from everywhere."""
        import_module("django_mcp.checks")
        import_module("django_mcp.questions").SHAPES[:] = [
            import_module("django_mcp.forms").shape_of
        ]
        announcer = import_module("django_mcp.announce").SiteAnnouncer()
        import_module("django_mcp.announcer").Announcing.announcer = announcer
        import_module("django_mcp.calling").Calling.local = import_module(
            "django_mcp.local"
        ).SiteCalls()


class McpConfig(SimpleMcpConfig):
    """django_mcp as ``INSTALLED_APPS`` usually has it: it imports each app's ``mcp`` module."""

    default = True

    def ready(self) -> None:
        """Discover, now that every app is there."""
        super().ready()
        import_module("django_mcp.registry").discover()
