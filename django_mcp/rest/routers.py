"""Routers and lists of URL patterns: the operations of all views that they contain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from django_mcp.core.components.declaration import snake_case
from django_mcp.core.protocol.texts import plural, singular
from django_mcp.openapi.batches import Declared, Group
from django_mcp.openapi.routes import Route, routes_of, walk
from django_mcp.openapi.selection import Named, Selection
from django_mcp.rest.operations import (
    METHODS,
    actions_by_method,
    allowed_methods,
    base_name,
    default_name,
    is_viewset,
    operation_at,
)
from django_mcp.rest.source import declare

ABOUT_THE_API = (
    "rest_framework.routers",
    "rest_framework.schemas.",
    "rest_framework.authtoken.",
    "drf_spectacular.views",
)
"""Modules with views for programs and people that read an API: the API root, its schema, logins.

Views that a site derives from them are the same.
"""


REMEDY = (
    "Register them with other basenames, or on their own by rest_tools(ViewSet, "
    "options={…: {'name': …}})"
)


def has_urls(target: Any) -> bool:
    """Whether it is a router, which has ``urls``, or a list of URL patterns."""
    return hasattr(target, "urls") or isinstance(target, list | tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUrls:
    """A router or URL patterns. Their views are known once URLs can be imported."""

    target: Any
    actions: Sequence[str] | None
    selection: Selection
    reads_only: bool
    prefix: str | Mapping[str, str]
    """Of all tools, or by patterns of their names."""
    choose: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]]
    """By the name of the tool."""
    common: Mapping[str, Any]
    choices: Mapping[str, Any]
    is_one_tool_per_view: bool

    @property
    def where(self) -> str:
        return f"rest_tools({type(self.target).__name__})"

    view_name = where

    @property
    def options_of_tools(self) -> Iterator[Mapping[str, Any]]:
        yield self.common
        yield from self.options.values()

    def expanded(self) -> Iterator[Declared]:
        """Yield the operations; then raise ConfigurationError for names that are none of them."""
        prefixes = () if isinstance(self.prefix, str) else self.prefix
        others = (*self.options, *prefixes)
        for each in self.selection.chosen(self._named(), options=others, remedy=REMEDY):
            yield self._declared(each.names[0], each.operation)

    def _named(self) -> Iterator[Named]:
        """Yield the operations that may be chosen, by the names of their tools."""
        endpoints = [*_endpoints(self.target)]
        keys = {endpoint.key for endpoint in endpoints}
        for endpoint in endpoints:
            if self.actions is not None and endpoint.action not in self.actions:
                continue
            if self.actions is None and endpoint.partial_key in keys:
                continue  # The partial update can do the same, and a second tool costs tokens.
            name = endpoint.tool_name
            yield Named(
                names=(name,),
                label=f"{name} ({endpoint.view_class.__qualname__})",
                is_left_out=self.actions is None and self.reads_only and endpoint.method != "get",
                operation=endpoint,
            )

    def _declared(self, name: str, endpoint: Endpoint) -> Declared:
        arguments = (endpoint.view_class, endpoint.method, endpoint.action, endpoint.routes)
        group = Group(endpoint.plural, self.common) if self.is_one_tool_per_view else None
        prefixes = {"*": self.prefix} if isinstance(self.prefix, str) else self.prefix
        chosen = (path for pattern, path in prefixes.items() if fnmatchcase(name, pattern))
        choose = {**self.choose, "prefix": next(chosen, "")}
        return declare(
            endpoint.view_class,
            endpoint.action,
            find=partial(operation_at, *arguments, choose),
            options={"name": name, **self.common, **self.options.get(name, {})},
            choices=self.choices,
            group=group if is_viewset(endpoint.view_class) else None,
            action=endpoint.action_name,
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One action, or method, of a view under one name of a router."""

    view_class: Any
    basename: str | None
    action: str
    method: str
    is_further_method: bool
    """Whether another method of the same action has the name of the action."""
    routes: list[Route]

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.view_class, self.basename, self.action, self.method)

    @property
    def partial_key(self) -> tuple[Any, ...] | None:
        """The key of the partial update of the same objects, which a router maps to PATCH."""
        partial_action = self.action.replace("update", "partial_update")
        if self.method != "put" or partial_action == self.action:
            return None
        return (self.view_class, self.basename, partial_action, "patch")

    @property
    def tool_name(self) -> str:
        """The noun and the action, as for a view set that is declared by itself."""
        if not is_viewset(self.view_class):
            return default_name(self.view_class, self.method, self.action)
        return f"{singular(self._noun)}_{self.action_name.removesuffix('_view')}"

    @property
    def action_name(self) -> str:
        """The action, after a verb for a further method."""
        if not self.is_further_method:
            return self.action
        return f"{VERBS.get(self.method, self.method)}_{self.action}"

    @property
    def plural(self) -> str:
        return plural(self._noun)

    @property
    def _noun(self) -> str:
        """The basename in words; a router takes the model's name without boundaries of words."""
        if self.basename is None:
            return base_name(self.view_class)
        model = getattr(getattr(self.view_class, "queryset", None), "model", None)
        name = self.basename
        if model is not None and name == model.__name__.lower():
            name = model.__name__
        return re.sub(r"\W+", "_", snake_case(name)).strip("_")


def _endpoints(target: Any) -> Iterator[Endpoint]:
    """Yield the operations of the views in ``target``, at all their URLs in the site."""
    # The URL patterns of a router, or of any argument of ``include``.
    urls: Any = getattr(target, "urls", target)
    has_namespace = isinstance(urls, tuple) and isinstance(urls[0], list | tuple)
    patterns = walk(urls[0] if has_namespace else urls, ())
    kinds = dict.fromkeys(_kind(pattern.callback) for _, pattern in patterns)
    endpoints: dict[tuple[Any, ...], Endpoint] = {}
    for view_class in dict.fromkeys(kind[0] for kind in kinds):
        modules = [base.__module__ for base in getattr(view_class, "__mro__", ())]
        is_about_api = any(module.startswith(ABOUT_THE_API) for module in modules)
        if is_about_api or not hasattr(view_class, "initialize_request"):
            continue
        for route in routes_of(view_class):
            if _kind(route.callback) in kinds:
                for endpoint in _at(view_class, route):
                    endpoints.setdefault(endpoint.key, endpoint).routes.append(route)
    yield from endpoints.values()


def _kind(callback: Any) -> tuple[Any, ...]:
    """The part that two callbacks of one view have in common: some routers make them anew."""
    actions = getattr(callback, "actions", None) or {}
    basename = getattr(callback, "initkwargs", {}).get("basename")
    return (getattr(callback, "cls", None), tuple(sorted(actions.items())), basename)


def _at(view_class: Any, route: Route) -> Iterator[Endpoint]:
    """Yield the operations at one route."""
    actions = {method: method for method in METHODS if hasattr(view_class, method)}
    if is_viewset(view_class):
        actions = dict(actions_by_method(route))
    actions = {method: actions[method] for method in allowed_methods(route) & actions.keys()}
    basename = route.callback.initkwargs.get("basename")
    bare: dict[str, str] = {}
    for method in sorted(METHODS.intersection(actions), key=METHODS_IN_ORDER.index):
        action = actions[method]
        is_further = bare.setdefault(action, method) != method
        yield Endpoint(view_class, basename, action, method, is_further, [])


METHODS_IN_ORDER = ("get", "post", "patch", "put", "delete")
VERBS = {"post": "create", "patch": "update", "put": "replace"}
"""The first words of the names of further methods."""
