"""rest_tools and rest_tool: views of Django REST framework as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connections
from django.urls import get_resolver

from django_mcp import registry
from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.tool import ToolOptions
from django_mcp.concurrency.loops import running_loop
from django_mcp.frame.frame import Frame
from django_mcp.rest import availability
from django_mcp.rest.arguments import UNSET
from django_mcp.rest.credentials import FindAuth
from django_mcp.rest.operations import (
    Operation,
    actions_of,
    check_forced_user,
    is_viewset,
    view_class_of,
    view_operation,
    viewset_operation,
)
from django_mcp.rest.spectacular import Descriptions
from django_mcp.rest.tools import Choices, component_of
from django_mcp.server.server import Server

Prepare = Callable[[Any, Frame], None]
"""Sets attributes of the request of a view, which middleware of the site sets over HTTP."""

OWN_OPTIONS = ("serializer", "query")
"""What ``options`` of an action has beside the options of its tool."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One operation, as its author declares it."""

    view_class: Any
    name: str
    """Of its method."""
    find: Callable[[], Operation]
    """Returns it; raises ConfigurationError if there is no such operation."""
    options: Mapping[str, Any]

    @property
    def view_name(self) -> str:
        return str(self.view_class.__qualname__)

    @property
    def where(self) -> str:
        return f"{self.view_class.__module__}.{self.view_name}.{self.name}"


def rest_tools(
    viewset: Any,
    actions: Sequence[str] | None = None,
    *,
    server: Server | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
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
    ``auth(frame)`` returns ``request.auth`` for callers without a token of the API, where the
    permission classes of the view read it. ``prepare(request, frame)`` sets attributes of the
    request that middleware of the site sets over HTTP.

    The tools are built when components are first read, since URLs cannot be imported while apps
    are getting ready. An action that cannot be offered is a warning then, in the log and of
    ``manage.py check``. Raises ConfigurationError for unknown actions at once.
    """
    view_class = view_class_of(viewset)
    if not is_viewset(view_class):
        raise ConfigurationError(f"{view_class.__qualname__} is no view set: use rest_tool")
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    names = actions_of(view_class, actions)
    declared = _declared_actions(view_class, names, common, options or {}, choose)
    chosen_server = registry.default if server is None else server
    if not declared:
        _record_nothing(chosen_server, view_class)
    choices = {"version": version, "kwargs": kwargs or {}, "auth": auth, "prepare": prepare}
    _defer(chosen_server, declared, choices)


def _declared_actions(
    view_class: Any,
    names: Sequence[str],
    common: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
    choose: Mapping[str, Any],
) -> list[Declared]:
    if unknown := own.keys() - set(names):
        raise ConfigurationError(
            f"options has {sorted(unknown)[0]!r}, which is none of the actions"
        )
    return [
        Declared(
            view_class,
            name,
            partial(viewset_operation, view_class, name, choose),
            {**common, **own.get(name, {})},
        )
        for name in names
    ]


def _record_nothing(server: Server, view_class: Any) -> None:
    where = f"{view_class.__module__}.{view_class.__qualname__}"
    reason = (
        f"{where} has neither list nor retrieve, which are the actions without actions=[…]: name "
        "those that become tools"
    )
    availability.record_missing(server, where, reason)


def rest_tool(
    view: Any,
    method: str = "get",
    *,
    server: Server | None = None,
    prefix: str = "",
    version: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    auth: FindAuth | None = None,
    prepare: Prepare | None = None,
    serializer: Any = UNSET,
    query: Mapping[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> None:
    """Register one method of a view as a tool: of an APIView class, or of an ``@api_view``.

    ``serializer`` describes the data that the view reads, if it is no generic view; None means that
    it reads none. The other parameters are those of ``rest_tools``.
    """
    view_class = view_class_of(view)
    check_forced_user()
    choose = {"prefix": prefix, "kwargs": kwargs}
    given: dict[str, Any] = {**options, "query": query}
    if serializer is not UNSET:
        given["serializer"] = serializer
    declared = Declared(
        view_class,
        method,
        partial(view_operation, view, method, choose),
        given,
    )
    choices = {"version": version, "kwargs": kwargs or {}, "auth": auth, "prepare": prepare}
    _defer(registry.default if server is None else server, [declared], choices)


Batch = list[tuple[Declared, Mapping[str, Any]]]
"""Operations of one server that are described and built together, with the author's choices."""

_open_batches: WeakKeyDictionary[Server, Batch] = WeakKeyDictionary()
"""Those that are not built yet."""


def _defer(server: Server, declared: Iterable[Declared], choices: Mapping[str, Any]) -> None:
    batch = _open_batches.get(server)
    if batch is None:
        batch = _open_batches[server] = []
        build = partial(_build_batch, server, batch)
        server.components.defer(lambda: outside_event_loop(build))
    batch.extend((operation, choices) for operation in declared)


def _build_batch(server: Server, batch: Batch) -> list[Component]:
    """Return the tools of a batch; may be called again after it raised."""
    _open_batches.pop(server, None)
    # A broken URLconf is an error of the site, and not of one view.
    _ = get_resolver().url_patterns
    operations: list[tuple[Declared, Mapping[str, Any], Operation]] = []
    for declared, choices in batch:
        with _recorded(server, declared):
            operations.append((declared, choices, declared.find()))
    descriptions = Descriptions(operation for _, _, operation in operations)
    components: list[Component] = []
    for declared, choices, operation in operations:
        with _recorded(server, declared):
            described = descriptions.of(operation)
            own = {name: it for name, it in declared.options.items() if name in OWN_OPTIONS}
            of_tool = {name: it for name, it in declared.options.items() if name not in own}
            chosen = Choices(**choices, **own)
            component, credentials = component_of(operation, described, chosen, of_tool)
            availability.record_tool(server, declared.where, credentials)
            components.append(component)
    return components


@contextmanager
def _recorded(server: Server, declared: Declared) -> Iterator[None]:
    """Record why an operation is no tool instead of raising it.

    Most of what runs here is code of the site, which may raise anything for a view that is made
    without a request. One such view must not take the tools of all others with it.
    """
    try:
        yield
    except DatabaseError:
        raise  # Tables may not exist yet: the tools are built later.
    except ConfigurationError as error:
        is_named = declared.view_name in str(error)
        reason = str(error) if is_named else f"{declared.where}: {error}"
        availability.record_missing(server, declared.where, reason)
    except Exception as error:
        reason = f"{declared.where}: {type(error).__name__}: {error}"
        availability.record_missing(server, declared.where, reason)


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
