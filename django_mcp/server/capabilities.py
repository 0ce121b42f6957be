"""The capabilities which a Server declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django_mcp.components.base import ConfigurationError
from django_mcp.protocol import meta

if TYPE_CHECKING:
    from django_mcp.protocol.errors import Json
    from django_mcp.protocol.revisions import Revision
    from django_mcp.server.server import Server


class Capabilities:
    """The capabilities of one server, computed from its components and hooks.

    ``overrides`` amend the computed ones, and None removes one; ``replace`` replaces them all.
    """

    def __init__(self, server: Server, overrides: Json | None) -> None:
        self._server = server
        self._overrides = _checked(overrides) or {}
        self._replacement: Json | None = None

    def replace(self, capabilities: Json | None) -> None:
        """Declare exactly these from now on; None computes them again."""
        self._replacement = _checked(capabilities)

    def current(self) -> dict[str, Any]:
        """Return the capabilities that the next client receives."""
        if self._replacement is not None:
            return dict(self._replacement)
        computed = {
            name: dict(FLAGS.get(name, {}))
            for name, is_available in AVAILABLE.items()
            if is_available(self._server)
        }
        declared = {**computed, **self._overrides}
        experimental = {**self._experimental(), **(declared.pop("experimental", None) or {})}
        if experimental:
            declared["experimental"] = experimental
        return {name: flags for name, flags in declared.items() if flags is not None}

    def has(self, name: str) -> bool:
        """Return whether the capability of this name is among the current ones."""
        if self._replacement is not None:
            return name in self._replacement
        if name in self._overrides:
            return self._overrides[name] is not None
        is_available = AVAILABLE.get(name)
        return is_available is not None and is_available(self._server)

    def has_tasks(self, revision: Revision) -> bool:
        """Return whether clients of ``revision`` may call tools as tasks."""
        declared = revision.describe_capabilities(self.current())
        requests = declared.get("tasks", {}).get("requests", {})
        return "call" in requests.get("tools", {})

    def _experimental(self) -> dict[str, Any]:
        experimental: dict[str, Any] = {}
        if self._server.keepalive is not None:
            experimental["keepalive"] = self._server.keepalive.to_protocol()
        if (per_second := self._server.effective_log_rate_limit) is not None:
            experimental["loggingRateLimit"] = {"enabled": True, "perSecond": per_second}
        return experimental


def _checked(capabilities: Json | None) -> Json | None:
    """Return the capabilities; raises ConfigurationError for extensions that clients reject."""
    try:
        meta.check_extensions((capabilities or {}).get("extensions") or {})
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return capabilities


def _may_register(server: Server, hook: str) -> bool:
    """Whether a hook may register components for one session."""
    return server.has_hook(hook) or server.has_hook("init")


def _completes(server: Server) -> bool:
    return server.has_hook("handle_completion") or any(
        component.complete for component in server.components.all()
    )


AVAILABLE: Mapping[str, Callable[[Server], bool]] = {
    "logging": lambda server: True,
    "tools": lambda server: (
        server.components.had("tool") or _may_register(server, "handle_tool_call")
    ),
    "resources": lambda server: (
        server.components.had("resource")
        or server.components.had("resource_template")
        or _may_register(server, "handle_resource_read")
    ),
    "prompts": lambda server: (
        server.components.had("prompt") or _may_register(server, "handle_prompt_get")
    ),
    "completions": _completes,
}
"""The capabilities, and whether a server has the feature."""

FLAGS: Mapping[str, Json] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
