"""The app configuration of ``django_mcp.contrib.approvals``."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ApprovalsConfig(AppConfig):
    """Tool calls that wait for the approval of a person."""

    name = "django_mcp.contrib.approvals"
    label = "django_mcp_approvals"
    verbose_name = _("MCP approvals")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These modules import models, so that they can be imported only now.
        from django_mcp import registry
        from django_mcp.contrib.approvals import checks, status_tool  # noqa: F401 - checks register
        from django_mcp.contrib.approvals.holding import StoredApprovals
        from django_mcp.core.dispatch import approval
        from django_mcp.core.server import components

        approval.APPROVALS[:] = [StoredApprovals()]
        if status_tool.add not in components.COMPANIONS:
            components.COMPANIONS.append(status_tool.add)
        # Discovery may have been before.
        for server in registry.servers():
            for component in [*server.components.registered()]:
                status_tool.add(server, component)

    def prune_mcp(self) -> str:
        """Delete what ``mcp_prune`` deletes of this app, and return a sentence about it."""
        from django_mcp.contrib.approvals.models import Approval

        return f"Deleted {Approval.objects.all().prune()} approvals."
