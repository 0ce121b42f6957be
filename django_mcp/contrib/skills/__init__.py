"""Skills: an optional app that serves the folders ``skills`` of apps to agents.

``skill`` in the module ``mcp`` of an app says who may use a skill.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.contrib.skills.declaration import skill

__all__ = ["skill"]


def __getattr__(name: str) -> Any:
    """Return ``skill``, whose module cannot be imported while INSTALLED_APPS is read."""
    if name == "skill":
        from django_mcp.contrib.skills.declaration import skill

        return skill
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
