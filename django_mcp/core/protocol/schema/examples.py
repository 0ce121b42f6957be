"""An example of a value that a JSON Schema describes, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import walk

MAX_DEPTH = 5
"""Levels of objects and lists: a schema may refer to itself."""
STRINGS: Mapping[str, str] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "ann@example.com",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
"""A string of each format."""


def example_of(schema: Json) -> Any:
    """Return a value with the members that are required, or that have an example.

    Values come from ``examples``, ``default``, ``const`` and ``enum`` where the schema has them.
    Others have the type, and are the smallest number. Patterns and lengths are not considered.
    """
    return _example(schema, schema, MAX_DEPTH)


def _example(declared: Any, root: Json, depth: int) -> Any:
    schema = walk.resolved(declared, root)
    if depth == 0:
        return None
    given = _given(schema)
    if given:
        return given[0]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            return _example(schema[keyword][0], root, depth - 1)
    kind = schema.get("type", "object" if "properties" in schema else "")
    kinds = [kind] if isinstance(kind, str) else kind
    first = next((each for each in kinds if each != "null"), "null")
    return _of_type(first, schema, root, depth)


def _given(schema: Json) -> list[Any]:
    """The values that the schema itself names."""
    named: list[Any] = [*schema.get("examples", ())]
    named += [
        schema[keyword] for keyword in ("default", "const") if schema.get(keyword) is not None
    ]
    return [*named, *schema.get("enum", ())]


def _of_type(kind: str, schema: Json, root: Json, depth: int) -> Any:
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: _example(member, root, depth - 1)
            for name, member in schema.get("properties", {}).items()
            if name in required or walk.resolved(member, root).get("examples")
        }
    if kind == "array":
        return [_example(schema["items"], root, depth - 1)] if "items" in schema else []
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return True
    return STRINGS.get(schema.get("format", ""), "…") if kind == "string" else None
