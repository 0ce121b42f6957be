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
        import_module("django_mcp.frame.client.input_requests").FORM_READERS[:] = [
            import_module("django_mcp.runtime.django_forms").input_schema_of
        ]
        announcer = import_module("django_mcp.pubsub.publisher").ChannelsPublisher()
        import_module("django_mcp.server.notifications").Notifications.announcer = announcer
        import_module("django_mcp.server.in_process").InProcessCalls.local = import_module(
            "django_mcp.transports.in_process"
        ).DjangoInProcessCaller()


class McpConfig(SimpleMcpConfig):
    """django_mcp as ``INSTALLED_APPS`` usually has it: it imports each app's ``mcp`` module."""

    default = True

    def ready(self) -> None:
        """Discover, now that every app is there."""
        super().ready()
        import_module("django_mcp.registry").discover()
