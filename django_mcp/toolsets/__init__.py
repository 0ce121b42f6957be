"""Model toolsets: the rows of a model as tools and resources, within the rules of the site."""

from django_mcp.toolsets import checks as checks  # Registers them.
from django_mcp.toolsets.toolset import ModelToolset

__all__ = ["ModelToolset"]
