"""The base class of all sources of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django_mcp.core.components.base import ConfigurationError
from django_mcp.openapi.calls.credentials import FindHeaders
from django_mcp.openapi.document import Described
from django_mcp.openapi.routes import VARIABLE, routes_at
from django_mcp.openapi.tools import Operation


class Calling(NamedTuple):
    """How an author wants operations to be called."""

    urlconf: Any
    prefix: str
    """The beginning of the URL, where an API has several."""
    kwargs: Mapping[str, Any]
    """Arguments of the path that the caller does not choose."""
    credentials: FindHeaders | None
    authenticated_by: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An operation of a source, before its URL is known."""

    name: str
    """Of its tool."""
    described: Described
    where: str
    """In the code of the site, or in its document."""
    find: Callable[[], Operation]
    """Returns the operation at its URL; raises ConfigurationError."""


def at_route(described: Described, calling: Calling, **parts: Any) -> Operation:
    """Return an operation at its route; raises ConfigurationError if the site does not serve it."""
    routes = routes_at(described.path, calling.urlconf)
    if not routes:
        where = "the URLconf" if calling.urlconf is None else f"the URLconf {calling.urlconf}"
        raise ConfigurationError(
            f"{described.where} has no URL: {where} has no {described.path}. A tool calls a view "
            "as a request to its URL does"
        )
    names = [match[1:-1] for match in VARIABLE.findall(described.path)]
    route = routes[0]
    variables = dict(zip(names, route.names, strict=True))
    return Operation(described=described, route=route, variables=variables, **parts)
