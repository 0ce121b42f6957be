"""System checks: mistakes which would otherwise appear at the first call.

There is one module for each subject. ``docs/reference/checks.md`` explains every id.
"""

from django_mcp.checks import (
    authentication,
    clients,
    codenames,
    components,
    deferred,
    project,
    serving,
    views,
    workers,
)
from django_mcp.checks.base import TAG

__all__ = [
    "TAG",
    "authentication",
    "clients",
    "codenames",
    "components",
    "deferred",
    "project",
    "serving",
    "views",
    "workers",
]
