"""The arguments of a tool: of the path, of the query and of the body of its request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.db import DatabaseError
from rest_framework.settings import api_settings
from rest_framework.utils.model_meta import get_field_info

from django_mcp.core.components.base import ConfigurationError
from django_mcp.openapi import filters, schemas
from django_mcp.openapi.arguments import Arguments, of_body, of_request
from django_mcp.openapi.parameters import Parameter
from django_mcp.openapi.routes import KEYS, argument_schema, of_any_key
from django_mcp.rest import parameters, spectacular
from django_mcp.rest.operations import Operation
from django_mcp.rest.serializers import accepts_files, body_schema, input_schema
from django_mcp.runtime.django_types.field_types import key_schema

Schema = dict[str, Any]

logger = logging.getLogger("django_mcp")

UNSET: Any = object()
"""No serializer is given: the view has one."""


def read(
    operation: Operation,
    view: Any,
    described: spectacular.Described | None,
    *,
    kwargs: Mapping[str, Any],
    serializer: Any,
    query: Any,
) -> Arguments:
    """Return the arguments of an operation; raises ConfigurationError if they are unknown."""
    # The author's query parameters replace those of the same names.
    given = {name: Parameter(name, dict(schema)) for name, schema in (query or {}).items()}
    declared = parameters.of_view(operation, view) if described is None else described.parameters
    kept, many = filters.folded([each for each in declared if each.name not in given])
    queried = [*kept, *given.values()]
    shared: Schema = {} if described is None else described.definitions
    body, own = body_of(operation, view, serializer, described)
    body, shared = of_body(
        body,
        {**shared, **own},
        is_partial=operation.method == "patch",
        with_files=partial(with_files, operation=operation, view=view),
    )
    of_path = path_schemas(operation, view, kwargs)
    others = {each.name for each in queried} | (body or {}).get("properties", {}).keys()
    variables = path_arguments(operation, of_path, others)
    return of_request(
        operation.where,
        query=queried,
        many=many,
        body=body,
        shared=shared,
        path={name: of_path[variable] for name, variable in variables.items()},
        variables=variables,
        fixed=kwargs,
    )


def body_of(
    operation: Operation, view: Any, serializer: Any, described: spectacular.Described | None
) -> tuple[Schema | None, Schema]:
    """Return the schema of the body and its definitions; raises ConfigurationError.

    It is of the serializer that is given, else as it is described, else of the view's serializer.
    """
    if not operation.has_body or serializer is None:
        return None, {}
    if serializer is not UNSET:
        return body_schema(serializer() if isinstance(serializer, type) else serializer)
    if described is not None:
        return described.body, {}
    if not hasattr(view, "get_serializer_class"):
        raise ConfigurationError(
            f"{operation.where} has no serializer: give serializer=…, or serializer=None if it "
            "reads no data"
        )
    try:
        made = operation.serializer(view)
        _ = getattr(made, "fields", None)  # It makes them when they are first read.
    except DatabaseError:
        raise  # Its tables may not exist yet.
    except Exception as error:
        raise ConfigurationError(
            f"The serializer of {operation.where} depends on the request ({error!r}): give "
            "serializer=…"
        ) from error
    schema, own = body_schema(made)
    of_action = getattr(operation.function, "kwargs", {})  # A router may map any method.
    if operation.is_extra and "serializer_class" not in of_action:
        # It may read other data than the serializer of its view set does, or none.
        schema = schemas.partial(schema)
    return schema, own


def with_files(body: Any, operation: Operation, view: Any) -> Any:
    """Return ``body`` with the schema of files, which drf-spectacular describes as strings."""
    properties = (body or {}).get("properties", {})
    if not properties:
        return body
    try:
        fields = operation.serializer(view).fields.items()
    except DatabaseError:
        raise  # Its tables may not exist yet.
    except Exception as error:
        # The author describes the body by other means, and the view may need a request.
        logger.debug("The serializer of %s is unknown: %r", operation.where, error)
        return body
    uploads = {
        name: input_schema(field)
        for name, field in fields
        if name in properties and accepts_files(field)
    }
    return {**body, "properties": {**properties, **uploads}} if uploads else body


def path_schemas(operation: Operation, view: Any, kwargs: Mapping[str, Any]) -> dict[str, Schema]:
    """Return the schemas of the arguments of the path that are not fixed."""
    schemas = {}
    if twice := [it for it in operation.route.names if operation.route.names.count(it) > 1]:
        raise ConfigurationError(
            f"The URL of {operation.where} has the argument {twice[0]!r} twice, so Django cannot "
            f"make it: rename one in {operation.route.path}"
        )
    for name in operation.route.names:
        if name not in kwargs:
            converter = operation.route.converters.get(name)
            schemas[name] = (
                lookup_schema(operation, name) if converter is None else argument_schema(converter)
            )
    if unknown := kwargs.keys() - set(operation.route.names):
        raise ConfigurationError(
            f"The URL of {operation.where} has no argument {sorted(unknown)[0]!r}"
        )
    return schemas


def path_arguments(
    operation: Operation, variables: Iterable[str], others: set[str]
) -> dict[str, str]:
    """Return the variables of the path by the names of their arguments.

    ``pk`` has the name of the key in the rows that the model reads, such as ``id``, as in the
    schemas of REST framework, unless another argument has this name.
    """
    arguments = {variable: variable for variable in variables}
    model = getattr(getattr(operation.view_class, "queryset", None), "model", None)
    if model is None or "pk" not in arguments or not api_settings.SCHEMA_COERCE_PATH_PK:
        return arguments
    key = get_field_info(model).pk.name
    is_taken = key in {*operation.route.names, *others}
    return {key if name == "pk" and not is_taken else name: name for name in arguments}


def lookup_schema(operation: Operation, name: str) -> Schema:
    """Return the schema of an argument that a pattern matches, from the field that it looks up."""
    kind = operation.view_class
    lookup = getattr(kind, "lookup_field", None)
    model = getattr(getattr(kind, "queryset", None), "model", None)
    if model is None or name != (getattr(kind, "lookup_url_kwarg", None) or lookup):
        return of_any_key() if name.endswith(KEYS) else argument_schema(None)
    schema = key_schema(model, str(lookup))
    if name == "pk":
        schema = {**schema, "description": f"The key of the {model._meta.verbose_name}"}
    return schema if schema["type"] == "integer" else {**argument_schema(None), **schema}
