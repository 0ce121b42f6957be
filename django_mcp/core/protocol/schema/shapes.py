"""JSON Schemas that are written in one way everywhere: a value or null, and one of some choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that describe a value, and that are read at the top of a schema only."""
ALTERNATIVES = ("anyOf", "oneOf")
LIMITING = frozenset({"enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"})
"""Keywords that can forbid null where the type allows it."""
TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def or_null(schema: Schema) -> Schema:
    """Return a schema that accepts null as well, with its title and description at the top.

    A list of types is written for a string, a number or a boolean only: with it, clients of some
    models fail on an array or an object. Beside choices it would still forbid null.
    """
    if accepts_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and kind in TYPES.values() and not schema.keys() & LIMITING:
        return {**schema, "type": [kind, "null"]}
    described = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in described}
    if "enum" in rest:
        rest["enum"] = [value for value in rest["enum"] if value is not None]
    is_union = rest.keys() == {"anyOf"}
    members = rest["anyOf"] if is_union else [rest]
    return {**described, "anyOf": [*members, {"type": "null"}]}


def without_list_of_types(schema: Schema) -> Schema:
    """Return a schema that has no list of types with null and an array or an object."""
    kinds = schema.get("type")
    if not isinstance(kinds, list) or "null" not in kinds or not {"array", "object"} & {*kinds}:
        return schema
    others = [kind for kind in kinds if kind != "null"]
    return or_null({**schema, "type": others[0] if len(others) == 1 else others})


def accepts_null(schema: Any) -> bool:
    """Whether null is certainly valid."""
    if not isinstance(schema, Mapping):
        return schema is True
    if not schema.keys() - ANNOTATIONS:
        return True
    if "type" in schema:
        kinds = schema["type"]
        has_type = "null" in ([kinds] if isinstance(kinds, str) else kinds)
        others = schema.keys() & (LIMITING - {"enum"})
        return has_type and not others and None in schema.get("enum", [None])
    if "enum" in schema:
        return None in schema["enum"]
    alternatives = [schema[name] for name in ALTERNATIVES if name in schema]
    others = schema.keys() - ANNOTATIONS - {*ALTERNATIVES}
    return not others and all(any(map(accepts_null, members)) for members in alternatives)


@dataclass(frozen=True, slots=True)
class Choices:
    """The values to choose from, each with its label, which may be lazy."""

    pairs: Sequence[tuple[Any, Any]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[Any, Any]]) -> Choices:
        """Without the empty choice, whether that is None or an empty string, and without doubles.

        A value that JSON does not have is a string, as a form of HTML sends it.
        """
        chosen: dict[tuple[type, Any], Any] = {}
        for value, label in pairs:
            if value is None or str(value) == "":
                continue
            plain = getattr(value, "value", value)  # Of a member of an enumeration.
            given = plain if type(plain) in TYPES else str(plain)
            chosen.setdefault((type(given), given), label)
        return cls([(value, label) for (_, value), label in chosen.items()])

    @property
    def values(self) -> tuple[Any, ...]:
        return tuple(value for value, _ in self.pairs)

    def schema(self, *, may_be_blank: bool = False) -> Schema:
        """Return the schema of one choice. Its labels belong into a description.

        All clients read ``enum``; some drop ``oneOf``, which could have a title for each value.
        With ``may_be_blank``, an empty string is valid, too.
        """
        values = [*self.values, *([""] if may_be_blank else [])]
        kinds = sorted({TYPES[type(value)] for value in values})
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    @property
    def have_labels(self) -> bool:
        """Whether the labels say more than the values."""
        return any(str(value).casefold() != str(label).casefold() for value, label in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)
