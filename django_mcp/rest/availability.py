"""Which operations are tools of a server, and why others are not: for the log and system checks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from django_mcp import registry
from django_mcp.auth.rest_framework import RESTFrameworkAuthentication
from django_mcp.rest.calls.credentials import Credentials
from django_mcp.server.server import Server

logger = logging.getLogger("django_mcp")


@dataclass
class _Operations:
    """The operations of one server, by where they are in the code."""

    missing: dict[str, str] = field(default_factory=dict)
    """Why an operation is no tool."""
    needing_token: dict[str, str] = field(default_factory=dict)
    """What reads ``request.auth`` where only callers with a token of the API can call a tool."""


_by_server: WeakKeyDictionary[Server, _Operations] = WeakKeyDictionary()


def record_tool(server: Server, where: str, credentials: Credentials) -> None:
    """Remember that an operation is a tool."""
    operations = _by_server.setdefault(server, _Operations())
    operations.missing.pop(where, None)
    if credentials.reader is not None and credentials.needs_token:
        operations.needing_token[where] = credentials.reader


def record_missing(server: Server, where: str, reason: str) -> None:
    """Remember why an operation is no tool, in a sentence that names it, and log it once."""
    operations = _by_server.setdefault(server, _Operations())
    if operations.missing.get(where) != reason:
        operations.missing[where] = reason
        logger.warning("The MCP server %r lacks a tool: %s", server.name, reason)


def has_views(server: Server) -> bool:
    """Whether views are declared as tools of a server."""
    return server in _by_server


def missing(server: Server) -> Mapping[str, str]:
    """Return why operations of a server are no tools, by where they are."""
    return _of(server).missing


def needing_token(server: Server) -> Mapping[str, str]:
    """Return what reads ``request.auth``, by operations that reject callers without an API token.

    Empty for a server whose callers all have one.
    """
    return {} if _accepts_tokens_of_the_api_only(server) else _of(server).needing_token


def _accepts_tokens_of_the_api_only(server: Server) -> bool:
    try:
        authenticators = registry.authenticators(server)
    except Exception:
        return False  # A check reports it.
    return all(isinstance(each, RESTFrameworkAuthentication) for each in authenticators)


def log_rejections(server: Server) -> None:
    """Log how many tools reject callers without a token of the API."""
    if rejecting := needing_token(server):
        logger.warning(
            "%d tools of the MCP server %r reject callers without a token of the API, the first "
            "%s: manage.py check explains django_mcp_rest.W002",
            len(rejecting),
            server.name,
            next(iter(rejecting)),
        )


def _of(server: Server) -> _Operations:
    return _by_server.get(server, _Operations())
