"""MCP Apps from Django templates: a tool that shows something."""

from django_mcp.ui.domains import claude_domain
from django_mcp.ui.views import template_view

__all__ = ["claude_domain", "template_view"]
