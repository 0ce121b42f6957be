"""The paths of endpoints, which may capture values as URL patterns of Django do.

``/orgs/<slug:org>/mcp`` is one endpoint for each organisation: a session of one of them does not
exist at the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from django.urls.resolvers import RoutePattern

from django_mcp.auth.resource import PATH_KEY

T = TypeVar("T")

MAX_LENGTH = 200
"""Characters of a path with captured values, which become a part of the caller's key."""


class Match(NamedTuple, Generic[T]):
    value: T
    path: str
    """The path that was requested, without a slash at its end."""
    captured: Mapping[str, Any]

    def enter(self, scope: Any) -> None:
        """Note the captured values in the scope, as a URLRouter does."""
        if self.captured:
            scope["url_route"] = {"args": (), "kwargs": self.captured}
            scope[PATH_KEY] = self.path


def leave(scope: Any, suffix: str) -> None:
    """Note that the rest of the path is not a part of the endpoint's."""
    if PATH_KEY in scope:
        scope[PATH_KEY] = scope[PATH_KEY].removesuffix(suffix)


def as_text(path: str, captured: Mapping[str, Any]) -> dict[str, str]:
    """Return captured values as they are in a URL, to be stored."""
    converters = RoutePattern(path.strip("/"), is_endpoint=True).converters
    return {
        name: converters[name].to_url(value) if name in converters else str(value)
        for name, value in captured.items()
    }


def from_text(path: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of ``as_text`` again, converted; raises ValueError."""
    converters = RoutePattern(path.strip("/"), is_endpoint=True).converters
    return {
        name: converters[name].to_python(text) if name in converters else text
        for name, text in texts.items()
    }


class Paths(Generic[T]):
    """Values by the path of their endpoint, with or without a slash at its end."""

    def __init__(self, values: Mapping[str, T]) -> None:
        """Raises ImproperlyConfigured for an invalid pattern."""
        self.plain = {path: value for path, value in values.items() if "<" not in path}
        self._patterns = [
            (RoutePattern(path.strip("/"), is_endpoint=True), value)
            for path, value in values.items()
            if "<" in path
        ]
        for pattern, _ in self._patterns:
            pattern.regex  # noqa: B018 - it raises for an unknown converter

    def find(self, path: str) -> Match[T] | None:
        bare = path.rstrip("/") or "/"
        for name in (path, bare):
            if name in self.plain:
                return Match(self.plain[name], name, {})
        if len(bare) > MAX_LENGTH:
            return None
        for pattern, value in self._patterns:
            match = pattern.match(bare.strip("/"))
            if match is None:
                continue
            rest, _, captured = match
            if not rest:
                return Match(value, bare, captured)
        return None
