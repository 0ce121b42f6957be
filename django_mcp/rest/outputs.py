"""The JSON Schemas of responses, where nothing that the site overrides can change them.

A response that does not match its schema is an error, so a schema is declared only where it is
certain: an action of REST framework itself, with the fields and the renderer of REST framework.
The schema has types, and neither enumerations nor lengths: rows may be older than their rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

from django.db import DatabaseError
from rest_framework import fields, generics, mixins, relations, serializers, views
from rest_framework.renderers import JSONRenderer

from django_mcp.core.protocol.schema.shapes import or_null
from django_mcp.openapi.schemas import map_schemas, to_json_schema
from django_mcp.rest.operations import Operation

logger = logging.getLogger("django_mcp")

Schema = dict[str, Any]
ANYTHING: Schema = {}

MIXINS: Mapping[str, Any] = {
    "list": mixins.ListModelMixin,
    "retrieve": mixins.RetrieveModelMixin,
    "create": mixins.CreateModelMixin,
    "update": mixins.UpdateModelMixin,
    "partial_update": mixins.UpdateModelMixin,
}
"""The mixins that define the actions, which respond with the serializer's data."""

PLAIN = (
    (generics.GenericAPIView, "get_serializer"),
    (generics.GenericAPIView, "get_serializer_class"),
    (generics.GenericAPIView, "paginate_queryset"),
    (generics.GenericAPIView, "get_paginated_response"),
    (views.APIView, "finalize_response"),
    (views.APIView, "get_renderers"),
    (views.APIView, "perform_content_negotiation"),
)
"""Methods that may change a response. Where a view overrides one, nothing is certain."""


def output_schema(operation: Operation, view: Any) -> Schema | None:
    """Return the schema of the response of an operation, or None where it is not certain."""
    if not _is_plain(operation, view):
        return None
    serializer = operation.serializer(view)
    schema = serializer_schema(serializer)
    if schema is None or operation.action != "list":
        return schema
    if not _writes_each_row(type(serializer)):
        return None
    items: Schema = {"type": "array", "items": schema}
    return items if view.paginator is None else _page(view.paginator, items)


def names_of_rows(operation: Operation, view: Any) -> Sequence[str]:
    """Return the names of the fields in a list's rows; none where they are not known."""
    try:
        serializer = operation.serializer(view)
        if not (_writes_fields(serializer) and _writes_each_row(type(serializer))):
            return ()
        return [name for name, it in serializer.fields.items() if not it.write_only]
    except DatabaseError:
        raise  # Its tables may not exist yet.
    except Exception as error:
        # The view may need a request, or has no serializer.
        logger.debug("The rows of %s are unknown: %r", operation.where, error)
        return ()


def _writes_fields(serializer: Any) -> bool:
    """Whether a serializer writes its fields as REST framework does."""
    kind = type(serializer)
    own = serializers.Serializer
    return kind.to_representation is own.to_representation and kind.data is own.data


def _writes_each_row(kind: Any) -> bool:
    """Whether a list of a serializer is a list of its objects, as REST framework makes it."""
    own = serializers.ListSerializer
    of_many = getattr(getattr(kind, "Meta", None), "list_serializer_class", own)
    make_list = getattr(kind.many_init, "__func__", None)
    return (
        of_many.to_representation is own.to_representation
        and of_many.data is own.data
        and make_list is vars(serializers.BaseSerializer)["many_init"].__func__
    )


_open: ContextVar[tuple[Any, ...]] = ContextVar("django_mcp.rest.outputs", default=())
"""The serializers that are being described."""


@lru_cache(maxsize=8)  # The actions of a view, which follow each other, share one serializer.
def serializer_schema(serializer: Any) -> Schema | None:
    """Return the schema of a serializer's output, or None where it is not certain.

    An object that contains others like it is described once, and the others are anything.
    """
    if not _writes_fields(serializer):
        return None
    shown = {name: it for name, it in serializer.fields.items() if not it.write_only}
    key = (type(serializer), *shown)
    if key in _open.get():
        return None
    token = _open.set((*_open.get(), key))
    try:
        members = {name: or_null(_of_field(field)) for name, field in shown.items()}
    finally:
        _open.reset(token)
    return {"type": "object", "properties": members}


def _is_plain(operation: Operation, view: Any) -> bool:
    mixin = MIXINS.get(operation.action)
    kind = operation.view_class
    return (
        mixin is not None
        and issubclass(kind, generics.GenericAPIView)
        and operation.function is getattr(mixin, operation.action)
        and all(getattr(kind, name) is getattr(base, name) for base, name in PLAIN)
        and any(each is JSONRenderer for each in view.renderer_classes)
        and not any(
            each.media_type == JSONRenderer.media_type and each is not JSONRenderer
            for each in view.renderer_classes
        )
    )


def _page(paginator: Any, items: Schema) -> Schema | None:
    """Return the schema of a page, or None for a pagination of the site, or without a size."""
    size = getattr(paginator, "page_size", None) or getattr(paginator, "default_limit", None)
    kind = type(paginator)
    is_own = any(
        getattr(kind, name).__module__ != "rest_framework.pagination"
        for name in ("get_paginated_response", "get_paginated_response_schema")
    )
    if size is None or is_own:
        return None
    schema: Schema = map_schemas(
        to_json_schema(paginator.get_paginated_response_schema(items)), _without_examples
    )
    return {**schema, "properties": {**schema["properties"], "results": items}}


def _without_examples(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "examples"}


def _of_field(field: Any) -> Schema:
    if isinstance(field, serializers.Serializer):
        return serializer_schema(field) or ANYTHING
    if not type(field).to_representation.__module__.startswith("rest_framework."):
        return ANYTHING
    build = next((SCHEMAS[kind] for kind in type(field).__mro__ if kind in SCHEMAS), None)
    return ANYTHING if build is None else build(field)


def _type(kind: str | list[str], field: Any) -> Schema:
    return {"type": kind}


def _list(child: str, field: Any) -> Schema:
    return {"type": "array", "items": or_null(_of_field(getattr(field, child)))}


STRING = partial(_type, "string")
SCHEMAS: Mapping[type, Callable[[Any], Schema]] = {
    serializers.ListSerializer: partial(_list, "child"),
    relations.ManyRelatedField: partial(_list, "child_relation"),
    relations.HyperlinkedRelatedField: STRING,
    relations.StringRelatedField: STRING,
    fields.ListField: partial(_list, "child"),
    fields.BooleanField: partial(_type, "boolean"),
    fields.FloatField: partial(_type, "number"),
    fields.DecimalField: partial(_type, ["string", "number"]),
    fields.CharField: STRING,
    fields.DateField: STRING,
    fields.DateTimeField: STRING,
    fields.TimeField: STRING,
    fields.FileField: STRING,
}
"""The types that fields of REST framework write. Others, such as choices, write several."""
