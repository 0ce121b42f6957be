"""openapi_tools: the operations of any API that OpenAPI describes as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Unpack

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolOptions
from django_mcp.core.frame.frame import Frame
from django_mcp.core.protocol.texts import did_you_mean
from django_mcp.core.server.server import Server
from django_mcp.openapi import batches, secrets
from django_mcp.openapi.availability import Credentials
from django_mcp.openapi.batches import Build, Built, Declared, Group
from django_mcp.openapi.calls.answers import Answer
from django_mcp.openapi.calls.credentials import FindHeaders
from django_mcp.openapi.sources import documents, modern, ninja
from django_mcp.openapi.sources.base import Calling, Candidate
from django_mcp.openapi.tools import Choices, Operation, component_of

Prepare = Callable[[Any, Frame], None]
"""Sets attributes of the request of a view, which middleware of the site sets over HTTP."""


def openapi_tools(
    target: Any,
    *,
    server: Server | None = None,
    urlconf: Any = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    one_tool_per_view: bool = False,
    prefix: str = "",
    kwargs: Mapping[str, Any] | None = None,
    credentials: FindHeaders | None = None,
    authenticated_by: Sequence[Any] = (),
    prepare: Prepare | None = None,
    answer: Answer = "changed",
    **common: Unpack[ToolOptions],
) -> None:
    """Register the operations of an API as tools.

    ``target`` is an API of Django Ninja, a router of django-modern-rest, or a document of OpenAPI
    3: a mapping, or the path of a file below BASE_DIR. A call is a request in the name of the
    caller to the path of the operation, as ``urlconf`` resolves it, by default that of the site.
    What GET reads becomes tools, with ``read_only=False`` everything. ``include`` and ``exclude``
    choose by names of tools, by ids of operations, or by patterns of them; ``one_tool_per_view``
    makes one tool of each group, with an argument ``action``. ``options`` has the options of each
    tool, by name, and other keywords are options of all tools.

    ``prefix`` chooses one of several URLs of an API, and is the path before those of a document.
    ``kwargs`` are fixed arguments of the URL. ``credentials(frame)`` returns the headers by which
    the API knows callers who came in by others, ``authenticated_by`` has the callbacks, or names
    the security schemes, for which these count as logged in, and ``prepare(request, frame)`` sets
    attributes of the request. A write answers with the key and the fields that were sent;
    ``answer="full"``, also for a tool in ``options``, with all that the view says.

    What cannot be offered is a warning when the tools are built, at the first use of the server.
    """
    how = (urlconf, prefix, kwargs or {}, credentials, authenticated_by)
    declared = DeclaredApi(
        target=target,
        calling=Calling(*how),
        include=include,
        exclude=exclude,
        options=options or {},
        common=common,
        choices={"prepare": prepare, "answer": answer, "kwargs": kwargs or {}},
        is_one_tool_per_group=one_tool_per_view,
    )
    declared.check()
    batches.defer(registry.default if server is None else server, [declared])


def operations_of(target: Any) -> Callable[[Any, Calling], Iterator[Candidate]]:
    """Return what finds the operations of a target; raises ConfigurationError for others."""
    for is_target, find in FINDERS:
        if is_target(target):
            return find
    raise ConfigurationError(
        f"{target!r} is no API of Django Ninja or django-modern-rest, and no document of OpenAPI: "
        "views of REST framework become tools by rest_tools"
    )


FINDERS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Calling], Iterator[Candidate]]]] = (
    (documents.is_document, documents.operations),
    (ninja.is_api, ninja.operations),
    (modern.is_router, modern.operations),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredApi:
    """An API, whose operations are known when URLs can be imported."""

    target: Any
    calling: Calling
    include: Sequence[str]
    exclude: Sequence[str]
    options: Mapping[str, Mapping[str, Any]]
    """By the name of the tool."""
    common: Mapping[str, Any]
    choices: Mapping[str, Any]
    is_one_tool_per_group: bool

    def check(self) -> None:
        """Raise ConfigurationError for what is wrong before URLs can be imported."""
        operations_of(self.target)
        lists = {
            "include": self.include,
            "exclude": self.exclude,
            "authenticated_by": self.calling.authenticated_by,
        }
        for name, values in lists.items():
            if isinstance(values, str) or callable(values):
                raise ConfigurationError(f"{name} is {values!r}: give a list")

    @property
    def where(self) -> str:
        """The declaration in messages."""
        is_path = isinstance(self.target, str | Path)
        return f"openapi_tools({self.target if is_path else type(self.target).__name__})"

    view_name = where

    @property
    def options_of_tools(self) -> Iterator[Mapping[str, Any]]:
        """What is known of the tools before URLs can be imported."""
        yield self._of_tools
        yield from self.options.values()

    @property
    def _of_tools(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.common.items() if name != "read_only"}

    def expanded(self) -> Iterator[Declared]:
        """Yield the operations; then raise ConfigurationError for names that are none of them."""
        operations = [*operations_of(self.target)(self.target, self.calling)]
        names: dict[str, Candidate] = {}
        repeated = []
        for operation in operations:
            if operation.name in names:
                repeated.append(operation.name)
            elif self._is_offered(operation):
                yield self._declared(operation)
            names.setdefault(operation.name, operation)
        if repeated:
            raise ConfigurationError(
                f"several operations have these names: {', '.join(repeated)}. Give operation an "
                "operation id"
            )
        self._check_names(operations)

    def _is_offered(self, operation: Candidate) -> bool:
        reads_only = self.common.get("read_only") is not False
        if reads_only and operation.described.method != "get":
            return False
        is_included = not self.include or any(fits(each, operation) for each in self.include)
        return is_included and not any(fits(each, operation) for each in self.exclude)

    def _check_names(self, operations: Sequence[Candidate]) -> None:
        names = sorted({each.name for each in operations})
        for pattern in (*self.include, *self.exclude, *self.options):
            if any(fits(pattern, each) for each in operations):
                continue
            ids = {each.described.id for each in operations}
            hint = did_you_mean(pattern, {*names, *ids}, f"there are {', '.join(names)}")
            raise ConfigurationError(f"{pattern!r} is none of the operations: {hint}")

    def _declared(self, operation: Candidate) -> Declared:
        described = operation.described
        own = self.options.get(operation.name, {})
        of_tool = {name: value for name, value in own.items() if name != "answer"}
        answer = {"answer": own["answer"]} if "answer" in own else {}
        group = Group(described.group, self._of_tools) if self.is_one_tool_per_group else None
        return Declared(
            source=SOURCE,
            where=operation.where,
            view_name=operation.where,
            name=operation.name,
            find=operation.find,
            options={"name": operation.name, **self._of_tools, **of_tool},
            choices={**self.choices, **answer},
            group=group,
        )


def fits(pattern: str, operation: Candidate) -> bool:
    """Whether a pattern fits the name of a tool, or the id of its operation."""
    return any(fnmatchcase(name, pattern) for name in (operation.name, operation.described.id))


class DescribedOperations:
    """Operations that a document describes."""

    @contextmanager
    def builder(self, operations: Sequence[Operation]) -> Iterator[Build]:
        """Build the tool of each operation."""
        yield built

    def examine(self, declared: Declared, operation: Operation) -> tuple[Credentials, str]:
        """Return what the checks report of an operation."""
        return operation.credentials, secrets.of_described(operation.described)


SOURCE = DescribedOperations()


def built(declared: Declared, operation: Operation) -> Built:
    """Return the tool of an operation."""
    component = component_of(operation, Choices(**declared.choices), declared.options)
    return Built(component, operation.credentials, secrets.of_described(operation.described))
