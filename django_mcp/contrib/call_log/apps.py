"""The app configuration of ``django_mcp.contrib.call_log``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CallsConfig(AppConfig):
    """A row for each call, and a dashboard of them in the admin."""

    name = "django_mcp.contrib.call_log"
    label = "django_mcp_calls"
    verbose_name = _("MCP calls")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # It imports models, so that it can be imported only now.
        from django_mcp.contrib.call_log import recording
        from django_mcp.core.dispatch import call_log
        from django_mcp.runtime import background

        call_log.RECORDERS[:] = [recording.record]
        background.FINISHING[:] = [recording.write_waiting]

    def prune_mcp(self) -> str:
        """Delete what ``mcp_prune`` deletes of this app, and return a sentence about it."""
        from django_mcp.contrib.call_log.models import Call

        return f"Deleted {Call.objects.all().prune()} calls."
