"""The app configuration of ``django_mcp.contrib.approvals``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_mcp.extensions import Extension


class ApprovalsConfig(AppConfig):
    """Tool calls that wait for the approval of a person."""

    name = "django_mcp.contrib.approvals"
    label = "django_mcp_approvals"
    verbose_name = _("MCP approvals")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # It imports models, so that it can be imported only now.
        from django_mcp.contrib.approvals import checks  # noqa: F401 - the import registers them

    def mcp_extension(self) -> Extension:
        from django_mcp.contrib.approvals.extension import APPROVALS

        return APPROVALS
