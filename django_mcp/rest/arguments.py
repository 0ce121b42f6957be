"""The arguments of a tool: those of the path, of the query and of the body of its request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from rest_framework.settings import api_settings
from rest_framework.utils.model_meta import get_field_info

from django_mcp.components.base import ConfigurationError
from django_mcp.forms import files
from django_mcp.rest import filters, openapi, parameters, spectacular
from django_mcp.rest.operations import Operation
from django_mcp.rest.parameters import QueryParameter
from django_mcp.rest.routes import argument_schema
from django_mcp.rest.serializers import accepts_files, body_schema, input_schema
from django_mcp.runtime.django_types.field_types import key_schema

Schema = dict[str, Any]

logger = logging.getLogger("django_mcp")

DATA = "data"
"""The argument with the whole body, where its fields cannot be arguments of their own."""

UNSET: Any = object()
"""No serializer is given: the view has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a tool takes, and which part of the request each argument is."""

    path: Mapping[str, Schema]
    variables: Mapping[str, str]
    """The names in the URL of the arguments of the path."""
    fixed: Mapping[str, Any]
    """Arguments of the path that the caller does not choose."""
    query: Sequence[QueryParameter]
    filters: filters.Folded | None
    """Query parameters of which there are too many."""
    body: Schema | None
    definitions: Schema
    is_body_nested: bool
    """Whether the body is one argument, DATA."""
    files: frozenset[str]
    """The fields of the body that are files."""

    @property
    def schema(self) -> Schema:
        queried = {each.name: each.schema for each in self.query}
        if self.filters is not None:
            queried[filters.FILTERS] = self.filters.schema
        needed = [*self.path, *(each.name for each in self.query if each.is_required)]
        body, required = self._body_members()
        schema = {
            "type": "object",
            "properties": {**self.path, **queried, **body},
            "required": [*needed, *required],
            "additionalProperties": False,
        }
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def _body_members(self) -> tuple[Mapping[str, Schema], Sequence[str]]:
        if self.body is None:
            return {}, ()
        if self.is_body_nested:
            return {DATA: self.body}, [DATA] if _needs_data(self.body) else []
        return self.body.get("properties", {}), self.body.get("required", ())

    def query_string(self, arguments: Mapping[str, Any], fixed: Mapping[str, str]) -> str:
        """Return the query for validated arguments, and what is not theirs; raises ToolError."""
        members: list[QueryParameter] = [QueryParameter(name, {}) for name in fixed]
        values = {**arguments, **fixed}
        if self.filters is not None:
            values |= self.filters.unfolded(arguments.get(filters.FILTERS) or {})
            members += self.filters.members.values()
        return parameters.encode([*self.query, *members], values)

    def data(self, arguments: Mapping[str, Any]) -> Any:
        """Return the body for validated arguments, with files; raises ToolError."""
        if self.is_body_nested:
            return arguments.get(DATA, {})
        others = {*self.path, *(each.name for each in self.query)}
        data = {name: value for name, value in arguments.items() if name not in others}
        return data | {name: uploads(name, data[name]) for name in self.files & data.keys()}


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
    queried, many = query_of(operation, view, described, query or {})
    queried_names = {each.name for each in queried}
    shared: Schema = {} if described is None else described.definitions
    body, own = body_of(operation, view, serializer, described)
    shared = {**shared, **own}
    if operation.method == "patch":
        body = openapi.partial(body)
        shared = openapi.partial(shared)
    body = with_fields(body, shared, operation, view)
    schemas = path_schemas(operation, view, kwargs)
    others = queried_names | (body or {}).get("properties", {}).keys()
    variables = path_arguments(operation, schemas, others)
    path = {name: schemas[variable] for name, variable in variables.items()}
    arguments = Arguments(
        path=path,
        variables=variables,
        fixed=kwargs,
        query=queried,
        filters=many,
        body=body,
        definitions=openapi.definitions([body, *(each.schema for each in queried)], shared),
        is_body_nested=is_nested(body, path.keys() | queried_names),
        files=file_fields(body),
    )
    check_files(operation, arguments)
    return arguments


def query_of(
    operation: Operation,
    view: Any,
    described: spectacular.Described | None,
    own: Mapping[str, Schema],
) -> tuple[list[QueryParameter], filters.Folded | None]:
    """Return the query parameters, and those that are folded; ``own`` are given by the author."""
    declared = parameters.of_view(operation, view) if described is None else described.parameters
    kept, many = filters.folded([each for each in declared if each.name not in own])
    return [*kept, *(QueryParameter(name, dict(schema)) for name, schema in own.items())], many


def with_fields(body: Any, shared: Schema, operation: Operation, view: Any) -> Schema | None:
    """Return the schema of the body with the fields that become arguments, as far as it has any."""
    of_object = of_one(resolved(body, shared), shared)
    of_request = without_unusable_files(with_files(of_object, operation, view), shared)
    return None if of_request is None else openapi.of_members(of_request)


def body_of(
    operation: Operation, view: Any, serializer: Any, described: spectacular.Described | None
) -> tuple[Schema | None, Schema]:
    """Return the schema of the body and its definitions; raises ConfigurationError."""
    if not operation.has_body:
        return None, {}
    if described is None or serializer is not UNSET:
        return own_body(operation, view, serializer)
    return described.body, {}


def own_body(operation: Operation, view: Any, serializer: Any) -> tuple[Schema | None, Schema]:
    """Return the schema of the serializer that is given, else of the view's; and definitions."""
    if serializer is None:
        return None, {}
    if serializer is not UNSET:
        made = serializer() if isinstance(serializer, type) else serializer
        return body_schema(made)
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
        schema = openapi.partial(schema)
    return schema, own


