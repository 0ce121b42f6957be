"""The admin as tools: each ModelAdmin decides as it does in the browser."""

from django_mcp.modeladmin import checks as checks  # Registers them.
from django_mcp.modeladmin.declaration import admin_tools

__all__ = ["admin_tools"]
