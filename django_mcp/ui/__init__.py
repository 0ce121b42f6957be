"""MCP Apps from Django templates: a tool that shows something."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.ui.base import claude_domain, renders_apps
    from django_mcp.ui.forms import form_view
    from django_mcp.ui.views import template_view

__all__ = ["claude_domain", "form_view", "renders_apps", "template_view"]

MODULES = {
    "claude_domain": "base",
    "form_view": "forms",
    "renders_apps": "base",
    "template_view": "views",
}
"""Imported at their first use: all sites have the extension, and some have views."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
