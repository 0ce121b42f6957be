"""The app configuration of ``django_mcp.contrib.call_log``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_mcp.extensions import Extension


class CallsConfig(AppConfig):
    """A row for each call, and a dashboard of them in the admin."""

    name = "django_mcp.contrib.call_log"
    label = "django_mcp_calls"
    verbose_name = _("MCP calls")
    default_auto_field = "django.db.models.BigAutoField"

    def mcp_extension(self) -> Extension:
        # It imports models, so that it can be imported only now.
        from django_mcp.contrib.call_log.extension import CALL_LOG

        return CALL_LOG
