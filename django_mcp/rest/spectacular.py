"""What drf-spectacular says of an operation, where it describes the view.

The only module that imports drf-spectacular, and only where the view has its schema class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver
from rest_framework.settings import api_settings

from django_mcp.rest.openapi import definitions, to_json_schema
from django_mcp.rest.operations import Operation
from django_mcp.rest.parameters import QueryParameter, of_openapi

Schema = dict[str, Any]

MEDIA_TYPES = ("application/json", "multipart/form-data", "application/x-www-form-urlencoded")


class Described(NamedTuple):
    """The parts of an operation that a tool uses."""

    title: str
    description: str
    parameters: list[QueryParameter]
    body: Schema | None
    definitions: Schema


def describe(operation: Operation) -> Described | None:
    """Return what drf-spectacular says, or None where it does not describe the view."""
    if not is_described(operation):
        return None
    from drf_spectacular.drainage import GENERATOR_STATS
    from drf_spectacular.generators import SchemaGenerator

    generator: Any = SchemaGenerator(patterns=[_pattern(operation)])  # type: ignore[no-untyped-call]
    with GENERATOR_STATS.silence():
        document = generator.get_schema(public=True)
    descriptions = [
        methods[operation.method]
        for methods in document["paths"].values()
        if operation.method in methods
    ]
    if not descriptions:
        return None  # Excluded by @extend_schema, or by a hook of the site.
    described = descriptions[0]
    body = _body(described.get("requestBody") or {})
    components = document.get("components", {}).get("schemas", {})
    converted = {name: to_json_schema(each) for name, each in components.items()}
    # The format would choose another renderer than that of JSON.
    parameters = [
        of_openapi(parameter)
        for parameter in described.get("parameters", ())
        if parameter["in"] == "query" and parameter["name"] != api_settings.URL_FORMAT_OVERRIDE
    ]
    schemas = [body, *(each.schema for each in parameters)]
    return Described(
        title=described.get("summary", ""),
        description=described.get("description", ""),
        parameters=parameters,
        body=body,
        definitions=definitions(schemas, converted),
    )


def is_described(operation: Operation) -> bool:
    """Whether the schema class of the view is one of drf-spectacular."""
    schema = type(getattr(operation.view_class, "schema", None))
    return any(each.__module__ == "drf_spectacular.openapi" for each in schema.__mro__)


def _pattern(operation: Operation) -> URLPattern | URLResolver:
    """Return the pattern of the operation alone, within its includes."""
    inner: URLPattern | URLResolver = operation.route.pattern
    for each in reversed(operation.route.includes):
        options = (each.default_kwargs, each.app_name, each.namespace)
        inner = URLResolver(each.pattern, [inner], *options)
    return inner


def _body(request_body: Any) -> Schema | None:
    content = request_body.get("content") or {}
    chosen = next((content[each] for each in MEDIA_TYPES if each in content), None)
    if chosen is None:
        chosen = next(iter(content.values()), None)
    return None if chosen is None else to_json_schema(chosen.get("schema") or {})
