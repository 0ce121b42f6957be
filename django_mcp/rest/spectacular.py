"""The description of an operation by drf-spectacular, where it describes the view.

The only module that imports drf-spectacular, and only where the view has its schema class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial
from typing import Any, NamedTuple
from weakref import ProxyType, proxy

from django.db import DatabaseError
from django.urls import URLPattern, URLResolver
from rest_framework.serializers import BaseSerializer, ListSerializer
from rest_framework.settings import api_settings

from django_mcp.openapi.parameters import Parameter, of_openapi
from django_mcp.openapi.routes import Route
from django_mcp.openapi.schemas import definitions, to_json_schema, with_examples
from django_mcp.rest.operations import Operation, keep_context

Schema = dict[str, Any]

logger = logging.getLogger("django_mcp")

MEDIA_TYPES = ("application/json", "multipart/form-data", "application/x-www-form-urlencoded")


MARK = "x-django-mcp-operation"
"""Member of an operation in the document, with its number: hooks of the site may change paths."""

_Key = tuple[Any, ...]


class Described(NamedTuple):
    """The parts of an operation that a tool uses."""

    title: str
    description: str
    parameters: list[Parameter]
    body: Schema | None
    definitions: Schema


class Descriptions:
    """The descriptions of many operations by drf-spectacular, generated together.

    One generator reads each serializer once, however many operations have it. A view that raises
    loses its own description only.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._described: dict[_Key, Described] = {}
        self._errors: dict[_Key, Exception] = {}
        described = [operation for operation in operations if is_described(operation)]
        if described and not is_supported():
            return
        for group in _distinct(described):
            self._generate(group)

    def of(self, operation: Operation) -> Described | None:
        """Return the description, None where there is none; exceptions of the view are raised."""
        key = _key(operation)
        if key in self._errors:
            raise self._errors[key]
        return self._described.get(key)

    def _generate(self, operations: Sequence[Operation]) -> None:
        """Describe these operations; which of them raises is found by halving."""
        try:
            described = _generated(operations)
        except DatabaseError:
            raise  # Tables may not exist yet.
        except Exception as error:
            if len(operations) == 1:
                self._errors[_key(operations[0])] = error
                return
            middle = len(operations) // 2
            self._generate(operations[:middle])
            self._generate(operations[middle:])
        else:
            self._described.update(described)


def _generated(operations: Sequence[Operation]) -> dict[_Key, Described]:
    """Return the descriptions of one generation: no callback has two URLs in it."""
    from drf_spectacular.drainage import GENERATOR_STATS

    generator = _marking_generator(operations)
    with GENERATOR_STATS.silence():
        document = generator.get_schema(public=True)
    components = document.get("components", {}).get("schemas", {})
    converted = {name: to_json_schema(schema) for name, schema in components.items()}
    return {
        _key(operations[method_object[MARK]]): _read(method_object, converted)
        for methods in document["paths"].values()
        for method_object in methods.values()
        if MARK in method_object
    }


def _read(method_object: Mapping[str, Any], components: Schema) -> Described:
    """Return the parts of an operation of OpenAPI that a tool uses."""
    body = _body(method_object.get("requestBody") or {})
    # The format would choose a renderer other than JSON.
    parameters = [
        of_openapi(parameter)
        for parameter in method_object.get("parameters", ())
        if parameter["in"] == "query" and parameter["name"] != api_settings.URL_FORMAT_OVERRIDE
    ]
    schemas = [body, *(parameter.schema for parameter in parameters)]
    return Described(
        title=method_object.get("summary", ""),
        description=method_object.get("description", ""),
        parameters=parameters,
        body=body,
        definitions=definitions(schemas, components),
    )


def _key(operation: Operation) -> _Key:
    route = operation.route
    return (id(route.pattern), *map(id, route.includes), operation.method)


