"""The declared operations of a server: described and built together, when they are first read."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.urls import get_resolver

from django_mcp.components.base import Component, ConfigurationError
from django_mcp.components.resource import ResourceComponent
from django_mcp.components.tool import ToolComponent
from django_mcp.concurrency.loops import running_loop
from django_mcp.rest import availability
from django_mcp.rest.calls import credentials, secrets
from django_mcp.rest.combined import Combination
from django_mcp.rest.operations import Operation
from django_mcp.rest.serializers import shared
from django_mcp.rest.spectacular import Descriptions
from django_mcp.rest.tools import Choices, component_of
from django_mcp.server.components import Expected
from django_mcp.server.server import Server

OWN_OPTIONS = ("serializer", "query")
"""What ``options`` of an action has beside the options of its tool."""


@dataclass(frozen=True, slots=True)
class Group:
    """One tool for several operations of a view, with an argument that chooses between them."""

    name: str
    options: Mapping[str, Any]


class Declaration(Protocol):
    """What an author declares: an operation, or a router with many."""

    @property
    def where(self) -> str: ...

    @property
    def view_name(self) -> str: ...

    @property
    def options_of_tools(self) -> Iterable[Mapping[str, Any]]:
        """What is known of its tools before URLs can be imported."""
        ...

    def expanded(self) -> Iterable[Declared]:
        """Return the operations, when URLs can be imported; raises ConfigurationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One operation, as its author declares it."""

    view_class: Any
    name: str
    """Of its method."""
    find: Callable[[], Operation]
    """Returns it; raises ConfigurationError if there is no such operation."""
    options: Mapping[str, Any]
    """Of its tool, and OWN_OPTIONS."""
    choices: Mapping[str, Any]
    """How it is called."""
    group: Group | None = None
    """The tool of which it becomes an action, if it has none of its own."""

    @property
    def view_name(self) -> str:
        return str(self.view_class.__qualname__)

    @property
    def where(self) -> str:
        return f"{self.view_class.__module__}.{self.view_name}.{self.name}"

    @property
    def options_of_tools(self) -> Iterable[Mapping[str, Any]]:
        return (self.options,)

    def expanded(self) -> Iterable[Declared]:
        return (self,)


_open_batches: WeakKeyDictionary[Server, list[Declaration]] = WeakKeyDictionary()
"""The operations that are not built yet."""


def defer(server: Server, declared: Iterable[Declaration]) -> None:
    """Add operations to those that are built when the components of ``server`` are first read."""
    batch = _open_batches.get(server)
    if batch is None:
        batch = _open_batches[server] = []
        build = partial(_build, server, batch)
        expected = partial(_expected, batch)
        server.components.defer(partial(_outside_event_loop, build), expected)
    batch.extend(declared)


def _expected(batch: Iterable[Declaration]) -> Iterator[Expected]:
    for declaration in batch:
        for options in declaration.options_of_tools:
            yield Expected(
                ToolComponent.kind,
                complete=options.get("complete") or {},
                task_support=options.get("task_support") or "forbidden",
                view=options.get("ui"),
            )
            if options.get("ui") is not None:
                yield Expected(ResourceComponent.kind)


def examine(server: Server) -> None:
    """Record what is known of the operations before they are built: without any schema."""
    batch = _open_batches.get(server, ())
    for declared, operation in _operations(server, batch, is_check=True):
        with _recorded(server, declared, is_check=True):
            view = operation.view()
            choices = declared.choices
            of_caller = credentials.of_operation(
                operation, view, choices["auth"], choices["authenticated_by"]
            )
            secret = secrets.of_operation(operation)
            availability.record_tool(server, declared.where, of_caller, secret)


def _build(server: Server, batch: list[Declaration]) -> list[Component]:
    """Return the tools of a batch; may be called again after it raised."""
    _open_batches.pop(server, None)
    with _without_collection():
        try:
            return _components(server, batch)
        finally:
            shared.cache_clear()


def _components(server: Server, batch: list[Declaration]) -> list[Component]:
    operations = _operations(server, batch)
    descriptions = Descriptions(operation for _, operation in operations)
    components: list[Component] = []
    groups: dict[str, Combination] = {}
    for declared, operation in operations:
        with _recorded(server, declared):
            component = _component(server, declared, operation, descriptions)
            if declared.group is not None:
                group = groups.setdefault(declared.group.name, Combination(declared.group.options))
                group.add(declared.name, component, declared.options)
            else:
                components.append(component)
    return [*components, *(group.component(name) for name, group in groups.items())]


def _component(
    server: Server, declared: Declared, operation: Operation, descriptions: Descriptions
) -> ToolComponent:
    own = {name: it for name, it in declared.options.items() if name in OWN_OPTIONS}
    of_tool = {name: it for name, it in declared.options.items() if name not in own}
    choices = Choices(**declared.choices, **own)
    described = descriptions.of(operation)
    component, of_caller = component_of(operation, described, choices, of_tool)
    availability.record_tool(server, declared.where, of_caller, secrets.of_operation(operation))
    return component


@contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: most that is made is kept, and 765 tools take 27 % longer."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _operations(
    server: Server, batch: Iterable[Declaration], *, is_check: bool = False
) -> list[tuple[Declared, Operation]]:
    """Return the operations that the site serves; others are recorded."""
    # A broken URLconf is an error of the site, and not of one view.
    _ = get_resolver().url_patterns
    operations: list[tuple[Declared, Operation]] = []
    for declaration in batch:
        with _recorded(server, declaration, is_check=is_check):
            for declared in declaration.expanded():
                with _recorded(server, declared, is_check=is_check):
                    operations.append((declared, declared.find()))
    return operations


@contextmanager
def _recorded(server: Server, declared: Declaration, *, is_check: bool = False) -> Iterator[None]:
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
        availability.record_missing(server, declared.where, reason, is_check=is_check)
    except Exception as error:
        reason = f"{declared.where}: {type(error).__name__}: {error}"
        availability.record_missing(server, declared.where, reason, is_check=is_check)


def _outside_event_loop(build: Callable[[], list[Component]]) -> list[Component]:
    """Return the components of ``build``, which calls code of views that may read the database."""
    closing = partial(_closing_connections, build)
    if running_loop() is None:
        return closing()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(closing).result()


def _closing_connections(build: Callable[[], list[Component]]) -> list[Component]:
    """Return what ``build`` returns; the connections that it opened are closed."""
    present = [connection for connection in _connections() if connection.connection is not None]
    try:
        return build()
    finally:
        for connection in _connections():
            if connection not in present:
                connection.close()


def _connections() -> Sequence[BaseDatabaseWrapper]:
    return connections.all(initialized_only=True)
