"""The component of an operation: its schemas, its annotations and its handler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rest_framework.parsers import MultiPartParser
from rest_framework.settings import api_settings
from rest_framework.utils.model_meta import get_field_info
from rest_framework.versioning import (
    AcceptHeaderVersioning,
    QueryParameterVersioning,
    URLPathVersioning,
)

from django_mcp.core.components.base import ConfigurationError
from django_mcp.core.components.declaration import line_of
from django_mcp.core.components.tool import ToolComponent, tool_component
from django_mcp.openapi import tools
from django_mcp.openapi.arguments import Arguments
from django_mcp.openapi.calls import requests, responses, rows
from django_mcp.openapi.calls.answers import KEYS, Answer, RowFields, echo_of, row_fields
from django_mcp.openapi.calls.view_call import MULTIPART, ViewCall
from django_mcp.rest import arguments as readers
from django_mcp.rest import descriptions, outputs
from django_mcp.rest.calls import access, credentials
from django_mcp.rest.calls.credentials import Credentials, FindAuth
from django_mcp.rest.operations import Operation, default_name
from django_mcp.rest.parameters import is_list
from django_mcp.rest.spectacular import Described

HINTS: Mapping[str, Mapping[str, bool]] = {**tools.HINTS, "create": {"destructive": False}}
"""Annotations by method; for POST, by the action: the effects of all but "create" are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How an author wants an operation to be called, beside the options of its tool."""

    version: str | None = None
    kwargs: Mapping[str, Any]
    prepare: Any = None
    answer: Answer | None = None
    auth: FindAuth | None = None
    authenticated_by: Sequence[type | str] = ()
    serializer: Any = readers.UNSET
    query: Mapping[str, Any] | None = None


def component_of(
    operation: Operation,
    described: Described | None,
    choices: Choices,
    options: Mapping[str, Any],
) -> tuple[ToolComponent, Credentials]:
    """Return the tool of an operation, and its credentials; raises ConfigurationError.

    ``described`` is its description by drf-spectacular.
    """
    if described is not None and described.body is not None:
        operation = replace(operation, is_described_with_body=True)
    view = operation.view()
    kwargs, accept, query = of_version(operation, view, choices)
    arguments = readers.read(
        operation,
        view,
        described,
        kwargs=kwargs,
        serializer=choices.serializer,
        query=choices.query,
    )
    pages = pages_of(operation, arguments, options)
    output = outputs.output_schema(operation, view)
    fields = fields_of(operation, view, arguments, output)
    of_caller = credentials.of_operation(operation, view, choices.auth, choices.authenticated_by)
    caller = ViewCall(
        operation,
        arguments,
        pages,
        accept=accept,
        query=query,
        content_types=content_types(operation, view, arguments),
        credentials=of_caller,
        prepare=choices.prepare,
        echo=echo_of(operation.method, arguments, choices.answer, keys=keys_of(operation)),
        row_fields=fields,
    )
    declared = {
        **_declared(operation, described),
        "input_schema": rows.with_arguments(arguments.schema, pages, fields),
        "output_schema": output,
    }
    permission = access.of_operation(operation, of_caller, choices.prepare)
    if permission is not None and options.get("permission") is None:
        declared["permission"] = permission
    handler = caller.call_async if operation.route.is_async else caller.call
    component = tool_component(handler, **{**declared, **options})
    kind = operation.view_class
    return replace(component, module=kind.__module__, find_line=partial(line_of, kind)), of_caller


def _declared(operation: Operation, described: Described | None) -> dict[str, Any]:
    """The descriptor of the tool, unless the options of the site override it."""
    title = "" if described is None else described.title
    written = "" if described is None else described.description
    return {
        "name": default_name(operation.view_class, operation.method, operation.action),
        "title": title or None,
        "description": descriptions.of_operation(operation, written, title),
        **HINTS.get(operation.method, HINTS.get(operation.action, {})),
    }


def pages_of(
    operation: Operation, arguments: Arguments, options: Mapping[str, Any]
) -> rows.Pages | None:
    """Return the parts of a list; None where the site has cursors, and for other responses."""
    is_own = rows.CURSOR in arguments.schema["properties"]
    if not is_list(operation) or is_own:
        return None
    return rows.Pages(operation.where, options.get("max_result_chars"))


def fields_of(
    operation: Operation, view: Any, arguments: Arguments, output: Mapping[str, Any] | None
) -> RowFields | None:
    """Return the members of rows that a caller may choose; None where they are few or unknown."""
    if not is_list(operation):
        return None
    own = arguments.schema["properties"]
    if output is not None:
        return row_fields(output, own, lists_names=False)
    shown: dict[str, Any] = dict.fromkeys(outputs.names_of_rows(operation, view), {})
    rows_of_list = {"type": "array", "items": {"properties": shown}}
    return row_fields(rows_of_list, own, lists_names=True)


def keys_of(operation: Operation) -> Sequence[str]:
    """Return the members of an answer that identify its object, the first one first."""
    lookup = getattr(operation.view_class, "lookup_field", None)
    model = getattr(getattr(operation.view_class, "queryset", None), "model", None)
    own = () if model is None else (get_field_info(model).pk.name,)
    return list(dict.fromkeys([*own, *([lookup] if isinstance(lookup, str) else ()), *KEYS]))


def content_types(operation: Operation, view: Any, arguments: Arguments) -> Sequence[str]:
    """Return the media types of a body without and with files, which parsers of the view accept."""
    if not operation.has_body:
        return ()
    accepted = [str(parser.media_type) for parser in view.parser_classes]
    # A parser of another kind would read the body itself, which has no form.
    is_usual = any(issubclass(parser, MultiPartParser) for parser in view.parser_classes)
    of_json = [each for each in accepted if responses.is_json(each)][:1]
    of_form = [MULTIPART] if is_usual and not arguments.is_body_nested else []
    usable = [*of_json, *(of_form if arguments.files or not of_json else ())]
    if not usable or (arguments.files and not of_form):
        raise ConfigurationError(
            f"{operation.where} accepts {', '.join(accepted) or 'nothing'}, but a tool sends JSON, "
            "or forms where there are files: add MultiPartParser, or a class derived from it"
        )
    return usable


def of_version(
    operation: Operation, view: Any, choices: Choices
) -> tuple[Mapping[str, Any], str, Mapping[str, str]]:
    """Return the arguments of the path, the Accept header and the query for the version."""
    scheme = view.versioning_class
    version = choices.version
    accept = requests.ACCEPT
    is_in_path = scheme is not None and issubclass(scheme, URLPathVersioning)
    if version is None:
        param = scheme.version_param if is_in_path else None
        default = api_settings.DEFAULT_VERSION
        is_open = param in operation.route.names and param not in choices.kwargs
        # The caller does not choose the version where the site has a default.
        fixed = {str(param): default} if is_open and default else {}
        return {**choices.kwargs, **fixed}, accept, {}
    if is_in_path:
        return {**choices.kwargs, scheme.version_param: version}, accept, {}
    if scheme is not None and issubclass(scheme, AcceptHeaderVersioning):
        return choices.kwargs, f"{requests.JSON}; {scheme.version_param}={version}", {}
    if scheme is not None and issubclass(scheme, QueryParameterVersioning):
        return choices.kwargs, accept, {scheme.version_param: version}
    raise ConfigurationError(
        f"{operation.where} has no versioning by path, Accept header or query: leave version out, "
        "and choose a namespace by prefix=…"
    )
