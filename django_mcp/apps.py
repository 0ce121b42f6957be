"""The app configurations: McpConfig discovers each app's ``mcp.py``, SimpleMcpConfig does not."""

from __future__ import annotations

from django.apps import AppConfig, apps


class SimpleMcpConfig(AppConfig):
    """django_mcp without discovery, for sites which register their servers explicitly."""

    name = "django_mcp"
    verbose_name = "MCP"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These modules import models, so that they can be imported only now.
        from django_mcp import checks  # noqa: F401 - the import registers them
        from django_mcp.auth.cache import PrincipalCache
        from django_mcp.components import stored
        from django_mcp.frame.client import input_requests
        from django_mcp.pubsub import revocations
        from django_mcp.pubsub.publisher import ChannelsPublisher
        from django_mcp.runtime import django_forms
        from django_mcp.server.in_process import InProcessCalls
        from django_mcp.server.notifications import Notifications
        from django_mcp.transports.in_process import DjangoInProcessCaller

        PrincipalCache.subscribe = staticmethod(revocations.subscribe)
        revocations.connect_toolkit()
        stored.MODULE_CHECKS[:] = [_is_installed]
        input_requests.FORM_READERS[:] = [django_forms.input_schema_of]
        Notifications.publisher = ChannelsPublisher()
        InProcessCalls.caller = DjangoInProcessCaller()


def _is_installed(module: str) -> bool:
    return apps.get_containing_app_config(module) is not None


class McpConfig(SimpleMcpConfig):
    """django_mcp as ``INSTALLED_APPS`` usually has it: it imports each app's ``mcp`` module."""

    default = True

    def ready(self) -> None:
        from django_mcp import registry

        super().ready()
        registry.discover()
