"""rest_tools and rest_tool: views of Django REST framework as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Unpack

from django.db import connections

from django_mcp import registry
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.tool import ToolOptions
from django_mcp.frame.frame import Frame
from django_mcp.pubsub.bus import running_loop
from django_mcp.rest.arguments import UNSET
from django_mcp.rest.operations import (
    Operation,
    actions_of,
    check_forced_user,
    is_viewset,
    view_class_of,
    view_operation,
    viewset_operation,
)
from django_mcp.rest.tools import Choices, component_of
from django_mcp.server.server import Server

Prepare = Callable[[Any, Frame], None]
"""Sets attributes of the request of a view, which middleware of the site sets over HTTP."""

OWN_OPTIONS = ("serializer", "query")
"""What ``options`` of an action has beside the options of its tool."""


def rest_tools(
    viewset: Any,
    actions: Sequence[str] | None = None,
    *,
    server: Server | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    prepare: Prepare | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register actions of a view set as tools: by default ``list`` and ``retrieve``.

    Each tool sends a request in the name of the caller to the URL that the view set has in the
    URLconf, so that its permissions, throttles, filters, pagination, versioning, parsers and
    renderers apply. ``options`` has the options of the tool of each action; beside those of
    ``tool``, they are ``serializer``, what an extra action reads (None for nothing), and ``query``,
    the JSON Schemas of further query parameters. Other keywords are options of all tools.

    ``prefix`` chooses between several URLs of a view set, ``version`` is the version of the API,
    and ``kwargs`` are arguments of the URL that the caller does not choose.
    ``prepare(request, frame)`` sets attributes of the request that middleware of the site sets
    over HTTP.

    The tools are built when components are first read, since URLs cannot be imported while apps
    are getting ready. Raises ConfigurationError then, and for unknown actions at once.
    """
    view_class = view_class_of(viewset)
    if not is_viewset(view_class):
        raise ConfigurationError(f"{view_class.__qualname__} is no view set: use rest_tool")
    names, own = actions_of(view_class, actions), options or {}
    if unknown := own.keys() - set(names):
        raise ConfigurationError(
            f"options has {sorted(unknown)[0]!r}, which is none of the actions"
        )
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}

    def operations() -> Iterator[tuple[Operation, Mapping[str, Any]]]:
        for name in names:
            yield viewset_operation(view_class, name, choose), {**common, **own.get(name, {})}

    _defer(operations, server, version=version, kwargs=kwargs or {}, prepare=prepare)


def rest_tool(
    view: Any,
    method: str = "get",
    *,
    server: Server | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    prepare: Prepare | None = None,
    serializer: Any = UNSET,
    query: Mapping[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> None:
    """Register one method of a view as a tool: of an APIView class, or of an ``@api_view``.

    ``serializer`` describes the data that the view reads, if it is no generic view; None means that
    it reads none. The other parameters are those of ``rest_tools``.
    """
    view_class_of(view)
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    given: dict[str, Any] = {**options, "query": query}
    if serializer is not UNSET:
        given["serializer"] = serializer

    def operations() -> Iterator[tuple[Operation, Mapping[str, Any]]]:
        yield view_operation(view, method, choose), given

    _defer(operations, server, version=version, kwargs=kwargs or {}, prepare=prepare)


def _defer(
    operations: Callable[[], Iterable[tuple[Operation, Mapping[str, Any]]]],
    server: Server | None,
    **choices: Any,
) -> None:
    def build() -> Iterator[Component]:
        for operation, options in operations():
            own = {name: options[name] for name in OWN_OPTIONS if name in options}
            of_tool = {name: it for name, it in options.items() if name not in own}
            yield component_of(operation, Choices(**choices, **own), of_tool)

    components = (registry.default if server is None else server).components
    components.defer(lambda: outside_event_loop(lambda: [*build()]))


def outside_event_loop(build: Callable[[], list[Component]]) -> list[Component]:
    """Return the components of ``build``, which calls code of views that may read the database."""
    if running_loop() is None:
        return build()

    def build_and_close() -> list[Component]:
        try:
            return build()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(build_and_close).result()
