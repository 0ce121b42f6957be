"""openapi_tools: the operations of any API that OpenAPI describes as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from django_mcp import registry
from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.tool import ToolOptions
from django_mcp.core.frame.frame import Frame
from django_mcp.core.server.server import Server
from django_mcp.openapi import batches
from django_mcp.openapi.availability import Credentials, secret_of
from django_mcp.openapi.batches import Build, Built, Declared, Group
from django_mcp.openapi.calls.answers import Answer, check_answer
from django_mcp.openapi.calls.credentials import FindHeaders
from django_mcp.openapi.selection import Named, Selection
from django_mcp.openapi.sources import documents, ninja
from django_mcp.openapi.tools import Calling, Candidate, Choices, Operation, component_of

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
    answer: Answer | None = None,
    **common: Unpack[ToolOptions],
) -> None:
    """Register the operations of an API as tools.

    ``target`` is an API of Django Ninja, a router of django-modern-rest, or a document of OpenAPI
    3: a mapping, or a path below BASE_DIR. A call is a request in the name of the caller to the
    path of the operation, which ``urlconf`` resolves. Operations of GET become tools, with
    ``read_only=False`` all; ``include`` and ``exclude`` choose by names of tools, ids of
    operations, or patterns. ``one_tool_per_view`` makes one tool of each group, with an argument
    ``action``. ``options`` has the options of each tool by name; other keywords are for all.

    ``prefix`` chooses one of several URLs of an API, and precedes the paths of a document;
    ``kwargs`` are fixed arguments of the URL. ``credentials(frame)`` returns the headers for
    callers with other credentials, whom the callbacks or security schemes in ``authenticated_by``
    accept. ``prepare(request, frame)`` sets attributes of the request. Writes answer with the key
    and the fields that were sent; ``answer="full"`` with all that the view says, and ``"changed"``
    shortens other answers of POST too.

    An operation that cannot be a tool is a warning at the first use of the server.
    """
    how = (urlconf, prefix, kwargs or {}, credentials, authenticated_by)
    declared = DeclaredApi(
        target=target,
        calling=Calling(*how),
        selection=Selection(include=include, exclude=exclude),
        options=options or {},
        common=common,
        choices={"prepare": prepare, "answer": answer, "kwargs": kwargs or {}},
        is_one_tool_per_group=one_tool_per_view,
    )
    declared.check()
    batches.defer(registry.server_or_default(server, "openapi_tools"), [declared])


def operations_of(target: Any) -> Callable[[Any, Calling], Iterator[Candidate]]:
    """Return the function that finds the operations of a target.

    Raises ConfigurationError for an unknown kind of target."""
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
    (documents.is_router, documents.operations_of_router),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredApi:
    """An API. Its operations are known once URLs can be imported."""

    target: Any
    calling: Calling
    selection: Selection
    options: Mapping[str, Mapping[str, Any]]
    """By the name of the tool."""
    common: Mapping[str, Any]
    choices: Mapping[str, Any]
    is_one_tool_per_group: bool

    def check(self) -> None:
        """Raise ConfigurationError for errors that are known before URLs can be imported."""
        operations_of(self.target)
        self.selection.check(authenticated_by=self.calling.authenticated_by)
        for answer in (self.choices["answer"], *(it.get("answer") for it in self.options.values())):
            check_answer(answer)

    @property
    def where(self) -> str:
        """The declaration in messages."""
        is_path = isinstance(self.target, str | Path)
        return f"openapi_tools({self.target if is_path else type(self.target).__name__})"

    view_name = where

    @property
    def options_of_tools(self) -> Iterator[Mapping[str, Any]]:
        """The known facts about the tools before URLs can be imported."""
        yield self._of_tools
        yield from self.options.values()

    @property
    def _of_tools(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.common.items() if name != "read_only"}

    def expanded(self) -> Iterator[Declared]:
        """Yield the operations; then raise ConfigurationError for names that are none of them."""
        reads_only = self.common.get("read_only") is not False
        operations = (
            Named(
                names=(each.name, each.described.id),
                label=each.name,
                is_left_out=reads_only and each.described.method != "get",
                operation=each,
            )
            for each in [*operations_of(self.target)(self.target, self.calling)]
        )
        remedy = "Give each an operation id of its own"
        for chosen in self.selection.chosen(operations, options=self.options, remedy=remedy):
            yield self._declared(chosen.operation)

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


class DescribedOperations:
    """Operations that a document describes."""

    @contextmanager
    def builder(self, operations: Sequence[Operation]) -> Iterator[Build]:
        """Build the tool of each operation."""
        yield built

    def examine(self, declared: Declared, operation: Operation) -> tuple[Credentials, str]:
        """Return the findings of the checks about an operation."""
        return operation.credentials, secret_of(operation.described)


SOURCE = DescribedOperations()


def built(declared: Declared, operation: Operation) -> Built:
    """Return the tool of an operation."""
    component = component_of(operation, Choices(**declared.choices), declared.options)
    return Built(component, operation.credentials, secret_of(operation.described))
