"""Compile a JSON Schema once; the Validator describes in sentences what does not match it.

``format`` is an annotation and is not enforced. References are never fetched: compiling rejects
those that do not resolve inside the schema or are circular, and a schema that is too large or deep.
Hostile values cannot make validation slow: it takes a bounded number of steps (see ``keywords``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from pydantic_core import from_json, to_json

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema import metaschema, walk
from django_mcp.protocol.schema.regex import search
from django_mcp.protocol.schema.steps import MAX_STEPS
from django_mcp.protocol.schema.walk import MAX_DEPTH, MAX_SUBSCHEMAS, SchemaPosition
from django_mcp.protocol.texts import json_fallback

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIALECTS = (
    DEFAULT_DIALECT,
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
_DEFINITIONS = ("#/$defs/", "#/definitions/")
_AS_OBJECT: Mapping[bool, Json] = {True: {}, False: {"not": {}}}


@dataclass(frozen=True, eq=False)
class Validator:
    """A compiled schema. ``schema`` is the schema as written, to be listed to clients."""

    schema: Json
    dialect: str

    @cached_property
    def _errors(self) -> Callable[[Any, str, int], list[str]]:
        # The import of jsonschema takes 40 ms, and few sites need it at their start.
        validator = import_module("django_mcp.protocol.schema.validator")
        errors: Callable[..., list[str]] = validator.prepare(self.schema, self.dialect)
        return errors

    def errors(
        self, instance: Any, *, name: str = "arguments", max_steps: int = MAX_STEPS
    ) -> list[str]:
        """Return a sentence for each of the first violations; an empty list if there is none.

        ``name`` is what the sentences call the instance. They do not repeat long values.
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
    _check_subschemas(schema)
    plain = _plain(schema)
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
    moved = {k: v for k, v in schema.items() if k in ("$schema", "$defs", "definitions")}
    kept = {k: v for k, v in schema.items() if k not in moved}
    return {**moved, "type": "object", "properties": {key: kept}, "required": [key]}


def without_boolean_properties(schema: Json) -> Json:
    """Return ``schema`` with equivalent objects in place of properties that are true or false."""
    properties = schema.get("properties", {})
    named = {name: _AS_OBJECT[each] for name, each in properties.items() if isinstance(each, bool)}
    return {**schema, "properties": {**properties, **named}} if named else schema


def _check_subschemas(schema: Json) -> None:
    is_evaluated = any("unevaluatedProperties" in inner for _, inner in walk.subschemas(schema))
    for location, inner in walk.subschemas(schema):
        if location and "$schema" in inner:
            where = walk.pointer(location)
            raise ValueError(f"$schema inside a JSON Schema, at {where}: name it at the root only")
        by_pattern = inner.get("patternProperties")
        for pattern in (
            inner.get("pattern"),
            *(by_pattern if isinstance(by_pattern, Mapping) else ()),
        ):
            if isinstance(pattern, str):
                search(pattern)
        if is_evaluated and any(set("*+{") & set(pattern) for pattern in by_pattern or ()):
            # jsonschema runs them on an engine whose time grows exponentially.
            raise ValueError(
                "unevaluatedProperties needs patternProperties without repetitions: write "
                '"^x-" instead of "^x-.*", or use additionalProperties'
            )


def _plain(schema: Json) -> dict[str, Any]:
    """Return a copy that consists of JSON, so that the original can change."""
    try:
        return dict(from_json(to_json(dict(schema), fallback=json_fallback), allow_inf_nan=False))
    except ValueError as error:
        raise ValueError(f"A JSON Schema holds nothing but JSON: {error}") from error


def _dialect(schema: Json) -> str:
    named = schema.get("$schema", DEFAULT_DIALECT)
    if not isinstance(named, str) or named.removesuffix("#") not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise ValueError(f"The JSON Schema dialect {named!r} is not supported; these are: {known}")
    return named.removesuffix("#")


def _is_certainly_valid(schema: Json, dialect: str) -> bool:
    if dialect != DEFAULT_DIALECT or not metaschema.is_usual(schema):
        return False
    positions = [*walk.subschemas(schema)]
    referring = [position for position in positions if "$ref" in position.schema]
    return not referring or _are_harmless(referring, schema, len(positions))


def _are_harmless(referring: Sequence[SchemaPosition], root: Json, size: int) -> bool:
    """Whether references are few and lead to definitions without any, so that none is circular."""
    targets = {f"#/$defs/{name}" for name in root.get("$defs", ()) if name.isidentifier()}
    is_small = size <= MAX_DEPTH and (len(referring) + 1) * size <= MAX_SUBSCHEMAS
    return is_small and all(
        position.schema["$ref"] in targets and "$defs" not in position.location
        for position in referring
    )


def _survives_wrapping(position: SchemaPosition) -> bool:
    """Whether the references of this schema stay valid when the root moves down."""
    references = [str(position.schema.get(keyword)) for keyword in walk.REFERENCES]
    to_root = [each for each in references if each == "#" or each.startswith("#/")]
    return all(each.startswith(_DEFINITIONS) for each in to_root)


def with_defaults(schema: Json, instance: Json, root: Json | None = None) -> dict[str, Any]:
    """Return a copy of ``instance`` with the defaults of missing properties, nested ones too."""
    root = schema if root is None else root
    filled = dict(instance)
    properties = _dereferenced(root, schema).get("properties")
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(inner, Mapping):
            continue
        if name not in filled:
            target = inner if "default" in inner else _dereferenced(root, inner)
            if "default" in target:
                filled[name] = copy.deepcopy(target["default"])
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
        target = root.get(group, {}).get(name.replace("~1", "/").replace("~0", "~"))
        if not isinstance(target, Mapping):
            break
        schema = target
    return schema
