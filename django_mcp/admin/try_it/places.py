"""A JSON Schema as a tree of places for values: single values, objects and lists with rows.

A place is named by its JSON pointer (RFC 6901). What a form cannot show as fields, such as a choice
between types, is one value that is written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import pointers

MAX_ROWS = 100
"""Rows of one list."""
MAX_PLACES = 500
"""Fields of one form; a schema with more of them is one value as JSON."""
MAX_REFERENCES = 20

MISSING: Final = object()
"""What a place has that is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place for a value; ``schema`` is that of the value, without references."""

    pointer: str
    label: str
    schema: Json
    is_required: bool
    is_nullable: bool
    initial: Any = MISSING

    @property
    def help_text(self) -> str:
        return str(self.schema.get("description") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Place):
    """A single value: what is entered in one field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Place):
    """An object, by the places of its members."""

    members: Mapping[str, AnyPlace]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Place):
    """A list, by the places of its items."""

    items: Sequence[AnyPlace]

    @property
    def may_grow(self) -> bool:
        return len(self.items) < MAX_ROWS


AnyPlace = Value | Group | Rows
Counts = Mapping[str, int]
"""The numbers of rows, by the pointers of their lists."""


def tree(schema: Json, counts: Counts, initial: Any = MISSING) -> AnyPlace:
    """Return the place of the whole value.

    A list has as many rows as ``counts`` says, else those of its initial value.
    """
    reader = _Reader(schema, counts)
    try:
        return reader.place("", "", schema, is_required=True, initial=initial, above=frozenset())
    except _TooLarge:
        return Value(
            pointer="",
            label="",
            schema={},
            is_required=True,
            is_nullable=False,
            initial=initial,
        )


def values_of(place: AnyPlace) -> Iterator[Value]:
    """Iterate over the single values of a place."""
    if isinstance(place, Value):
        yield place
        return
    inner = place.members.values() if isinstance(place, Group) else place.items
    for member in inner:
        yield from values_of(member)


def lists_of(place: AnyPlace) -> Iterator[Rows]:
    """Iterate over the lists of a place, and those in their rows."""
    if isinstance(place, Value):
        return
    if isinstance(place, Rows):
        yield place
    inner = place.members.values() if isinstance(place, Group) else place.items
    for member in inner:
        yield from lists_of(member)


def choices_of(schema: Json) -> list[tuple[Any, str]] | None:
    """Return the values of an enumeration with their titles, or None for any other schema."""
    if "const" in schema:
        return [(schema["const"], str(schema.get("title") or schema["const"]))]
    if isinstance(schema.get("enum"), list):
        names = schema.get("enumNames") or ()
        titles = [str(name) for name in names] if len(names) == len(schema["enum"]) else None
        values = [value for value in schema["enum"] if value is not None]
        return [*zip(values, titles or map(str, values), strict=False)]
    options = schema.get("oneOf") or schema.get("anyOf") or ()
    if options and all(isinstance(option, Mapping) and "const" in option for option in options):
        return [
            (option["const"], str(option.get("title") or option["const"])) for option in options
        ]
    return None


class _TooLarge(Exception):
    """The schema has more places than a form should have."""


class _Resolved(NamedTuple):
    """A schema, whether null is a value besides, and the references that led to it."""

    schema: dict[str, Any]
    is_nullable: bool
    references: frozenset[str]


