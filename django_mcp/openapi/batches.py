"""The declared operations of a server: described and built together, when they are first read.

| step | when | by |
|---|---|---|
| declared | the module ``mcp`` of an app is imported, and URLs cannot be imported yet | ``defer`` |
| expected | the kinds of components are needed, without the components themselves | ``_expected`` |
| examined | system checks run: operations are found, but not their schemas | ``examine`` |
| built | the components are read for the first time, and again if this raised | ``_build`` |

An operation that cannot be a tool is recorded (``availability``); the others become tools.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from django.db import DatabaseError, connections
from django.urls import get_resolver

from django_mcp.core.components.base import Component, ConfigurationError
from django_mcp.core.components.tool import ToolComponent
from django_mcp.core.concurrency.loops import running_loop
from django_mcp.core.server.components import Expected
from django_mcp.core.server.server import Server
from django_mcp.openapi import availability
from django_mcp.openapi.availability import Credentials
from django_mcp.openapi.combined import Combination


@dataclass(frozen=True, slots=True)
class Group:
    """One tool for several operations of a view, with an argument that chooses between them."""

    name: str
    options: Mapping[str, Any]

    @property
    def where(self) -> str:
        """The tool in messages."""
        return f"The tool {self.name!r} of several operations"

    view_name = where


class Built(NamedTuple):
    """The tool of an operation, and the findings of the checks about it."""

    component: ToolComponent
    credentials: Credentials
    secret: str = ""
    """A name that says that its answers have credentials."""


Build = Callable[["Declared", Any], Built]
"""Returns the tool of an operation; raises ConfigurationError if it cannot be one."""


class Source(Protocol):
    """Where operations come from: it knows how they are described, and who may call them."""

    def builder(self, operations: Sequence[Any]) -> AbstractContextManager[Build]:
        """Return the function that builds each of these operations, described together."""
        ...

    def examine(self, declared: Declared, operation: Any) -> tuple[Credentials, str]:
        """Return the findings of the checks about an operation, without its schemas."""
        ...


class Located(Protocol):
    """A part of a declaration that may be recorded as missing."""

    @property
    def where(self) -> str: ...

    @property
    def view_name(self) -> str: ...


class Declaration(Located, Protocol):
    """The declaration of an author: an operation, or a router with many."""

    @property
    def options_of_tools(self) -> Iterable[Mapping[str, Any]]:
        """The known facts about its tools before URLs can be imported."""
        ...

    def expanded(self) -> Iterable[Declared]:
        """Return the operations, when URLs can be imported; raises ConfigurationError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One operation, as its author declares it."""

    source: Source
    where: str
    """The operation in the code of the site, or in its document."""
    view_name: str
    name: str
    """Of its method, or its action: the operations of a group have different names."""
    find: Callable[[], Any]
    """Returns the operation; raises ConfigurationError if there is none."""
    options: Mapping[str, Any]
    """The options of its tool, and of its source."""
    choices: Mapping[str, Any]
    """How it is called."""
    group: Group | None = None
    """The tool that has it as an action, if it has none of its own."""

    @property
    def options_of_tools(self) -> Iterable[Mapping[str, Any]]:
        return (self.options,)

    def expanded(self) -> Iterable[Declared]:
        return (self,)


@dataclass
class _Waiting:
    """The operations of a server that are not built yet."""

    batch: list[Declaration] | None = None


def defer(server: Server, declared: Iterable[Declaration]) -> None:
    """Add operations to those that are built when the components of ``server`` are first read."""
    waiting = server.state(_Waiting)
    batch = waiting.batch
    if batch is None:
        batch = waiting.batch = []
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
                options=options,
            )


def examine(server: Server) -> None:
    """Record the known facts about the operations before they are built: without any schema."""
    batch = server.state(_Waiting).batch or ()
    for declared, operation in _operations(server, batch, is_check=True):
        with _recorded(server, declared, is_check=True):
            of_caller, secret = declared.source.examine(declared, operation)
            availability.record_tool(server, declared.where, of_caller, secret)


def _build(server: Server, batch: list[Declaration]) -> list[Component]:
    """Return the tools of a batch; may be called again after it raised."""
    server.state(_Waiting).batch = None
    components: list[Component] = []
    groups: dict[str, tuple[Group, Combination]] = {}
    with _without_collection(), ExitStack() as stack:
        operations = _operations(server, batch)
        by_source: dict[Source, list[Any]] = {}
        for declared, operation in operations:
            by_source.setdefault(declared.source, []).append(operation)
        builders: dict[Source, Build] = {}
        for source, described in by_source.items():
            builders[source] = stack.enter_context(source.builder(described))
        for declared, operation in operations:
            with _recorded(server, declared):
                built = builders[declared.source](declared, operation)
                availability.record_tool(server, declared.where, built.credentials, built.secret)
                if declared.group is not None:
                    new = (declared.group, Combination(declared.group.options))
                    _, own = groups.setdefault(declared.group.name, new)
                    own.add(declared.name, built.component, declared.options)
                else:
                    components.append(built.component)
        for group, combination in groups.values():
            with _recorded(server, group):
                components.append(combination.component(group.name))
        return components


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
) -> list[tuple[Declared, Any]]:
    """Return the operations that the site serves; others are recorded."""
    # A broken URLconf is an error of the site, and not of one view.
    _ = get_resolver().url_patterns
    operations: list[tuple[Declared, Any]] = []
    for declaration in batch:
        with _recorded(server, declaration, is_check=is_check):
            for declared in declaration.expanded():
                with _recorded(server, declared, is_check=is_check):
                    operations.append((declared, declared.find()))
    return operations


@contextmanager
def _recorded(server: Server, declared: Located, *, is_check: bool = False) -> Iterator[None]:
    """Record why an operation is not a tool, instead of raising the error.

    Most code that runs here belongs to the site, and may raise anything for a view that is made
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
    """Return the components of ``build``, and close the connections that it opened."""
    before = connections.all(initialized_only=True)
    present = [connection for connection in before if connection.connection is not None]
    try:
        return build()
    finally:
        for connection in connections.all(initialized_only=True):
            if connection not in present:
                connection.close()
