"""Walk the subschemas of a JSON Schema, within limits, and follow its references.

A JSON pointer (RFC 6901) names a place in a document: ``/lines/0/number``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django_mcp.core.protocol.errors import Json

MAX_DEPTH = 64
# Of a schema as written, and of those which apply to one value through allOf, $ref and the like.
MAX_SUBSCHEMAS = 2000

# The keywords for one schema, for a list of schemas, and for a mapping of names to schemas.
# fmt: off
_SINGLE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
    "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})
_LISTED = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset({
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
})

# Those which apply to the same value as the schema that contains them.
IN_PLACE = frozenset({
    "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then",
})
# fmt: on
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

Location = tuple[str | int, ...]
"""The keywords, names and indexes that lead to a subschema."""


class SchemaPosition(NamedTuple):
    location: Location
    schema: Json


def subschemas(schema: Json) -> Iterator[SchemaPosition]:
    """Yield ``schema`` and every schema inside it; raise ValueError if they are too many."""
    pending = [(SchemaPosition((), schema), 1)]
    seen = 0
    while pending:
        position, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_SUBSCHEMAS:
            limits = f"at most {MAX_SUBSCHEMAS} schemas, at most {MAX_DEPTH} inside each other"
            raise ValueError(f"This JSON Schema is too large: {limits}")
        yield position
        for steps, child in reversed([*children(position.schema)]):
            pending.append((SchemaPosition((*position.location, *steps), child), depth + 1))


def children(schema: Json) -> Iterator[SchemaPosition]:
    for keyword, value in schema.items():
        items: list[tuple[Location, Any]] = []
        if keyword in _NAMED and isinstance(value, Mapping):
            items = [((keyword, name), child) for name, child in value.items()]
        elif keyword in _LISTED and isinstance(value, list | tuple):
            items = [((keyword, index), child) for index, child in enumerate(value)]
        elif keyword in _SINGLE:
            items = [((keyword,), value)]
        for location, child in items:
            if isinstance(child, Mapping):
                yield SchemaPosition(location, child)


def pointer(location: Location) -> str:
    """Return the JSON pointer of a location, such as ``#/properties/name``."""
    return "/".join(("#", *map(str, location)))


# JSON pointers.


def step(name: str | int) -> str:
    """Return the part of a pointer that leads to a member or an item."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def name_of(part: str) -> str:
    """Return the member's name for a part of a pointer, given without its slash."""
    return part.replace("~1", "/").replace("~0", "~")


def names_of(pointer: str) -> list[str]:
    """Return the names of all members on the way of a pointer."""
    return [name_of(part) for part in pointer.split("/")[1:]]


def target(document: Json, reference: Any) -> Json:
    """Return the object that a reference such as ``#/$defs/Line`` points to.

    It is empty for a reference that leads to something else, or out of the document.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    place: Any = document
    for name in names_of(reference):
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def resolved(schema: Any, document: Json) -> Json:
    """Return a schema without its reference: with the members of the target beside its own."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" not in schema:
        return schema
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return {**target(document, schema["$ref"]), **own}
