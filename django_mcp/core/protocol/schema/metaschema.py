"""Recognize the usual valid JSON Schema without jsonschema, whose import takes 40 ms.

Its metaschema also takes 1 to 3 ms for each small schema; this table takes 3 µs. It is stricter:
the metaschema decides about every schema that is rejected here, and explains the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def is_usual(schema: Any) -> bool:
    """Whether the metaschema of 2020-12 certainly accepts ``schema``, which is plain JSON."""
    if isinstance(schema, bool):
        return True
    return isinstance(schema, dict) and all(
        keyword in KEYWORDS and KEYWORDS[keyword](value) for keyword, value in schema.items()
    )


def _is_schema_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_usual, value))


def _is_schema_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_usual, value.values()))


def _is_type(value: Any) -> bool:
    return value in TYPES or (_is_name_list(value) and bool(value) and {*value} <= {*TYPES})


def _is_name_list(value: Any) -> bool:
    is_names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return is_names and len(set(value)) == len(value)


def _is_anchor(value: Any) -> bool:
    return isinstance(value, str) and bool(_ANCHOR.fullmatch(value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_CHECKS: Mapping[Callable[[Any], bool], str] = {
    is_usual: "additionalProperties else if items not then",
    _is_schema_list: "allOf anyOf oneOf prefixItems",
    _is_schema_mapping: "$defs properties",
    _is_type: "type",
    _is_name_list: "required",
    lambda value: isinstance(value, str): "$ref $schema description format pattern title",
    _is_anchor: "$anchor",
    lambda value: isinstance(value, bool): "uniqueItems",
    lambda value: type(value) in (int, float): "exclusiveMaximum exclusiveMinimum maximum minimum",
    _is_count: "maxItems maxLength minItems minLength",
    lambda value: isinstance(value, list): "enum examples",
    lambda value: True: "const default",
}
KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    keyword: check for check, keywords in _CHECKS.items() for keyword in keywords.split()
}
"""The check of the value of each keyword."""
