"""Seeing at a glance that a JSON Schema is valid, which nearly all are.

The metaschema of 2020-12 takes ten milliseconds to say so of a small schema. This table takes
microseconds and is stricter: what it does not know or does not like may be valid all the same,
and is for the metaschema to judge, which also has the words for what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def is_well_formed(schema: Any) -> bool:
    """Whether the metaschema of 2020-12 certainly takes ``schema``, which is plain JSON."""
    if isinstance(schema, bool):
        return True
    return isinstance(schema, dict) and all(
        keyword in KEYWORDS and KEYWORDS[keyword](value) for keyword, value in schema.items()
    )


def _list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_well_formed, value))


def _by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_well_formed, value.values()))


def _type(value: Any) -> bool:
    return value in TYPES or (_names(value) and bool(value) and all(one in TYPES for one in value))


def _names(value: Any) -> bool:
    """Different texts."""
    is_texts = isinstance(value, list) and all(map(_text, value))
    return is_texts and len(set(value)) == len(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _anchor(value: Any) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _items(value: Any) -> bool:
    return isinstance(value, list)


def _anything(value: Any) -> bool:
    return True


KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    "$anchor": _anchor,
    "$defs": _by_name,
    "$ref": _text,
    "$schema": _text,
    "additionalProperties": is_well_formed,
    "allOf": _list,
    "anyOf": _list,
    "const": _anything,
    "default": _anything,
    "description": _text,
    "else": is_well_formed,
    "enum": _items,
    "examples": _items,
    "exclusiveMaximum": _number,
    "exclusiveMinimum": _number,
    "format": _text,
    "if": is_well_formed,
    "items": is_well_formed,
    "maxItems": _count,
    "maxLength": _count,
    "maximum": _number,
    "minItems": _count,
    "minLength": _count,
    "minimum": _number,
    "not": is_well_formed,
    "oneOf": _list,
    "pattern": _text,
    "prefixItems": _list,
    "properties": _by_name,
    "required": _names,
    "then": is_well_formed,
    "title": _text,
    "type": _type,
    "uniqueItems": _flag,
}
"""What may stand after each keyword."""
