"""The app configuration of ``django_mcp.contrib.events``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_mcp.extensions import Extension


class EventsConfig(AppConfig):
    """Types of events, subscriptions and deliveries."""

    name = "django_mcp.contrib.events"
    label = "django_mcp_events"
    verbose_name = _("MCP events")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_mcp.contrib.events import checks  # noqa: F401 - the import registers them

    def mcp_extension(self) -> Extension:
        # It imports models, so that it can be imported only now.
        from django_mcp.contrib.events.extension import EVENTS

        return EVENTS
