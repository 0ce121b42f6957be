"""Compiling a JSON Schema once; saying in a sentence what did not fit.

Dialects: 2020-12, which is also the default; ``$schema`` may name 2019-09, draft-07, draft-06 or
draft-04. ``format`` is an annotation and is not enforced. No reference is ever fetched: one which
does not resolve inside the schema is refused when it is compiled, and so are references in
circles and schemas too large or too deep.

Hostile values cannot make checking slow (``schema_keywords`` says how), unless a recursive schema
applies itself twice to the same child.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend, validator_for
from pydantic_core import from_json, to_json
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema_keywords import KEYWORDS, Complaint, search, shown
from django_mcp.protocol.well_formed import is_well_formed

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"

MAX_DEPTH = 64
# Of a schema as written, and of those which apply to one value through allOf, $ref and the like.
MAX_SUBSCHEMAS = 2000

MAX_PROBLEMS = 5
MAX_SENTENCE = 300

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
_IN_PLACE = frozenset({
    "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then",
})
# fmt: on
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Position(NamedTuple):
    """A schema inside a schema, and the keywords, names and indexes which lead to it."""

    location: tuple[str | int, ...]
    schema: Json


@dataclass(frozen=True, slots=True, eq=False)
class Validator:
    """A compiled schema. ``schema`` is as it was written, and is what to publish."""

    schema: Json
    dialect: str
    _checker: Any = field(repr=False)

    def errors(self, instance: Any, *, name: str = "arguments") -> list[str]:
        """A sentence for each of the first few things that do not fit; nothing if all fits.

        ``name`` is what the sentences call the instance. They echo no long values.
        """
        try:
            found = list(islice(self._checker.iter_errors(instance), MAX_PROBLEMS + 1))
            return _sentences(found, name) if found else []
        except _UNCHECKABLE:
            return [
                f"{name}: cannot be checked, for it is nested too deeply or a number is too big"
            ]

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
    _check_against_metaschema(plain, dialect)
    # jsonschema would leave our keywords for its own wherever it met the dialect named again.
    body = {keyword: value for keyword, value in plain.items() if keyword != "$schema"}
    _check_references(body, dialect)
    return Validator(plain, dialect, _checker_of(dialect)(body, registry=Registry()))


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


def walk(schema: Json) -> Iterator[Position]:
    """Every schema inside ``schema``, itself first; ValueError where they are too many."""
    pending = [(Position((), schema), 1)]
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
            (Position((*position.location, *steps), child), depth + 1)
            for steps, child in _children(position.schema)
        ]
        pending += reversed(inner)


def _children(schema: Json) -> Iterator[tuple[tuple[str | int, ...], Json]]:
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


def _dialect(schema: Json) -> str:
    named = schema.get("$schema", DEFAULT_DIALECT)
    if not isinstance(named, str) or named.removesuffix("#") not in _DIALECTS:
        known = ", ".join(_DIALECTS)
        raise ValueError(f"The JSON Schema dialect {named!r} is not supported; these are: {known}")
    return named.removesuffix("#")


def _check_against_metaschema(schema: Json, dialect: str) -> None:
    if dialect == DEFAULT_DIALECT and is_well_formed(schema):
        return
    # Formats are left unchecked: Python's idea of a regular expression is not the standard's.
    metaschema = _checker_of(dialect).META_SCHEMA
    checker = validator_for(metaschema)(metaschema, registry=Registry())
    error = next(checker.iter_errors(schema), None)
    if error is not None:
        raise ValueError(f"Not a valid JSON Schema: {_sentence(error, 'schema')}") from error


def _check_references(root: Json, dialect: str) -> None:
    """Every reference resolves here, goes in no circle and, with others, in no explosion."""
    specification = specification_with(dialect)
    resource = specification.create_resource(root)
    pending: list[tuple[Json, Any]] = [(root, Registry().resolver_with_root(resource))]
    costs: dict[int, int] = {}
    seen: set[int] = set()

    def enter(schema: Json, resolver: Any) -> Any:
        return resolver.in_subresource(specification.create_resource(schema))

    def cost(schema: Json, resolver: Any, above: frozenset[int]) -> int:
        """How many schemas apply to a value when this one does."""
        if id(schema) in above or len(above) > MAX_DEPTH:
            raise ValueError(
                "The references of this JSON Schema go in a circle, or on for too long"
            )
        if id(schema) not in costs:
            applied = _applied(schema, enter(schema, resolver))
            below = above | {id(schema)}
            costs[id(schema)] = 1 + sum(cost(*target, below) for target in applied)
        if costs[id(schema)] > MAX_SUBSCHEMAS:
            raise ValueError(f"More than {MAX_SUBSCHEMAS} parts of this JSON Schema apply at once")
        return costs[id(schema)]

    while pending:
        schema, resolver = pending.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        cost(schema, resolver, frozenset())
        inside = enter(schema, resolver)
        pending += [(child, inside) for _, child in _children(schema)]
        pending += _referenced(schema, inside)


def _applied(schema: Json, resolver: Any) -> Iterator[tuple[Json, Any]]:
    for steps, child in _children(schema):
        if steps[0] in _IN_PLACE:
            yield child, resolver
    yield from _referenced(schema, resolver)


def _referenced(schema: Json, resolver: Any) -> Iterator[tuple[Json, Any]]:
    for keyword in _REFERENCES:
        reference = schema.get(keyword)
        if not isinstance(reference, str):
            continue
        try:
            target = resolver.lookup(reference)
        except Unresolvable as error:
            raise ValueError(
                f"The reference {reference!r} does not resolve inside this JSON Schema, and "
                "references are never fetched: put what it names under $defs"
            ) from error
        if isinstance(target.contents, Mapping):
            yield target.contents, target.resolver
        elif not isinstance(target.contents, bool):
            raise ValueError(f"The reference {reference!r} names no schema")


_DIALECTS: Mapping[str, Any] = {
    checker.META_SCHEMA["$schema"].removesuffix("#"): checker
    for checker in (
        jsonschema.Draft202012Validator,
        jsonschema.Draft201909Validator,
        jsonschema.Draft7Validator,
        jsonschema.Draft6Validator,
        jsonschema.Draft4Validator,
    )
}


@cache
def _checker_of(dialect: str) -> Any:
    """The dialect with our keywords; made when first asked for, since few sites use more than one."""
    return extend(_DIALECTS[dialect], KEYWORDS)  # type: ignore[no-untyped-call]


_UNCHECKABLE = (RecursionError, ArithmeticError, ValueError, re.error, Unresolvable)


# Sentences.


def _sentences(errors: Sequence[Any], name: str) -> list[str]:
    sentences = list(dict.fromkeys(_sentence(error, name) for error in errors[:MAX_PROBLEMS]))
    return [*sentences, "and more"] if len(errors) > MAX_PROBLEMS else sentences


def _sentence(error: Any, name: str) -> str:
    """Where, and what: "arguments.age: 'x' is not of type 'integer'"."""
    error = best_match([error])
    return _cut(f"{name}{_path(error.absolute_path)}: {_text(error)}", MAX_SENTENCE)


def _text(error: Any) -> str:
    value = shown(error.instance)
    types = _alternative_types(error)
    if types:
        return f"{value} is not of type {' or '.join(map(repr, types))}"
    if isinstance(error, Complaint):
        return f"{value} {error.message}"
    message: str = error.message.replace(repr(error.instance), value)
    # A long one repeats some part of the value.
    return (
        message if len(message) <= MAX_SENTENCE // 2 else f"{value} does not fit {error.validator}"
    )


def _alternative_types(error: Any) -> list[str]:
    """What the alternatives would take here, when nothing but the type is wrong."""
    types: list[str] = []
    for inner in error.context:
        if inner.validator != "type" or inner.path:
            return []
        value = inner.validator_value
        types += [value] if isinstance(value, str) else value
    return list(dict.fromkeys(types))


def _path(steps: Any) -> str:
    return "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{shown(step)}]"
        for step in steps
    )


def _pointer(location: tuple[str | int, ...]) -> str:
    return "/".join(("#", *map(str, location)))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


# Reshaping.


def _survives_wrapping(position: Position) -> bool:
    """Whether the references of this schema still hold when the root moves down."""
    references = [position.schema.get(keyword) for keyword in _REFERENCES]
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
