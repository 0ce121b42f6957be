"""Operations that OpenAPI describes as tools, whatever the views are made with."""

from django_mcp.openapi import checks as checks  # Registers them.
from django_mcp.openapi.declaration import openapi_tools

__all__ = ["openapi_tools"]