class _Reader:
    """Makes the places of one schema."""

    def __init__(self, root: Json, counts: Counts) -> None:
        self._root = root
        self._counts = counts
        self._number = 0

    def place(
        self,
        pointer: str,
        label: str,
        declared: Any,
        *,
        is_required: bool,
        initial: Any,
        above: frozenset[str],
    ) -> AnyPlace:
        self._number += 1
        if self._number > MAX_PLACES:
            raise _TooLarge
        schema, is_nullable, references = self._resolved(declared)
        if references & above:
            # It contains itself: fields would have no end.
            schema = {"description": schema.get("description")}
        if initial is MISSING:
            initial = schema.get("default", MISSING)
        facts: dict[str, Any] = {
            "pointer": pointer,
            # Not the title of what it refers to, which is the name of a class.
            "label": str(_own_title(declared) or label),
            "schema": schema,
            "is_required": is_required,
            "is_nullable": is_nullable,
            "initial": initial,
        }
        above |= references
        if _is_group(schema):
            return Group(members=self._members(pointer, schema, initial, above), **facts)
        if self._is_list(schema):
            return Rows(items=self._items(pointer, schema, initial, above), **facts)
        return Value(**facts)

    def _members(
        self, pointer: str, schema: Json, initial: Any, above: frozenset[str]
    ) -> dict[str, AnyPlace]:
        required = schema.get("required") or ()
        values = initial if isinstance(initial, Mapping) else {}
        return {
            name: self.place(
                pointer + pointers.step(name),
                name,
                member,
                is_required=name in required,
                initial=values.get(name, MISSING),
                above=above,
            )
            for name, member in schema["properties"].items()
        }

    def _items(
        self, pointer: str, schema: Json, initial: Any, above: frozenset[str]
    ) -> list[AnyPlace]:
        values = initial if isinstance(initial, list) else []
        number = self._counts.get(pointer)
        if number is None:
            number = max(len(values), _least(schema))
        number = min(number, MAX_ROWS)
        return [
            self.place(
                pointer + pointers.step(index),
                str(index + 1),
                schema["items"],
                is_required=True,
                initial=values[index] if index < len(values) else MISSING,
                above=above,
            )
            for index in range(number)
        ]

    def _is_list(self, schema: Json) -> bool:
        items = schema.get("items")
        if schema.get("type") != "array" or not isinstance(items, Mapping):
            return False
        if "prefixItems" in schema:
            return False
        return choices_of(self._resolved(items).schema) is None

    def _resolved(self, declared: Any) -> _Resolved:
        """Return a schema without references and without null."""
        schema = dict(declared) if isinstance(declared, Mapping) else {}
        references = set()
        is_nullable = False
        kinds = schema.get("type")
        if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds:
            schema["type"] = next(kind for kind in kinds if kind != "null")
            is_nullable = True
        for _ in range(MAX_REFERENCES):
            if isinstance(schema.get("$ref"), str):
                references.add(schema["$ref"])
            inner, allows_null = self._inner(schema)
            is_nullable = is_nullable or allows_null
            if inner is None:
                shown = self._with_resolved_items(schema)
                return _Resolved(shown, is_nullable, frozenset(references))
            outer = {key: value for key, value in schema.items() if key not in COMBINING}
            schema = {**inner, **outer}
        return _Resolved({}, is_nullable, frozenset(references))

    def _inner(self, schema: Json) -> tuple[Json | None, bool]:
        """Return the one schema that this one stands for, or None, and whether null is allowed."""
        if "$ref" in schema:
            return pointers.target(self._root, schema["$ref"]), False
        for keyword in ("anyOf", "oneOf", "allOf"):
            options = schema.get(keyword)
            if not isinstance(options, list) or not options:
                continue
            rest = [option for option in options if option != {"type": "null"}]
            has_null = len(rest) < len(options)
            if len(rest) == 1 and isinstance(rest[0], Mapping):
                return rest[0], has_null
        return None, False

    def _with_resolved_items(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Resolve the items of a list if they are an enumeration, which one field shows."""
        items = schema.get("items")
        if schema.get("type") != "array" or not isinstance(items, Mapping):
            return schema
        reference = items.get("$ref")
        resolved = pointers.target(self._root, reference) if reference else items
        return {**schema, "items": resolved} if choices_of(resolved) is not None else schema


COMBINING = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
"""Keywords that a schema no longer has once what they name is merged into it."""


def _own_title(declared: Any) -> Any:
    return declared.get("title") if isinstance(declared, Mapping) else None


def _is_group(schema: Json) -> bool:
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
        return False
    # Members beyond those that are named need a field for JSON.
    return not isinstance(schema.get("additionalProperties"), Mapping)


def _least(schema: Json) -> int:
    """Return the rows with which a list begins: one for a value that is easily left empty."""
    least = schema.get("minItems")
    number = least if isinstance(least, int) else 0
    items = schema.get("items") or {}
    return number if "properties" in items or "$ref" in items else max(number, 1)
