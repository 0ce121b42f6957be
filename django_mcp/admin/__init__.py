"""The workbench in the admin. Importing the modules registers their pages."""

from django_mcp.admin import components, servers, sessions, tasks

__all__ = ["components", "servers", "sessions", "tasks"]
