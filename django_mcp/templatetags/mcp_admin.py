"""Names that lines break after their dots and underscores only: ``{{ name|mcp_breakable }}``."""

from __future__ import annotations

from django import template

from django_mcp.runtime.read_only_admin import breakable

register = template.Library()
register.filter("mcp_breakable", breakable)
