"""Django forms as tools."""

from django_mcp.forms.tool import form_tool

__all__ = ["form_tool"]
