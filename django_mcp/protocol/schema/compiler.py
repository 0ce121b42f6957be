"""Compiling a JSON Schema once; ``json_checker`` says in a sentence what does not fit it.

Dialects: 2020-12, which is also the default; ``$schema`` may name 2019-09, draft-07, draft-06 or
draft-04. ``format`` is an annotation and is not enforced. No reference is ever fetched: one which
does not resolve inside the schema is refused when it is compiled, and so are references in
circles and schemas too large or too deep.

Hostile values cannot make checking slow (``schema_keywords`` says how), unless a recursive schema
applies itself twice to the same child.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema.regex import search
from django_mcp.protocol.well_formed import is_well_formed

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIALECTS = (
    DEFAULT_DIALECT,
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)

MAX_DEPTH = 64
# Of a schema as written, and of those which apply to one value through allOf, $ref and the like.
MAX_SUBSCHEMAS = 2000

# The keywords in which a schema holds further schemas: one, a list of them, or several by name.
# fmt: off
_SINGLE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
    "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})
_LISTED = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset({
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
})

# Those which apply to the very value that the schema itself applies to.
IN_PLACE = frozenset({
    "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then",
})
# fmt: on
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaPosition(NamedTuple):
    """A schema inside a schema, and the keywords, names and indexes which lead to it."""

    location: tuple[str | int, ...]
    schema: Json


@dataclass(frozen=True, slots=True, eq=False)
class Validator:
    """A compiled schema. ``schema`` is as it was written, and is what to publish."""

    schema: Json
    dialect: str
    _errors: Callable[[Any, str], list[str]] = field(repr=False)

    def errors(self, instance: Any, *, name: str = "arguments") -> list[str]:
        """A sentence for each of the first few things that do not fit; nothing if all fits.

        ``name`` is what the sentences call the instance. They echo no long values.
        """
        return self._errors(instance, name)

    def problems(self, instance: Any, *, name: str = "arguments") -> str:
        """The same as one text, which is empty if all fits."""
        return "; ".join(self.errors(instance, name=name))


def compile(schema: Json, *, root_object: bool = False) -> Validator:
    """Check a schema and make it ready for use; ValueError says what to change in it.

    ``root_object`` demands "type": "object" at the root, as tools do of their input.
    """
    _check_positions(schema)
    plain = _plain(schema)
    if root_object and not is_object_root(plain):
        raise ValueError('The root of this JSON Schema must be an object: add "type": "object"')
    dialect = _dialect(plain)

    @cache
    def checker() -> Any:
        # jsonschema takes a tenth of a site's start to import, and few tools need it.
        return import_module("django_mcp.protocol.schema.validator").checker(plain, dialect)

    if not _is_certainly_valid(plain, dialect):
        checker()
    return Validator(plain, dialect, lambda instance, name: checker().errors(instance, name))


def is_object_root(schema: Json) -> bool:
    """Whether the schema says outright that what fits it is an object."""
    return bool(schema.get("type") == "object")


def to_object_root(schema: Json, *, key: str = "result") -> Json | None:
    """The schema itself if it is for objects, else one for ``{key: value}`` around it.

    Definitions move to the new root, so that references to them still hold. None where others
    would break: those to the root or into it, and any if the root has an ``$id`` of its own.
    """
    if is_object_root(schema):
        return schema
    if "$id" in schema or "id" in schema or not all(map(_survives_wrapping, walk(schema))):
        return None
    moved = {k: v for k, v in schema.items() if k in ("$schema", "$defs", "definitions")}
    kept = {k: v for k, v in schema.items() if k not in moved}
    return {**moved, "type": "object", "properties": {key: kept}, "required": [key]}


def with_defaults(schema: Json, instance: Json) -> dict[str, Any]:
    """A copy of ``instance`` with the defaults of the properties it lacks, nested ones too."""
    return _filled(schema, schema, instance)


def walk(schema: Json) -> Iterator[SchemaPosition]:
    """Every schema inside ``schema``, itself first; ValueError where they are too many."""
    pending = [(SchemaPosition((), schema), 1)]
    seen = 0
    while pending:
        position, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_SUBSCHEMAS:
            raise ValueError(
                f"This JSON Schema is too large: at most {MAX_SUBSCHEMAS} schemas, "
                f"at most {MAX_DEPTH} inside each other"
            )
        yield position
        inner = [
            (SchemaPosition((*position.location, *steps), child), depth + 1)
            for steps, child in children(position.schema)
        ]
        pending += reversed(inner)


def children(schema: Json) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """The schemas right inside ``schema``, and the steps which lead to each."""
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, Mapping):
            for name, child in value.items():
                if isinstance(child, Mapping):
                    yield (keyword, name), child
        elif keyword in _LISTED and isinstance(value, list | tuple):
            for index, child in enumerate(value):
                if isinstance(child, Mapping):
                    yield (keyword, index), child
        elif keyword in _SINGLE and isinstance(value, Mapping):
            yield (keyword,), value


# Compiling.


def _check_positions(schema: Json) -> None:
    for location, inner in walk(schema):
        if location and "$schema" in inner:
            raise ValueError(
                f"$schema inside a JSON Schema, at {_pointer(location)}: name it at the root only"
            )
        patterns = [*_strings(inner.get("patternProperties")), *_strings([inner.get("pattern")])]
        for pattern in patterns:
            search(pattern)


def _strings(values: Any) -> Iterator[str]:
    if isinstance(values, list | Mapping):
        yield from (value for value in values if isinstance(value, str))


def _plain(schema: Json) -> dict[str, Any]:
    """A copy made of nothing but JSON, so that later changes of the original go unseen."""
    try:
        plain: dict[str, Any] = from_json(to_json(dict(schema)), allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"A JSON Schema holds nothing but JSON: {error}") from error
    return plain


def _pointer(location: tuple[str | int, ...]) -> str:
    return "/".join(("#", *map(str, location)))


def _dialect(schema: Json) -> str:
    named = schema.get("$schema", DEFAULT_DIALECT)
    if not isinstance(named, str) or named.removesuffix("#") not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise ValueError(f"The JSON Schema dialect {named!r} is not supported; these are: {known}")
    return named.removesuffix("#")


def _is_certainly_valid(schema: Json, dialect: str) -> bool:
    """Whether it is clear without jsonschema that nothing is wrong with this schema."""
    if dialect != DEFAULT_DIALECT or not is_well_formed(schema):
        return False
    positions = [*walk(schema)]
    referring = [position for position in positions if "$ref" in position.schema]
    return not referring or _are_harmless(referring, schema, len(positions))


def _are_harmless(referring: Sequence[SchemaPosition], root: Json, size: int) -> bool:
    """Whether references lead to definitions which refer to nothing, and are few.

    Then they go in no circle and not on for too long, and never explode.
    """
    targets = {f"#/$defs/{name}" for name in root.get("$defs", ()) if name.isidentifier()}
    is_small = size <= MAX_DEPTH and (len(referring) + 1) * size <= MAX_SUBSCHEMAS
    return is_small and all(
        position.schema["$ref"] in targets and "$defs" not in position.location
        for position in referring
    )


# Reshaping.


def _survives_wrapping(position: SchemaPosition) -> bool:
    """Whether the references of this schema still hold when the root moves down."""
    references = [position.schema.get(keyword) for keyword in REFERENCES]
    return not any(
        isinstance(reference, str)
        and (reference == "#" or reference.startswith("#/"))
        and not reference.startswith(("#/$defs/", "#/definitions/"))
        for reference in references
    )


def _filled(root: Json, schema: Json, instance: Json) -> dict[str, Any]:
    filled = dict(instance)
    properties = _followed(root, schema).get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(inner, Mapping):
            continue
        if name not in filled:
            target = inner if "default" in inner else _followed(root, inner)
            if "default" in target:
                filled[name] = copy.deepcopy(target["default"])
        elif isinstance(filled[name], Mapping):
            filled[name] = _filled(root, inner, filled[name])
    return filled


def _followed(root: Json, schema: Json) -> Json:
    """The definition which a schema refers to, through a bounded number of others."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith(
            ("#/$defs/", "#/definitions/")
        ):
            break
        _, group, name = reference.split("/", 2)
        target = root.get(group, {}).get(name.replace("~1", "/").replace("~0", "~"))
        if not isinstance(target, Mapping):
            break
        schema = target
    return schema
