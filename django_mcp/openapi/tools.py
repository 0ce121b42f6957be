"""Operations that a source has described, and the tool of each: its arguments and its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.declaration import line_of
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.openapi import filters
from django_mcp.openapi.arguments import Arguments, of_body, of_request
from django_mcp.openapi.calls import requests, rows
from django_mcp.openapi.calls.answers import Answer, echo_of, has_rows, row_fields
from django_mcp.openapi.calls.credentials import CallerAccess, FindHeaders
from django_mcp.openapi.calls.view_call import MULTIPART, ViewCall
from django_mcp.openapi.document import FORMS, JSON, Described
from django_mcp.openapi.parameters import usable
from django_mcp.openapi.routes import KEYS as NAMES_OF_KEYS
from django_mcp.openapi.routes import VARIABLE, Route, argument_schema, of_any_key, routes_at

Schema = dict[str, Any]

HINTS: Mapping[str, Mapping[str, bool]] = {
    "get": {"read_only": True},
    "put": {"destructive": True, "idempotent": True},
    "patch": {"destructive": True},
    "delete": {"destructive": True, "idempotent": True},
}
"""Annotations by method; the effects of a POST are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A described operation at a route of the site."""

    described: Described
    route: Route
    variables: Mapping[str, str]
    """The names in the document of the variables of the route."""
    credentials: Any
    permission: Any = None
    """Whom the tool is hidden from; by default callers whom ``credentials`` does not accept."""
    secret_headers: frozenset[str] = frozenset()
    """Headers and parameters that are credentials."""
    function: Any = None
    """The function in the code of the site, for messages."""

    @property
    def method(self) -> str:
        return self.described.method

    @property
    def has_body(self) -> bool:
        return self.described.has_body


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
    if described.problem:
        raise ConfigurationError(described.problem)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How an author wants an operation to be called, beside the options of its tool."""

    prepare: Any = None
    answer: Answer | None = None
    kwargs: Mapping[str, Any]


def component_of(
    operation: Operation, choices: Choices, options: Mapping[str, Any]
) -> ToolComponent:
    """Return the tool of an operation; raises ConfigurationError if it cannot be one."""
    described = operation.described
    arguments = read(operation, choices.kwargs)
    is_list = described.method == "get" and has_rows(described.answer)
    own = arguments.schema["properties"]
    fields = row_fields(described.answer, own, lists_names=True) if is_list else None
    pages = None
    if is_list and rows.CURSOR not in own:
        pages = rows.Pages(described.where, options.get("max_result_chars"))
    call = ViewCall(
        operation,
        arguments,
        pages,
        accept=requests.ACCEPT,
        query={},
        content_types=content_types(described, arguments),
        credentials=operation.credentials,
        prepare=choices.prepare,
        echo=echo_of(described.method, arguments, choices.answer),
        row_fields=fields,
    )
    declared: dict[str, Any] = {
        "title": None if is_trivial(described) else described.summary or None,
        "description": description_of(described),
        "input_schema": rows.with_arguments(arguments.schema, pages, fields),
        **HINTS.get(described.method, {}),
    }
    if options.get("permission") is None:
        access = operation.permission or CallerAccess(operation.credentials, described.where)
        declared["permission"] = access
    handler = call.call_async if operation.route.is_async else call.call
    component = tool_component(handler, **{**declared, **options})
    if operation.function is None:
        return component
    source = {
        "module": operation.function.__module__,
        "find_line": partial(line_of, operation.function),
    }
    return replace(component, **source)


def read(operation: Operation, fixed: Mapping[str, Any]) -> Arguments:
    """Return the arguments of an operation; raises ConfigurationError for an impossible one."""
    described = operation.described
    kept, many = filters.folded(
        usable(operation.described.parameters, operation.secret_headers, operation.described.where)
    )
    body, shared = of_body(
        described.body if described.has_body else None,
        described.definitions,
        is_partial=described.method == "patch",
    )
    names = {each.name for each in kept}
    path = path_schemas(operation, fixed)
    if twice := sorted(path.keys() & names):
        raise ConfigurationError(f"{described.where} has the argument {twice[0]!r} twice")
    return of_request(
        described.where,
        query=kept,
        many=many,
        body=body,
        shared=shared,
        path=path,
        variables={name: operation.variables.get(name, name) for name in path},
        fixed=fixed,
    )


def path_schemas(operation: Operation, fixed: Mapping[str, Any]) -> dict[str, Schema]:
    """Return the schemas of the arguments of the path, by their names in the document."""
    route = operation.route
    if unknown := fixed.keys() - set(route.names):
        raise ConfigurationError(
            f"The URL of {operation.described.where} has no argument {sorted(unknown)[0]!r}"
        )
    schemas_of_path = {}
    for name, variable in operation.variables.items():
        if variable in fixed:
            continue
        declared = operation.described.path_schemas.get(name)
        converter = route.converters.get(variable)
        by_url = argument_schema(converter)
        if converter is None and name.endswith(NAMES_OF_KEYS):
            by_url = of_any_key()
        # A path has no empty variable, and none that is longer than a URL may be.
        is_text = (declared or {}).get("type") == "string"
        schemas_of_path[name] = {**by_url, **(declared or {})} if is_text else declared or by_url
    return schemas_of_path


def content_types(described: Described, arguments: Arguments) -> Sequence[str]:
    """Return the media types of a body without and with files; raises ConfigurationError."""
    if not described.has_body:
        return ()
    of_json = [it for it in described.media_types if it not in FORMS]
    if described.is_form:
        if not any(it in FORMS for it in described.media_types) or arguments.is_body_nested:
            raise ConfigurationError(
                f"{described.where} reads {', '.join(described.media_types)}, but a tool sends "
                "JSON or the fields of a form"
            )
        return (MULTIPART,)
    if arguments.files and MULTIPART in described.media_types:
        return (JSON, MULTIPART)
    if arguments.files:
        raise ConfigurationError(f"{described.where} takes files in JSON, which has none")
    return (of_json[0] if of_json and "*" not in of_json[0] else JSON,)


def is_trivial(described: Described) -> bool:
    """Whether the summary has the words of the name alone, as frameworks make it."""
    words = set(described.summary.lower().replace("_", " ").split())
    return words <= set(described.id.lower().replace("_", " ").replace(".", " ").split())


def description_of(described: Described) -> str:
    """Return the document's description of an operation, which begins with its summary."""
    summary = described.summary.rstrip(".")
    if not described.description:
        return f"{summary}." if summary else f"{described.where}."
    if is_trivial(described) or described.description.startswith(summary):
        return described.description
    return f"{summary}.\n\n{described.description}"
