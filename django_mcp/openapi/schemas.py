"""Schemas of OpenAPI, as REST framework and drf-spectacular write them, as JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from django_mcp.core.protocol.schema.shapes import or_null, without_list_of_types

Schema = dict[str, Any]

COMPONENTS = "#/components/schemas/"
MAX_EXAMPLES = 3
DROPPED = frozenset(
    {"nullable", "readOnly", "writeOnly", "discriminator", "xml", "example", "externalDocs"}
)
"""Keywords that JSON Schema does not have, or that say nothing to a model."""
OF_SCHEMAS = frozenset({"properties", "patternProperties"})
OF_VALUES = frozenset({"enum", "const", "default", "required", "examples"})


def to_json_schema(schema: Any, *, hidden: str = "readOnly") -> Any:
    """Return a schema of OpenAPI 3.0 or 3.1 as JSON Schema, without ``hidden`` properties."""
    if isinstance(schema, list | tuple):
        return [to_json_schema(each, hidden=hidden) for each in schema]
    if not isinstance(schema, Mapping):
        return to_json_value(schema)
    changed = {
        key: _member(key, value, hidden)
        for key, value in schema.items()
        if key not in DROPPED and not key.startswith("x-")
    }
    if "properties" in schema and isinstance(schema.get("required"), list):
        changed["required"] = [name for name in schema["required"] if name in changed["properties"]]
    if "example" in schema:
        changed.setdefault("examples", [to_json_value(schema["example"])])
    changed = without_list_of_types(_exclusive(changed))
    return or_null(changed) if schema.get("nullable") is True else changed


def _member(key: str, value: Any, hidden: str) -> Any:
    if key == "$ref" and isinstance(value, str):
        return value.replace(COMPONENTS, "#/$defs/")
    if key in OF_SCHEMAS and isinstance(value, Mapping):
        return {
            name: to_json_schema(each, hidden=hidden)
            for name, each in value.items()
            if not (isinstance(each, Mapping) and each.get(hidden) is True)
        }
    return to_json_value(value) if key in OF_VALUES else to_json_schema(value, hidden=hidden)


def to_json_value(value: Any) -> Any:
    """Return a value in a schema as JSON: validators and defaults of the site may have others.

    A bound such as ``Decimal("180.0")`` is a number; other values that JSON does not have are
    strings.
    """
    if isinstance(value, Mapping):
        return {str(name): to_json_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    is_json = value is None or isinstance(value, str | int | float | bool)
    return value if is_json else str(value)


def _exclusive(schema: Schema) -> Schema:
    """Convert the bounds of OpenAPI 3.0, where ``exclusiveMinimum: true`` changes ``minimum``."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)
    return schema


def with_examples(schema: Schema, described: Mapping[str, Any]) -> Schema:
    """Return ``schema`` with the examples of a parameter or a body, of an object by its members."""
    named = described.get("examples") or {}
    values = [each["value"] for each in named.values() if "value" in each]
    if "example" in described:
        values.append(described["example"])
    examples = to_json_value(values[:MAX_EXAMPLES])
    return {**schema, "examples": examples} if examples else schema


def of_members(schema: Schema) -> Schema:
    """Return the schema of an object with its examples at its members, which become arguments."""
    examples = [each for each in schema.get("examples", ()) if isinstance(each, Mapping)]
    if not examples or "properties" not in schema:
        return schema
    properties = {}
    for name, member in schema["properties"].items():
        values = [each[name] for each in examples if name in each]
        properties[name] = {**member, "examples": values} if values else member
    kept = {key: value for key, value in schema.items() if key != "examples"}
    return {**kept, "properties": properties}


def definitions(schema: Any, components: Mapping[str, Any]) -> dict[str, Any]:
    """Return the components that ``schema`` refers to, directly or not, by name."""
    referenced: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            name = str(reference).removeprefix("#/$defs/")
            if reference is not None and name in components and name not in referenced:
                referenced[name] = components[name]
                waiting.append(components[name])
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return referenced


def map_schemas(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return ``schema`` with each of its subschemas, and itself, changed."""
    if isinstance(schema, list):
        return [map_schemas(each, change) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner: Schema = {}
    for key, value in schema.items():
        if key in OF_SCHEMAS or key == "$defs":
            inner[key] = {name: map_schemas(each, change) for name, each in value.items()}
        else:
            inner[key] = value if key in OF_VALUES else map_schemas(value, change)
    return change(inner)


def without_trivial_titles(schema: Any) -> Any:
    """Return ``schema`` without titles that have the words of the name alone, as pydantic's do."""
    return map_schemas(schema, _without_titles_of_members)


def _without_titles_of_members(schema: Schema) -> Schema:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema
    members = {name: without_trivial_title(name, member) for name, member in properties.items()}
    return {**without_trivial_title("", schema), "properties": members}


def without_trivial_title(name: str, schema: Any) -> Any:
    """Return the schema of a member without a title that repeats its name; "" for any title."""
    if not isinstance(schema, Mapping) or "title" not in schema:
        return schema
    words = str(schema["title"]).casefold().replace(" ", "_")
    is_trivial = words == name.casefold() or not name
    kept = {key: value for key, value in schema.items() if key != "title"}
    return kept if is_trivial else schema


def partial(schema: Any) -> Any:
    """Return ``schema`` for a partial update: nothing is required, and nothing has a default.

    A default would change fields that the caller left out.
    """
    return map_schemas(
        schema, lambda each: {k: v for k, v in each.items() if k not in ("required", "default")}
    )
