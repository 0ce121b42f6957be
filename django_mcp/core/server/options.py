"""The settings that a Server uses, handed to it without Django; its signer and its keepalive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.protocol.revisions import REVISIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The limits and switches which a site sets for its servers; see the settings reference."""

    versions: tuple[str, ...] = tuple(revision.version for revision in REVISIONS)
    handler_timeout: float | None = None
    scopes: tuple[str, ...] = ()
    """The scopes that every access token needs, on servers without their own."""
    scope_hierarchy: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The scopes which a scope of an access token includes."""
    max_result_size: int = 4 * 1024 * 1024
    debug: bool = False
    """Whether the client may see the text of an unexpected exception."""


class Signer(Protocol):
    """Signs and encrypts strings which travel through the client.

    ``Server.sign`` and ``Server.unsign`` determine the binding of a string.
    """

    def sign(self, bound_to: str, text: str, /) -> str:
        """Return ``text`` signed and encrypted, to be read with the same ``bound_to`` alone."""

    def unsign(self, bound_to: str, signed: str, /, max_age: float | None = None) -> str | None:
        """Return the text that ``sign`` was given, or None for anything else."""


class UnconfiguredSigner:
    """The Signer of a Server without one of a site yet; it raises RuntimeError."""

    def sign(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError(
            "This Server is not configured: mount it (django_mcp.routing), or call "
            "django_mcp.registry.configure(server) after django.setup()"
        )

    unsign = sign


def checked_number(option: str, value: Any, *, least: int) -> int:
    """Return the number of an option; raises ConfigurationError, which names it."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{option} is {value!r}: write {least} or more")
    return value


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The interval and the failure threshold of the experimental ``notifications/keepalive``."""

    interval_ms: int
    failure_threshold: int = 3
    """How many may fail in succession before the session is ended."""

    def to_protocol(self) -> dict[str, Any]:
        interval = self.interval_ms
        threshold = self.failure_threshold
        return {"enabled": True, "intervalMs": interval, "failureThreshold": threshold}
