"""The app configuration of ``django_mcp.elicitation``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ElicitationConfig(AppConfig):
    """Pages which users visit for a tool, with ``django_mcp.elicitation.pages.elicit_page``."""

    name = "django_mcp.elicitation"
    label = "django_mcp_elicitation"
    verbose_name = _("MCP elicitation pages")
    default_auto_field = "django.db.models.BigAutoField"

    def prune_mcp(self) -> str:
        """Delete what ``mcp_prune`` deletes of this app, and return a sentence about it."""
        from django_mcp.elicitation.models import PageAnswer

        return f"Deleted {PageAnswer.objects.prune()} answers of elicitation pages."
