"""The URLs of a view on the site, and the request path for given arguments.

A call resolves its path as Django does, and must arrive at the view that was declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import unquote

from asgiref.sync import iscoroutinefunction
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    URLPattern,
    URLResolver,
    get_resolver,
)
from django.urls import converters as url_converters
from django.urls.resolvers import RegexPattern

from django_mcp.core.components.signature import is_async

FORMAT = "format"
"""The argument of a format suffix, as in ``tickets.json``."""


@dataclass(frozen=True)
class Route:
    """One URL pattern of a view, with the patterns of the includes around it."""

    includes: tuple[URLResolver, ...]
    pattern: URLPattern
    urlconf: Any = None
    """The URLconf that resolves its path; None: the site's."""

    @property
    def callback(self) -> Any:
        return self.pattern.callback

    @property
    def is_async(self) -> bool:
        """Whether the view is asynchronous; a class-based view has a mark of asgiref."""
        return is_async(self.callback) or iscoroutinefunction(self.callback)

    @property
    def path(self) -> str:
        """The path as a string, for messages: ``api/tickets/<pk>/``."""
        return self._possibility[0][0] % {name: f"<{name}>" for name in self.names}

    @cached_property
    def _resolver(self) -> URLResolver:
        """A resolver of this pattern alone, so that no other pattern is reversed."""
        inner: URLPattern | URLResolver = self.pattern
        for include in reversed(self.includes):
            inner = URLResolver(include.pattern, [inner], include.default_kwargs)
        return URLResolver(RegexPattern(r"^/"), [inner])

    @cached_property
    def _possibility(self) -> tuple[tuple[str, Sequence[str]], Mapping[str, Any]]:
        """The path with the names of its arguments, and the converters of those that have one."""
        # Each resolver leaves a context variable behind. A thousand of them would be copied
        # whenever a call changes its thread.
        reverse_dict = copy_context().run(getattr, self._resolver, "reverse_dict")
        variants, _, _, converters = reverse_dict.getlist(self.callback)[0]
        return variants[0], converters

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._possibility[0][1])

    @property
    def converters(self) -> Mapping[str, Any]:
        return self._possibility[1]

    @property
    def is_by_name(self) -> bool:
        """Whether all arguments have names."""
        return not any(name.startswith("_") and name[1:].isdigit() for name in self.names)

    def resolve(self, arguments: Mapping[str, Any]) -> tuple[str, ResolverMatch] | None:
        """Return the request path for ``arguments``, and Django's match of it.

        None where a value does not fit, or where the path leads to another view, or to this one
        with other arguments.
        """
        try:
            values = {name: self._value(name, given) for name, given in arguments.items()}
            path = f"/{self._resolver.reverse(self.callback, **values)}"
            match = get_resolver(self.urlconf).resolve(unquote(path))
        except (NoReverseMatch, Resolver404, ValueError):
            return None
        is_same = match.func is self.callback and all(
            self._text(name, match.kwargs.get(name)) == self._text(name, value)
            for name, value in values.items()
        )
        return (path, match) if is_same else None

    def _value(self, name: str, given: Any) -> Any:
        """Return an argument as the view takes it; raises ValueError where it does not fit."""
        converter = self.converters.get(name)
        if converter is None:
            return given
        if re.fullmatch(converter.regex, str(given)) is None:
            raise ValueError(name)
        return converter.to_python(str(given))

    def _text(self, name: str, value: Any) -> str:
        converter = self.converters.get(name)
        return str(value if converter is None else converter.to_url(value))


def routes_of(view_class: Any) -> Iterator[Route]:
    """Yield the routes of the site to a view of this class, in their order."""
    for route in _routes_by_class(get_resolver()).get(view_class, ()):
        if route.is_by_name and FORMAT not in route.names:
            yield route


@lru_cache(maxsize=1)
def _routes_by_class(resolver: URLResolver) -> Mapping[Any, Sequence[Route]]:
    routes: dict[Any, list[Route]] = {}
    for includes, pattern in walk(resolver.url_patterns, ()):
        view_class = getattr(pattern.callback, "cls", None)
        routes.setdefault(view_class, []).append(Route(includes, pattern))
    return routes


VARIABLE = re.compile(r"<[^<>]*>|\{[^{}]*\}")
"""A variable of a path, as this module writes it or as OpenAPI does."""


def routes_at(path: str, urlconf: Any = None) -> Sequence[Route]:
    """Return the routes of a path of OpenAPI, whatever the names of its variables."""
    return _routes_by_path(get_resolver(urlconf), urlconf).get(_template(path), ())


@lru_cache(maxsize=8)
def _routes_by_path(resolver: URLResolver, urlconf: Any) -> Mapping[str, Sequence[Route]]:
    routes: dict[str, list[Route]] = {}
    for includes, pattern in walk(resolver.url_patterns, ()):
        route = Route(includes, pattern, urlconf)
        if route.is_by_name:
            routes.setdefault(_template(route.path), []).append(route)
    return routes


def _template(path: str) -> str:
    """Return a path without the names of its variables, and without slashes at its ends."""
    return VARIABLE.sub("<>", path).strip("/")


def argument_schema(converter: Any) -> dict[str, Any]:
    """Return the schema of an argument with this converter, or with None."""
    schema = next((SCHEMAS[kind] for kind in type(converter).__mro__ if kind in SCHEMAS), {})
    return {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, **schema}


MAX_LENGTH = 500
"""Characters of an argument of the path."""

SCHEMAS: Mapping[type, dict[str, Any]] = {
    url_converters.IntConverter: {"type": "integer", "minimum": 0},
    url_converters.UUIDConverter: {"format": "uuid"},
    url_converters.SlugConverter: {"pattern": "^[-a-zA-Z0-9_]+$"},
}


KEYS = ("pk", "id", "_uuid")
"""How names of arguments end that are keys of objects, such as the parents of a nested router."""


def of_any_key() -> dict[str, Any]:
    """Return the schema of a key of an unknown model: a model sends it as it has read it."""
    return {"anyOf": [{"type": "integer"}, argument_schema(None)]}


def walk(
    patterns: Sequence[URLPattern | URLResolver], includes: tuple[URLResolver, ...]
) -> Iterator[tuple[tuple[URLResolver, ...], URLPattern]]:
    """Yield each pattern, with the includes around it."""
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from walk(each.url_patterns, (*includes, each))
        else:
            yield includes, each
