"""Events: an optional app that tells clients of changes on the site.

``event`` declares a type of events. It is registered if it is an attribute of the ``mcp`` module of
an app, which declares it, or imports it by its name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.contrib.events.declaration import Event, event


def __getattr__(name: str) -> Any:
    """Return a public name. Its module cannot be imported before the settings."""
    if name in ("Event", "event"):
        return getattr(import_module("django_mcp.contrib.events.declaration"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Event", "event"]