def resolved(body: Any, shared: Schema) -> Any:
    """Return the definition to which ``body`` refers, so that its properties are known."""
    reference = (body or {}).get("$ref", "")
    target = shared.get(reference.removeprefix("#/$defs/"))
    if target is None:
        return body
    examples = {key: it for key, it in body.items() if key == "examples"}
    return {**target, **examples}


def of_one(body: Any, shared: Schema) -> Any:
    """Return the object of a body that is described as an object or a list of such objects."""
    declared = body or {}
    members = declared.get("oneOf") or declared.get("anyOf") or ()
    alternatives = [resolved(each, shared) for each in members]
    objects = [each for each in alternatives if "properties" in each]
    others = [each for each in alternatives if "properties" not in each]
    are_lists = all(each.get("type") == "array" for each in others)
    return objects[0] if len(objects) == 1 and others and are_lists else body


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


def _needs_data(body: Schema) -> bool:
    """Whether a body as one argument must be given: an object of optional fields may be empty."""
    return body.get("type") != "object" or bool(body.get("required"))


def is_nested(body: Schema | None, others: set[str]) -> bool:
    if body is None:
        return False
    is_object = body.get("type") == "object" and "properties" in body
    return not is_object or bool(others & body["properties"].keys())


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


KEYS = ("pk", "id", "_uuid")
"""How names of arguments end that are keys of objects, such as the parents of a nested router."""


def of_any_key() -> Schema:
    """Return the schema of a key of an unknown model: a model sends it as it has read it."""
    return {"anyOf": [{"type": "integer"}, argument_schema(None)]}


def file_fields(body: Schema | None) -> frozenset[str]:
    properties = (body or {}).get("properties", {})
    return frozenset(name for name, schema in properties.items() if is_upload(schema))


def nested_fields(body: Schema | None, shared: Schema) -> list[str]:
    """The fields that a form cannot have: objects, and lists of objects."""
    return [
        name
        for name, schema in (body or {}).get("properties", {}).items()
        if not is_upload(schema) and is_nesting(schema, shared)
    ]


def is_nesting(schema: Schema, shared: Schema) -> bool:
    """Whether a value is an object or a list of objects; ``shared`` has what is referred to."""
    # drf-spectacular describes a reference with more members as ``allOf`` of the reference.
    of_one = resolved(schema.get("items") or schema, shared)
    parts = [resolved(part, shared) for part in of_one.get("allOf", ())]
    return any("properties" in each or each.get("type") == "object" for each in (of_one, *parts))


def without_unusable_files(body: Schema | None, shared: Schema) -> Schema | None:
    """Return ``body`` without optional files where nested data needs JSON, which has no files."""
    files_of_body = file_fields(body)
    if body is None or not files_of_body or not nested_fields(body, shared):
        return body
    if files_of_body & {*body.get("required", ())}:
        return body
    kept = {name: it for name, it in body["properties"].items() if name not in files_of_body}
    return {**body, "properties": kept}


def uploads(name: str, value: Any) -> Any:
    """Return the file, or the files, of an argument; raises ToolError."""
    if isinstance(value, list):
        return [files.uploaded(f"{name}.{index}", each) for index, each in enumerate(value)]
    return None if value is None else files.uploaded(name, value)


def is_upload(schema: Schema) -> bool:
    """Whether a value is a file, or a list of files."""
    inner = (schema.get("items") or schema).get("properties") or {}
    return bool(inner.get("content", {}).get("contentEncoding") == "base64")


def check_files(operation: Operation, arguments: Arguments) -> None:
    """Raise ConfigurationError for files beside nested data, which a form cannot have."""
    nested = nested_fields(arguments.body, arguments.definitions)
    if arguments.files and (nested or arguments.is_body_nested):
        named = f"the file {sorted(arguments.files)[0]!r}"
        data = f" ({', '.join(nested)})" if nested else ""
        raise ConfigurationError(
            f"{operation.where} takes {named} and nested data{data}, which one request cannot "
            "have: give serializer=…"
        )
