"""A JSON schema as the rows of a table: one for each parameter, also within objects and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django_mcp.core.protocol.schema import walk

Json = Mapping[str, Any]

MAX_DEPTH = 4
"""Levels of nested objects that have rows; deeper ones are in the JSON."""
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
}
"""The meaning of a keyword of a schema, in words."""
MAX_CHOICES = 12
"""Values of an enumeration that the table shows."""
MAX_TYPES = 4
"""Types within each other that the table names: a schema may refer to itself."""


class Parameter(NamedTuple):
    """A row of the table."""

    name: str
    """With the names of the objects around it: ``address.city``, ``lines[].amount``."""
    type: str
    is_required: bool
    default: str
    """As JSON; "" without one."""
    description: str
    limits: str


def of_schema(schema: Json) -> list[Parameter]:
    """Return a row for each property of an object or of those in a list, up to MAX_DEPTH."""
    items = schema.get("items")
    if isinstance(items, Mapping):
        return [*_of_object(walk.resolved(items, schema), schema, "[].", MAX_DEPTH)]
    return [*_of_object(walk.resolved(schema, schema), schema, "", MAX_DEPTH)]


def of_prompt(arguments: list[Json]) -> list[Parameter]:
    """Return the rows of a prompt's arguments, which are strings."""
    return [
        Parameter(
            str(argument["name"]),
            "string",
            bool(argument.get("required")),
            "",
            str(argument.get("description", "")),
            "",
        )
        for argument in arguments
    ]


def _of_object(schema: Json, root: Json, prefix: str, depth: int) -> Iterator[Parameter]:
    if depth == 0:
        return
    required = schema.get("required", ())
    for name, declared in schema.get("properties", {}).items():
        member = walk.resolved(declared, root)
        path = f"{prefix}{name}"
        default = member.get("default")
        present = [(text, member[key]) for key, text in LIMITS.items() if key in member]
        # "at least 1 character"
        limits = [
            text.format(limit).removesuffix("s" if limit == 1 else "") for text, limit in present
        ]
        yield Parameter(
            path,
            _type(member, root),
            name in required,
            "" if default is None else _json(default),
            str(member.get("description", "")),
            ", ".join(limits),
        )
        yield from _nested(member, root, path, depth - 1)


def _nested(member: Json, root: Json, path: str, depth: int) -> Iterator[Parameter]:
    """The rows of an object within a property, or of those in its list."""
    for choice in _choices(member, root):
        items = choice.get("items")
        if isinstance(items, Mapping):
            yield from _of_object(walk.resolved(items, root), root, f"{path}[].", depth)
        else:
            yield from _of_object(choice, root, f"{path}.", depth)


def _choices(member: Json, root: Json) -> list[Json]:
    """The alternatives of a schema, each as it is declared; itself without any."""
    alternatives = member.get("anyOf") or member.get("oneOf")
    if not alternatives:
        return [member]
    return [walk.resolved(alternative, root) for alternative in alternatives]


def _type(member: Json, root: Json, depth: int = MAX_TYPES) -> str:
    """The type in words: ``string (date)``, ``list of integer``, ``"open" or "closed"``."""
    if depth == 0:
        return "…"
    if "const" in member:
        return _json(member["const"])
    if "enum" in member:
        shown = [_json(value) for value in member["enum"][:MAX_CHOICES]]
        more = ["…"] if len(member["enum"]) > MAX_CHOICES else []
        return " or ".join([*shown, *more])
    choices = _choices(member, root)
    if choices != [member]:
        return " or ".join(dict.fromkeys(_type(choice, root, depth - 1) for choice in choices))
    kinds = member.get("type", "any")
    all_kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_one_type(str(kind), member, root, depth) for kind in all_kinds)


def _one_type(kind: str, member: Json, root: Json, depth: int) -> str:
    if kind == "array":
        items = walk.resolved(member.get("items"), root)
        return f"list of {_type(items, root, depth - 1)}" if items else "list"
    if kind == "string" and "format" in member:
        return f"string ({member['format']})"
    return kind


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