def _distinct(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Yield groups of operations: no callback has two URLs in a group.

    A generator does not tell the URL of a callback that it describes.
    """
    waiting = list(operations)
    while waiting:
        routes: dict[int, Route] = {}
        postponed: list[Operation] = []
        group: list[Operation] = []
        for operation in waiting:
            route = routes.setdefault(id(operation.route.callback), operation.route)
            (group if route == operation.route else postponed).append(operation)
        yield group
        waiting = postponed


def _marking_generator(operations: Sequence[Operation]) -> Any:
    """Return a generator for these operations alone, which marks each with its number."""
    from drf_spectacular.generators import SchemaGenerator

    numbers = {
        (id(operation.route.callback), operation.method): number
        for number, operation in enumerate(operations)
    }

    kept: list[Any] = []  # The views have weak references to these.

    class MarkingGenerator(SchemaGenerator):
        def create_view(self, callback: Any, method: str, request: Any = None) -> Any:
            view = super().create_view(callback, method, request)  # type: ignore[no-untyped-call]
            schema = _own_schema(view)
            kept.append(schema)
            keep_context(view)
            number = numbers.get((id(callback), method.lower()))
            schema.get_operation = partial(_marked, schema.get_operation, number)
            schema.get_response_serializers = cache(
                partial(_without_body, schema.get_response_serializers)
            )
            schema.map_parsers = partial(_one_parser, schema.map_parsers)
            schema.resolve_serializer = partial(_complete, schema.resolve_serializer)
            schema.get_auth = list  # No tool uses it.
            return view

    patterns = {id(operation.route.pattern): _pattern(operation) for operation in operations}
    generator: Any = MarkingGenerator(patterns=list(patterns.values()))  # type: ignore[no-untyped-call]
    return generator


OF_GENERATORS = ("create_view", "get_schema")
OF_SCHEMAS = ("get_operation", "get_response_serializers", "map_parsers", "resolve_serializer")
"""The methods of drf-spectacular that it calls itself, and this module replaces."""


def is_supported() -> bool:
    """Whether the installed version has the members that this module uses; else it warns.

    Views are then described as if drf-spectacular were not installed.
    """
    from drf_spectacular import drainage, generators, openapi

    used = [
        *((generators.SchemaGenerator, name) for name in OF_GENERATORS),
        *((openapi.AutoSchema, name) for name in OF_SCHEMAS),
        (drainage.GENERATOR_STATS, "silence"),
    ]
    missing = [name for owner, name in used if not hasattr(owner, name)]
    if missing:
        logger.warning(
            "Tools of REST views lack what drf-spectacular says of them: this version of it has "
            "no %s. Use another version.",
            " and no ".join(missing),
        )
    return not missing


def _own_schema(view: Any) -> Any:
    """Return the object that describes this view; without ``@extend_schema``, its class has one."""
    schema = view.schema
    if isinstance(schema, ProxyType):
        return schema
    own = copy(schema)
    view.schema = proxy(own)  # A view and its schema would keep each other alive for ever.
    return own


def _marked(get_operation: Any, number: int | None, *arguments: Any) -> Any:
    if number is None:
        return None  # Another method of the URL, which is not a tool.
    described = get_operation(*arguments)
    return {**described, MARK: number} if described else None


def _without_body(get_response_serializers: Any) -> Any:
    """Describe no body of a response: no tool uses it, and it takes as long as a request's."""
    from drf_spectacular.utils import OpenApiResponse

    declared = get_response_serializers()
    # The author's declaration also says whether the view lists objects.
    is_one = isinstance(declared, BaseSerializer) and not isinstance(declared, ListSerializer)
    return OpenApiResponse() if is_one else declared


def _one_parser(map_parsers: Any) -> list[str]:
    """Describe the body for one media type: for each one, it takes as long again."""
    accepted = map_parsers()
    usual = [name for name in MEDIA_TYPES if name in accepted]
    return [*usual, *accepted][:1]


def _complete(resolve_serializer: Any, serializer: Any, *arguments: Any, **options: Any) -> Any:
    """Describe the data of PATCH like PUT's: ``arguments`` makes it partial itself."""
    if getattr(serializer, "partial", False):
        serializer = copy(serializer)
        serializer.partial = False
    return resolve_serializer(serializer, *arguments, **options)


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
    if chosen is None:
        return None
    return with_examples(to_json_schema(chosen.get("schema") or {}), chosen)
