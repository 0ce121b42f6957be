"""Which operations are tools of a server, and why others are not: for the log and system checks."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from django_mcp import registry
from django_mcp.core.auth.base import Authenticator
from django_mcp.core.server.server import Server, created
from django_mcp.openapi.document import Described

logger = logging.getLogger("django_mcp")


class Credentials(Protocol):
    """As which callers a tool calls its view, and which callers it refuses."""

    @property
    def token_readers(self) -> Sequence[str]:
        """The code that may read the token of a caller."""
        ...

    @property
    def accepted(self) -> Sequence[str]:
        """The names of the ways in that the view accepts."""
        ...

    def asks_for_token(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator are refused because they have no token of the API."""
        ...

    def asks_for_class(self, authenticator: Authenticator) -> bool:
        """Whether callers of an authenticator are refused because of the way they came in."""
        ...


@dataclass
class _Operations:
    """The operations of one server, by where they are in the code."""

    missing: dict[str, str] = field(default_factory=dict)
    """Why an operation is not a tool."""
    tools: dict[str, Credentials] = field(default_factory=dict)
    """As which callers a tool calls its view."""
    secrets: dict[str, str] = field(default_factory=dict)
    """The names of operations and fields for credentials."""


SECRET_WORDS = re.compile(
    r"(^|_)(password|passwd|passphrase|secret|token|api_?key|private_key|credential)s?(_|$)"
)
"""Names of credentials, which an answer would hand to a model and its host."""


def is_secret(field: str) -> bool:
    """Whether a field is named like a credential; ``primary_key`` is not a key of this kind."""
    return field == "key" or bool(SECRET_WORDS.search(field))


def secret_of(described: Described) -> str:
    """Return the operation, or the member of its answer, that is named so; "" for none."""
    if described.method == "delete":
        return ""
    if SECRET_WORDS.search(described.id):
        return described.id
    answer = described.answer or {}
    rows = [it.get("items") for it in (answer, *(answer.get("properties") or {}).values())]
    members = [answer, *(row for row in rows if isinstance(row, dict))]
    names = (name for each in members for name in each.get("properties") or ())
    return next(filter(is_secret, names), "")


class LeftOut(NamedTuple):
    """A tool that some callers of its server do not have, and why."""

    where: str
    reason: str
    authenticators: tuple[str, ...]
    """The classes of the authenticators that accept these callers."""


def record_tool(server: Server, where: str, credentials: Credentials, secret: str = "") -> None:
    """Remember that an operation is a tool, and which part of its answers may be a credential."""
    operations = server.state(_Operations)
    operations.missing.pop(where, None)
    operations.tools[where] = credentials
    if secret:
        operations.secrets[where] = secret


def record_missing(server: Server, where: str, reason: str, *, is_check: bool) -> None:
    """Remember why an operation is not a tool; log a cause once, unless a check reports it."""
    operations = server.state(_Operations)
    if operations.missing.get(where) == reason:
        return
    cause = cause_of(where, reason)
    recorded = (each for one in tuple(created) for each in one.state(_Operations).missing.items())
    is_known = any(cause_of(*each) == cause for each in recorded)
    operations.missing[where] = reason
    if not is_check:
        level = logging.DEBUG if is_known else logging.WARNING
        logger.log(level, "The MCP server %r lacks a tool: %s", server.name, reason)


def cause_of(where: str, reason: str) -> str:
    """Return a reason without the name of its operation: many actions may share it."""
    view, _, action = where.rpartition(".")
    names = (where, view.rpartition(".")[2], action)
    return re.sub("|".join(rf"\b{re.escape(name)}\b" for name in names if name), "", reason)


def has_views(server: Server) -> bool:
    """Whether views are declared as tools of a server."""
    operations = server.state(_Operations)
    return bool(operations.missing or operations.tools)


def missing(server: Server) -> Mapping[str, str]:
    """Return why operations of a server are not tools, by where they are."""
    return server.state(_Operations).missing


def secrets(server: Server) -> Mapping[str, str]:
    """Return the possible credentials in the answers of tools, by the places of the tools."""
    return server.state(_Operations).secrets


def without_token(server: Server) -> Iterator[LeftOut]:
    """Yield the tools that callers without a token of the API do not have, and why."""
    authenticators = _authenticators(server)
    for where, credentials in server.state(_Operations).tools.items():
        accepted = [each for each in authenticators if not credentials.asks_for_class(each)]
        refused = _names(filter(credentials.asks_for_token, accepted))
        if refused:
            for reader in credentials.token_readers:
                yield LeftOut(where, reader, refused)


def without_class(server: Server) -> Iterator[LeftOut]:
    """Yield the tools that callers do not have because of the authentication classes of a view."""
    authenticators = _authenticators(server)
    for where, credentials in server.state(_Operations).tools.items():
        refused = _names(filter(credentials.asks_for_class, authenticators))
        if refused:
            yield LeftOut(where, ", ".join(credentials.accepted), refused)


def _authenticators(server: Server) -> Sequence[Authenticator]:
    try:
        return registry.authenticators(server)
    except Exception:
        return ()  # Their code may raise anything: a check reports it, and nobody is served.


def _names(authenticators: Iterable[Authenticator]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(type(each).__name__ for each in authenticators))
