"""Compile a JSON Schema once; the Validator describes violations in sentences.

``format`` is an annotation and is not enforced. References are never fetched: compiling rejects
those that do not resolve inside the schema or are circular, and a schema that is too large or deep.
Hostile values cannot make validation slow: it takes a bounded number of steps (see ``keywords``).
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from pydantic_core import from_json, to_json

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import walk
from django_mcp.core.protocol.schema.steps import MAX_STEPS, search
from django_mcp.core.protocol.schema.walk import MAX_DEPTH, MAX_SUBSCHEMAS, SchemaPosition
from django_mcp.core.protocol.texts import json_fallback

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIALECTS = (
    DEFAULT_DIALECT,
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
CACHED = 64
"""Compiled schemas to keep: tools of one view have the same output schema."""
NOT_JSON = "A JSON Schema holds nothing but JSON"
_DEFINITIONS = ("#/$defs/", "#/definitions/")
_STAY_AT_ROOT = ("$schema", "$defs", "definitions")
"""The members that stay at the root when a schema is wrapped in an object."""
_AS_OBJECT: Mapping[bool, Json] = {True: {}, False: {"not": {}}}
"""The schemas that mean the same as ``true`` and ``false``."""


@dataclass(frozen=True, eq=False)
class Validator:
    """A compiled schema. ``schema`` is the schema as written, to be listed to clients."""

    schema: Json
    dialect: str

    @cached_property
    def _errors(self) -> Callable[[Any, str, int], list[str]]:
        # The import of jsonschema takes 40 ms, and few sites need it at their start.
        validator = import_module("django_mcp.core.protocol.schema.validator")
        errors: Callable[..., list[str]] = validator.prepare(self.schema, self.dialect)
        return errors

    def errors(
        self, instance: Any, *, name: str = "arguments", max_steps: int = MAX_STEPS
    ) -> list[str]:
        """Return a sentence for each of the first violations; an empty list if there is none.

        ``name`` is the name of the instance in sentences. They do not repeat long values.
        Raises TooManySteps; a step takes some microseconds.
        """
        return self._errors(instance, name, max_steps)

    def problems(
        self, instance: Any, *, name: str = "arguments", max_steps: int = MAX_STEPS
    ) -> str:
        """Return ``errors`` as one string, which is empty if the instance is valid."""
        return "; ".join(self.errors(instance, name=name, max_steps=max_steps))


def compile(schema: Json) -> Validator:
    """Check a schema and return its validator; raise ValueError with what to change in it."""
    _check_subschemas([*walk.subschemas(schema)])
    try:
        # Schemas are compared as JSON: a dict is not hashable, and may change later.
        text = to_json(dict(schema), fallback=json_fallback)
    except ValueError as error:
        raise ValueError(f"{NOT_JSON}: {error}") from error
    return _compiled(text)


@lru_cache(maxsize=CACHED)
def _compiled(json: bytes) -> Validator:
    try:
        plain: dict[str, Any] = dict(from_json(json, allow_inf_nan=False))
    except ValueError as error:
        raise ValueError(f"{NOT_JSON}: {error}") from error
    validator = Validator(plain, _dialect(plain))
    if not _is_certainly_valid(plain, validator.dialect):
        validator.errors(None)  # Raises ValueError if the schema is invalid.
    return validator


def is_object_root(schema: Json) -> bool:
    return bool(schema.get("type") == "object")


def to_object_root(schema: Json, *, key: str = "result") -> Json | None:
    """Return ``schema`` if it describes an object, else a schema for ``{key: value}``.

    Definitions move to the new root, so that references to them stay valid. Return None where other
    references would break: to the root or into it, and any reference if the root has an ``$id``.
    """
    if is_object_root(schema):
        return schema
    if schema.keys() & {"$id", "id"} or not all(map(_survives_wrapping, walk.subschemas(schema))):
        return None
    moved = {name: value for name, value in schema.items() if name in _STAY_AT_ROOT}
    inner = {name: value for name, value in schema.items() if name not in moved}
    return {**moved, "type": "object", "properties": {key: inner}, "required": [key]}


def without_boolean_properties(schema: Json) -> Json:
    """Return ``schema`` with equivalent objects in place of properties that are true or false."""
    properties = schema.get("properties", {})
    replacements = {
        name: _AS_OBJECT[inner] for name, inner in properties.items() if isinstance(inner, bool)
    }
    if not replacements:
        return schema
    return {**schema, "properties": {**properties, **replacements}}


def _check_subschemas(positions: Sequence[SchemaPosition]) -> None:
    """Raise ValueError for what would change the dialect, or make validation slow."""
    has_unevaluated = any("unevaluatedProperties" in inner for _, inner in positions)
    for location, inner in positions:
        if location and "$schema" in inner:
            where = walk.pointer(location)
            raise ValueError(f"$schema inside a JSON Schema, at {where}: name it at the root only")
        by_pattern = inner.get("patternProperties")
        patterns = [*by_pattern] if isinstance(by_pattern, Mapping) else []
        for pattern in (inner.get("pattern"), *patterns):
            if isinstance(pattern, str):
                search(pattern)  # Raises for one that the engine of linear time does not support.
        # For unevaluatedProperties, jsonschema runs the patterns on Python's ``re``, where
        # repetitions need exponential time.
        if has_unevaluated and any(set("*+{") & set(pattern) for pattern in patterns):
            raise ValueError(
                "unevaluatedProperties needs patternProperties without repetitions: write "
                '"^x-" instead of "^x-.*", or use additionalProperties'
            )


def _dialect(schema: Json) -> str:
    dialect = schema.get("$schema", DEFAULT_DIALECT)
    if isinstance(dialect, str) and dialect.removesuffix("#") in DIALECTS:
        return dialect.removesuffix("#")
    supported = ", ".join(DIALECTS)
    raise ValueError(
        f"The JSON Schema dialect {dialect!r} is not supported; these are: {supported}"
    )


def _is_certainly_valid(schema: Json, dialect: str) -> bool:
    """Whether the schema is so simple that it is valid without a check by jsonschema."""
    if dialect != DEFAULT_DIALECT or not is_usual(schema):
        return False
    positions = [*walk.subschemas(schema)]
    is_referring = any("$ref" in position.schema for position in positions)
    return not is_referring or _are_harmless(positions, schema)


_ROOT = ""
"""The name of schemas outside of definitions."""


def _are_harmless(positions: Sequence[SchemaPosition], root: Json) -> bool:
    """Whether references lead to definitions, in no circle, and apply few schemas together."""
    targets = {f"#/$defs/{name}": name for name in root.get("$defs", ()) if name.isidentifier()}
    sizes: Counter[str] = Counter()
    referred: dict[str, list[str]] = {}
    for location, schema in positions:
        name = str(location[1]) if location[:1] == ("$defs",) else _ROOT
        sizes[name] += 1
        if "$ref" in schema:
            if schema["$ref"] not in targets:
                return False
            referred.setdefault(name, []).append(targets[schema["$ref"]])
    deepest = max(len(location) for location, _ in positions)
    applied = _Applied(sizes, referred)
    longest_chain = MAX_DEPTH // max(deepest, 1)
    return all(applied.size(name, longest_chain) <= MAX_SUBSCHEMAS for name in [*sizes])


class _Applied:
    """How many schemas a definition applies at most, with those that it refers to."""

    def __init__(self, sizes: Mapping[str, int], referred: Mapping[str, Sequence[str]]) -> None:
        self._sizes = sizes
        self._referred = referred
        self._known: dict[str, int] = {}

    def size(self, name: str, longest_chain: int) -> int:
        """Return the number, which is above the limit for a longer chain, such as a circle."""
        if name in self._known:
            return self._known[name]
        if longest_chain == 0:
            return MAX_SUBSCHEMAS + 1
        size = self._sizes[name]
        for target in self._referred.get(name, ()):
            size += self.size(target, longest_chain - 1)
            if size > MAX_SUBSCHEMAS:
                break
        self._known[name] = size
        return size


def _survives_wrapping(position: SchemaPosition) -> bool:
    """Whether the references of this schema stay valid when the root moves down."""
    references = [str(position.schema.get(keyword)) for keyword in walk.REFERENCES]
    to_root = [
        reference for reference in references if reference == "#" or reference.startswith("#/")
    ]
    return all(reference.startswith(_DEFINITIONS) for reference in to_root)


def with_defaults(schema: Json, instance: Json, root: Json | None = None) -> dict[str, Any]:
    """Return a copy of ``instance`` with the defaults of missing properties, nested ones too."""
    root = schema if root is None else root
    filled = dict(instance)
    properties = _dereferenced(root, schema).get("properties")
    if not isinstance(properties, Mapping):
        return filled
    for name, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        if name not in filled:
            # A default beside the reference overrides the definition's.
            described = inner if "default" in inner else _dereferenced(root, inner)
            if "default" in described:
                filled[name] = copy.deepcopy(described["default"])
        elif isinstance(filled[name], Mapping):
            filled[name] = with_defaults(inner, filled[name], root)
    return filled


def _dereferenced(root: Json, schema: Json) -> Json:
    """Return the definition that a schema refers to, through a bounded chain of references."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith(_DEFINITIONS):
            break
        _, group, name = reference.split("/", 2)
        target = root.get(group, {}).get(walk.name_of(name))
        if not isinstance(target, Mapping):
            break
        schema = target
    return schema


# The usual schemas.

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


def is_usual(schema: Any) -> bool:
    """Whether the metaschema of 2020-12 certainly accepts ``schema``, which is plain JSON.

    The import of jsonschema takes 40 ms, and its metaschema 1 to 3 ms for each small schema; this
    table takes 3 µs. It is stricter: the metaschema decides about every schema that is rejected
    here, and explains the error.
    """
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
