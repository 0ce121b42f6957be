"""The members of a JSON object, with one field for each.

A member that is an object or a list is entered as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import walk

MAX_MEMBERS = 200
"""Fields of one form; an object with more of them is entered as JSON."""
MAX_REFERENCES = 20
MAX_DEPTH = 4
"""Levels of a value that its sketch shows."""

MISSING: Final = object()
"""The value of a member that is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A value to enter; ``schema`` has no references at its top, and does not say null."""

    name: str
    """The name of the member, or "" for the whole value."""
    label: str
    schema: Json
    is_required: bool
    is_nullable: bool
    initial: Any = MISSING
    sketch: Any = None
    """The names of its members and their types."""

    @property
    def help_text(self) -> str:
        return str(self.schema.get("description") or "")


def members_of(schema: Json, initial: Any = MISSING) -> list[Member]:
    """Return the members of an object, or the value itself if it is entered as JSON."""
    properties = schema.get("properties")
    has_others = isinstance(schema.get("additionalProperties"), Mapping)
    if has_others or not isinstance(properties, Mapping) or len(properties) > MAX_MEMBERS:
        title = str(schema.get("title") or "")
        return [
            Member(
                name="",
                label=title,
                schema={},
                is_required=True,
                is_nullable=False,
                initial=initial,
            )
        ]
    required = schema.get("required") or ()
    values = initial if isinstance(initial, Mapping) else {}
    return [
        _member(schema, name, declared, name in required, values.get(name, MISSING))
        for name, declared in properties.items()
    ]


def choices_of(schema: Json) -> list[tuple[Any, str]] | None:
    """Return the values of an enumeration with their titles, or None for any other schema."""
    if "const" in schema:
        return [(schema["const"], str(schema.get("title") or schema["const"]))]
    if isinstance(schema.get("enum"), list):
        values = schema["enum"]
        names = schema.get("enumNames") or ()
        titles = names if len(names) == len(values) else values
        pairs = zip(values, map(str, titles), strict=True)
        return [(value, title) for value, title in pairs if value is not None]
    options = schema.get("oneOf") or schema.get("anyOf") or ()
    if options and all(isinstance(option, Mapping) and "const" in option for option in options):
        return [
            (option["const"], str(option.get("title") or option["const"])) for option in options
        ]
    return None


def _member(root: Json, name: str, declared: Any, is_required: bool, initial: Any) -> Member:
    schema, is_nullable = _resolved(root, declared)
    # Not the title of the referenced schema, which is the name of a class.
    title = declared.get("title") if isinstance(declared, Mapping) else None
    return Member(
        name=name,
        label=str(title or name),
        schema=schema,
        is_required=is_required,
        is_nullable=is_nullable,
        initial=schema.get("default", MISSING) if initial is MISSING else initial,
        sketch=_sketch(root, declared, MAX_DEPTH),
    )


def _resolved(root: Json, declared: Any) -> tuple[dict[str, Any], bool]:
    """Return a schema without references and null, and whether null is a value besides."""
    schema = dict(declared) if isinstance(declared, Mapping) else {}
    is_nullable = False
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        others = [kind for kind in kinds if kind != "null"]
        schema["type"] = others[0] if len(others) == 1 else others
        is_nullable = True
    for _ in range(MAX_REFERENCES):
        inner, allows_null = _inner(root, schema)
        is_nullable = is_nullable or allows_null
        if inner is None:
            return _with_resolved_items(root, schema), is_nullable
        outer = {key: value for key, value in schema.items() if key not in COMBINING}
        schema = {**inner, **outer}
    return {}, is_nullable


def _inner(root: Json, schema: Json) -> tuple[Json | None, bool]:
    """Return the one schema that this one stands for, or None, and whether null is allowed."""
    if "$ref" in schema:
        return walk.target(root, schema["$ref"]), False
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = schema.get(keyword)
        if not isinstance(options, list) or not options:
            continue
        rest = [option for option in options if option != {"type": "null"}]
        if len(rest) == 1 and isinstance(rest[0], Mapping):
            return rest[0], len(rest) < len(options)
    return None, False


def _with_resolved_items(root: Json, schema: dict[str, Any]) -> dict[str, Any]:
    """Resolve the items of a list if they are an enumeration, which one field shows."""
    items = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, Mapping):
        return schema
    resolved = walk.target(root, items["$ref"]) if "$ref" in items else items
    return {**schema, "items": resolved} if choices_of(resolved) is not None else schema


COMBINING = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
"""Keywords that a schema no longer has once the named schemas are merged into it."""


def _sketch(root: Json, declared: Any, depth: int) -> Any:
    schema, _ = _resolved(root, declared)
    if depth and isinstance(schema.get("properties"), Mapping):
        members = schema["properties"].items()
        return {name: _sketch(root, member, depth - 1) for name, member in members}
    if depth and isinstance(schema.get("items"), Mapping):
        return [_sketch(root, schema["items"], depth - 1)]
    kinds = schema.get("type") or "…"
    return " or ".join(kinds) if isinstance(kinds, list) else kinds
