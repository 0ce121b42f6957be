"""The app configuration of ``django_mcp.contrib.events``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class EventsConfig(AppConfig):
    """Clients are told of what happens on the site."""

    name = "django_mcp.contrib.events"
    label = "django_mcp_events"
    verbose_name = _("MCP events")
    default_auto_field = "django.db.models.BigAutoField"
