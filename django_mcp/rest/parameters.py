"""Query parameters of a view: of its filters and of its pagination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms

from django_mcp.components.base import ConfigurationError
from django_mcp.forms.schemas import field_argument
from django_mcp.rest.openapi import to_json_schema, with_examples
from django_mcp.rest.operations import Operation

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """One parameter. ``separator`` joins the items of a list; without one it is repeated."""

    name: str
    schema: Schema
    is_required: bool = False
    separator: str | None = None

    def values(self, value: Any) -> Iterable[str]:
        """Return the values in the query for the value of an argument."""
        items = [_text(each) for each in (value if isinstance(value, list) else [value])]
        return items if self.separator is None else [self.separator.join(items)]


def encode(parameters: Iterable[QueryParameter], arguments: Mapping[str, Any]) -> str:
    """Return the query string for the arguments that are parameters; None is left out."""
    return urlencode(
        [
            (each.name, value)
            for each in parameters
            if arguments.get(each.name) is not None
            for value in each.values(arguments[each.name])
        ]
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_view(operation: Operation, view: Any) -> list[QueryParameter]:
    """Return the parameters by which the objects of a list are filtered, ordered and paginated."""
    if not is_list(operation):
        return []
    of_list: list[QueryParameter] = []
    for backend in getattr(view, "filter_backends", ()):
        of_list += of_backend(backend(), view)
    paginator = getattr(view, "paginator", None)
    if paginator is not None:
        of_list += map(of_openapi, paginator.get_schema_operation_parameters(view))
    return of_list


def is_list(operation: Operation) -> bool:
    """Whether the operation lists objects, and so uses filters and pagination."""
    is_generic = operation.action == "get" and hasattr(operation.view_class, "list")
    return operation.action == "list" or is_generic


def of_backend(backend: Any, view: Any) -> Iterable[QueryParameter]:
    if hasattr(backend, "get_filterset_class"):
        return of_filterset(backend.get_filterset_class(view, getattr(view, "queryset", None)))
    return [of_openapi(each) for each in _described(backend, view)]


def _described(backend: Any, view: Any) -> Iterable[Mapping[str, Any]]:
    described: Iterable[Mapping[str, Any]] = backend.get_schema_operation_parameters(view)
    allowed = getattr(view, "ordering_fields", None)
    for parameter in described:
        is_ordering = parameter["name"] == getattr(backend, "ordering_param", None)
        if is_ordering and isinstance(allowed, list | tuple):
            # OrderingFilter ignores the names of other fields: say which there are.
            names = [field if isinstance(field, str) else field[0] for field in allowed]
            text = f"One of {', '.join(names)}; with - in front, descending; several with commas"
            yield {**parameter, "description": text}
        else:
            yield parameter


def of_openapi(parameter: Mapping[str, Any]) -> QueryParameter:
    """Return a parameter as REST framework and drf-spectacular describe it."""
    schema = to_json_schema(parameter.get("schema") or {"type": "string"})
    schema = with_examples(schema, parameter)
    if description := parameter.get("description"):
        schema = {**schema, "description": str(description)}
    is_joined = parameter.get("explode") is False or parameter.get("style") in SEPARATORS
    separator = SEPARATORS.get(parameter.get("style", "form"), ",") if is_joined else None
    required = bool(parameter.get("required"))
    name = str(parameter["name"])
    if name.endswith(OF_SEVERAL) and schema.get("type") not in ("array", None):
        # A filter that takes several values is often described by the type of one.
        schema = several(schema)
        separator = ","
    return QueryParameter(name, schema, required, separator)


def several(schema: Schema) -> Schema:
    """Return the schema of a list of values, with the description of one."""
    of_one = {key: it for key, it in schema.items() if key != "description"}
    described = {key: it for key, it in schema.items() if key == "description"}
    return {"type": "array", "items": of_one, "minItems": 1, **described}


OF_SEVERAL = "__in"
SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


def of_filterset(filterset_class: Any) -> Iterator[QueryParameter]:
    """Yield the parameters of a FilterSet of django-filter."""
    for name, item in getattr(filterset_class, "base_filters", {}).items():
        # The choices of such a filter are all values in the database.
        if type(item).__name__ in ("AllValuesFilter", "AllValuesMultipleFilter"):
            yield QueryParameter(name, {"type": "string"})
        else:
            yield from _of_filter(name, item)


def _of_filter(name: str, item: Any) -> Iterator[QueryParameter]:
    field = item.field
    required = bool(item.extra.get("required"))
    suffixes = getattr(field.widget, "suffixes", None)
    if suffixes and isinstance(field, forms.MultiValueField):
        for suffix, part in zip(suffixes, field.fields, strict=True):
            yield QueryParameter(field.widget.suffixed(name, suffix), _schema(name, part))
    elif hasattr(item, "base_field_class"):
        # Filters "in" and "range" take several values, separated by commas.
        of_one = {key: it for key, it in _schema(name, field).items() if key != "description"}
        yield QueryParameter(name, several(of_one), required, ",")
    else:
        yield QueryParameter(name, _schema(name, field), required)


def _schema(name: str, field: forms.Field) -> Schema:
    try:
        schema = field_argument(name, field, is_nullable=False).schema
    except ConfigurationError:
        schema = {"type": "string"}
    return {key: it for key, it in schema.items() if key not in ("title", "default")}
