"""Approvals as an extension."""

from __future__ import annotations

from django_mcp.contrib.approvals import status_tool
from django_mcp.contrib.approvals.models import Approval
from django_mcp.extensions import Extension


def prune() -> str:
    return f"Deleted {Approval.objects.all().prune()} approvals."


APPROVALS = Extension(name="django-mcp/approvals", add_to=status_tool.add, prune=prune)
