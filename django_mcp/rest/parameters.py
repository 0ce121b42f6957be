"""Query parameters of a view: of its filters and of its pagination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django import forms

from django_mcp.core.components.base import ConfigurationError
from django_mcp.forms.fields import field_argument
from django_mcp.openapi.parameters import Parameter, of_openapi, several
from django_mcp.rest.operations import Operation

Schema = dict[str, Any]


def of_view(operation: Operation, view: Any) -> list[Parameter]:
    """Return the parameters that filter, order and paginate the objects of a list."""
    if not is_list(operation):
        return []
    of_list: list[Parameter] = []
    for backend_class in getattr(view, "filter_backends", ()):
        backend = backend_class()
        if hasattr(backend, "get_filterset_class"):
            queryset = getattr(view, "queryset", None)
            of_list += of_filterset(backend.get_filterset_class(view, queryset))
        else:
            of_list += map(of_openapi, _described(backend, view))
    paginator = getattr(view, "paginator", None)
    if paginator is not None:
        of_list += map(of_openapi, paginator.get_schema_operation_parameters(view))
    return of_list


def is_list(operation: Operation) -> bool:
    """Whether the operation lists objects, and so uses filters and pagination."""
    is_generic = operation.action == "get" and hasattr(operation.view_class, "list")
    return operation.action == "list" or is_generic


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


def of_filterset(filterset_class: Any) -> Iterator[Parameter]:
    """Yield the parameters of a FilterSet of django-filter."""
    for name, item in getattr(filterset_class, "base_filters", {}).items():
        # The choices of such a filter are all values in the database.
        if type(item).__name__ in ("AllValuesFilter", "AllValuesMultipleFilter"):
            yield Parameter(name, {"type": "string"})
        else:
            yield from _of_filter(name, item)


def _of_filter(name: str, item: Any) -> Iterator[Parameter]:
    field = item.field
    required = bool(item.extra.get("required"))
    suffixes = getattr(field.widget, "suffixes", None)
    if suffixes and isinstance(field, forms.MultiValueField):
        for suffix, part in zip(suffixes, field.fields, strict=True):
            yield Parameter(field.widget.suffixed(name, suffix), _schema(name, part))
    elif hasattr(item, "base_field_class"):
        # Filters "in" and "range" take several values, separated by commas.
        of_one = {key: it for key, it in _schema(name, field).items() if key != "description"}
        yield Parameter(name, several(of_one), required, ",")
    else:
        yield Parameter(name, _schema(name, field), required)


def _schema(name: str, field: forms.Field) -> Schema:
    try:
        schema = field_argument(name, field, is_nullable=False).schema
    except ConfigurationError:
        schema = {"type": "string"}
    return {key: it for key, it in schema.items() if key not in ("title", "default")}
