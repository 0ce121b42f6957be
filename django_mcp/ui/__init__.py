"""MCP Apps from Django templates: a tool that shows something."""

from django_mcp.ui.domains import claude_domain
from django_mcp.ui.forms import form_view
from django_mcp.ui.views import approval_view, template_view

__all__ = ["approval_view", "claude_domain", "form_view", "template_view"]
