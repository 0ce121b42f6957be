"""The capabilities which a Server declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol import meta
from django_mcp.core.protocol.revisions import NEWEST
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.auth.base import Principal
    from django_mcp.core.components.base import Component
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.protocol.revisions import Revision
    from django_mcp.core.server.components import Expected
    from django_mcp.core.server.server import Server


class Capabilities:
    """The capabilities of one server: computed, then amended by ``overrides`` (None removes)."""

    def __init__(self, server: Server, overrides: Json | None) -> None:
        self._server = server
        self._overrides = _checked(overrides) or {}
        self._replacement: Json | None = None
        self._declared: set[str] = set()
        """The capabilities that are known to be declared. Components and hooks only add some."""

    def replace(self, capabilities: Json | None) -> None:
        """Declare exactly these to all further clients; None computes them again."""
        self._replacement = _checked(capabilities)
        self._declared = set()
        self._server.components.clear_descriptors()

    def current(self, revision: Revision = NEWEST) -> dict[str, Any]:
        """Return them as the revision has the extensions; ``described`` has all of it."""
        if self._replacement is not None:
            return dict(self._replacement)
        available = (name for name, has in AVAILABLE.items() if has(self._server))
        declared = {
            **{name: dict(FLAGS.get(name, {})) for name in available},
            **INSTALLED.flags(self._server),
            **self._overrides,
        }
        extensions = declared.get("extensions", {})
        if extensions is not None:
            own = INSTALLED.declared(self._server, revision)
            if own:
                declared["extensions"] = {**own, **extensions}
            for extension in INSTALLED.all:
                name = extension.capability
                if name is not None and extension.name in declared.get("extensions", {}):
                    declared.setdefault(name, declared["extensions"][extension.name])
        experimental = {**self._experimental(), **(declared.pop("experimental", None) or {})}
        if experimental:
            declared["experimental"] = experimental
        return {name: flags for name, flags in declared.items() if flags is not None}

    def has(self, name: str) -> bool:
        if name in self._declared:
            return True
        has = self._has(name)
        if has:
            self._declared.add(name)
        return has

    def _has(self, name: str) -> bool:
        if self._replacement is not None:
            return name in self._replacement
        if name in self._overrides:
            return self._overrides[name] is not None
        if name in AVAILABLE:
            return AVAILABLE[name](self._server)
        return name in INSTALLED.flags(self._server)

    def described(self, revision: Revision) -> dict[str, Any]:
        """Return what clients of a revision are told, whoever they are."""
        return revision.describe_capabilities(self.current(revision))

    def declared_to(
        self, revision: Revision, principal: Principal, *, may_listen: bool = True
    ) -> dict[str, Any]:
        """Return what clients of ``revision`` are told that this caller can use.

        Without a stream for it, nothing is sent to a client that belongs to none of its requests.
        """
        declared = self.described(revision)
        if not may_listen:
            declared = {name: _without_listening(flags) for name, flags in declared.items()}
            if "extensions" in declared:
                extensions = declared["extensions"]
                without = {name: _without_listening(flags) for name, flags in extensions.items()}
                declared["extensions"] = without
        for extension in INSTALLED.all:
            name = extension.of_capability
            if name in declared and extension.narrow_flags is not None:
                declared[name] = extension.narrow_flags(principal, declared[name])
        return declared

    def _experimental(self) -> dict[str, Any]:
        experimental: dict[str, Any] = {}
        if (keepalive := self._server.keepalive) is not None:
            experimental["keepalive"] = keepalive.to_protocol()
        if (per_second := self._server.log_rate_limit) is not None:
            experimental["loggingRateLimit"] = {"enabled": True, "perSecond": per_second}
        return experimental


def _without_listening(flags: Json) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if name not in LISTENING}


def _checked(capabilities: Json | None) -> Json | None:
    """Raise ConfigurationError for extensions that clients reject."""
    try:
        meta.check_extensions((capabilities or {}).get("extensions") or {})
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return capabilities


def _has_any(kinds: Sequence[str], hook: str) -> Callable[[Server], bool]:
    def has(server: Server) -> bool:
        # ``init`` may register components for one session.
        is_hooked = server.has_hook(hook) or server.has_hook("init")
        return is_hooked or any(map(server.components.had, kinds))

    return has


def _completes(server: Server) -> bool:
    return server.has_hook("handle_completion") or server.components.has_any(_has_completer)


def _has_completer(component: Component | Expected) -> bool:
    return bool(component.complete)


AVAILABLE: Mapping[str, Callable[[Server], bool]] = {
    "logging": lambda server: True,
    "tools": _has_any(["tool"], "handle_tool_call"),
    "resources": _has_any(["resource", "resource_template"], "handle_resource_read"),
    "prompts": _has_any(["prompt"], "handle_prompt_get"),
    "completions": _completes,
}
"""The capabilities, and whether a server has the feature; extensions have others."""

LISTENING = frozenset({"listChanged", "subscribe"})
"""Flags of notifications on a stream that belongs to no request."""

FLAGS: Mapping[str, Json] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
