"""The arguments of a tool: of the path, of the query and of the body of its request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django_mcp.core.components.arguments import is_file
from django_mcp.core.components.base import ConfigurationError
from django_mcp.openapi import filters, parameters, schemas
from django_mcp.openapi.parameters import Parameter
from django_mcp.runtime.django_types.uploads import Uploads

Schema = dict[str, Any]

DATA = "data"
"""The argument with the whole body, where its fields cannot be arguments of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of a tool, and their parts of the request."""

    path: Mapping[str, Schema]
    variables: Mapping[str, str]
    """The names in the URL of the arguments of the path."""
    fixed: Mapping[str, Any]
    """Arguments of the path that the caller does not choose."""
    query: Sequence[Parameter]
    filters: filters.Folded | None
    """Query parameters in one argument, since there are too many."""
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
            # An object of optional fields may be empty.
            is_needed = self.body.get("type") != "object" or self.body.get("required")
            return {DATA: self.body}, [DATA] if is_needed else []
        return self.body.get("properties", {}), self.body.get("required", ())

    def query_string(self, arguments: Mapping[str, Any], fixed: Mapping[str, str]) -> str:
        """Return the query for validated arguments, and the other arguments; raises ToolError."""
        members: list[Parameter] = [Parameter(name, {}) for name in fixed]
        values = {**arguments, **fixed}
        if self.filters is not None:
            given = arguments.get(filters.FILTERS) or {}
            values |= self.filters.unfolded(given, self.definitions)
            members += self.filters.members.values()
        return parameters.encode([*self.query, *members], values)

    def headers(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers for validated arguments; raises ToolError."""
        return parameters.headers(self.query, arguments)

    def data(self, arguments: Mapping[str, Any], uploads: Uploads) -> Any:
        """Return the body for validated arguments, with its files; raises ToolError."""
        if self.is_body_nested:
            return arguments.get(DATA, {})
        fields, _ = self._body_members()
        data = {name: value for name, value in arguments.items() if name in fields}
        return uploads.receive_all(data, sorted(self.files))


def of_body(
    body: Any, shared: Schema, *, is_partial: bool, with_files: Callable[[Any], Any] | None = None
) -> tuple[Schema | None, Schema]:
    """Return the schema of a body, with the fields that become arguments, and its definitions.

    ``is_partial`` says that a body changes only the fields that it has. ``with_files`` returns the
    schema with files, where the description has none.
    """
    if is_partial:
        body = schemas.partial(body)
        shared = schemas.partial(shared)
    of_object = of_one(resolved(body, shared), shared)
    described = of_object if with_files is None else with_files(of_object)
    usable = without_unusable_files(described, shared)
    return (None if usable is None else schemas.of_members(usable)), shared


def of_request(
    where: str,
    *,
    query: Sequence[Parameter],
    many: filters.Folded | None,
    body: Schema | None,
    shared: Schema,
    **path: Any,
) -> Arguments:
    """Return the arguments of a request; raises ConfigurationError for those that none can have.

    ``path`` are the members of Arguments that are of the path.
    """
    folded = () if many is None else many.members.values()
    properties = {} if body is None else body.get("properties", {})
    is_object = body is not None and body.get("type") == "object" and "properties" in body
    others = path["path"].keys() | {each.name for each in query}
    others |= set() if many is None else {filters.FILTERS}
    is_body_nested = body is not None and not (is_object and others.isdisjoint(properties))
    if is_body_nested and DATA in others:
        raise ConfigurationError(f"{where} has the argument {DATA!r} twice: its body is one")
    files = file_fields(body)
    described = [body, *(each.schema for each in (*query, *folded))]
    definitions = schemas.definitions(described, shared)
    nested = nested_fields(body, definitions)
    if files and (nested or is_body_nested):
        first_file = f"the file {sorted(files)[0]!r}"
        data = f" ({', '.join(nested)})" if nested else ""
        raise ConfigurationError(
            f"{where} takes {first_file} and nested data{data}, which one request cannot "
            "have: give serializer=…"
        )
    return Arguments(
        query=query,
        filters=many,
        body=body,
        definitions=definitions,
        is_body_nested=is_body_nested,
        files=files,
        **path,
    )


def resolved(body: Any, shared: Schema) -> Any:
    """Return the definition that ``body`` refers to, so that its properties are known."""
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


def file_fields(body: Schema | None) -> frozenset[str]:
    properties = (body or {}).get("properties", {})
    return frozenset(name for name, schema in properties.items() if is_file(schema))


def nested_fields(body: Schema | None, shared: Schema) -> list[str]:
    """The fields that a form cannot have: objects, and lists of objects."""
    return [
        name
        for name, schema in (body or {}).get("properties", {}).items()
        if not is_file(schema) and is_nesting(schema, shared)
    ]


def is_nesting(schema: Schema, shared: Schema) -> bool:
    """Whether a value is an object or a list of objects; ``shared`` has the definitions."""
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
