"""Checking values against a JSON Schema with jsonschema, and saying in a sentence what did not fit.

It is loaded when it is first needed (by ``json_schema``): jsonschema and what it is made of take
as long to import as all of pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema.compiler import (
    IN_PLACE,
    MAX_DEPTH,
    MAX_SUBSCHEMAS,
    REFERENCES,
    children,
)
from django_mcp.protocol.schema.keywords import KEYWORDS, SchemaViolation, shown

MAX_PROBLEMS = 5
MAX_SENTENCE = 300


@dataclass(frozen=True, slots=True, eq=False)
class Checker:
    """A schema as jsonschema knows it."""

    _validator: Any

    def errors(self, instance: Any, name: str) -> list[str]:
        """A sentence for each of the first few things that do not fit; nothing if all fits."""
        try:
            found = list(islice(self._validator.iter_errors(instance), MAX_PROBLEMS + 1))
            return _sentences(found, name) if found else []
        except _UNCHECKABLE:
            return [
                f"{name}: cannot be checked, for it is nested too deeply or a number is too big"
            ]


def checker(schema: Json, dialect: str) -> Checker:
    """Check a schema, which is plain JSON, and make it ready; ValueError says what is wrong."""
    _check_against_metaschema(schema, dialect)
    # jsonschema would leave our keywords for its own wherever it met the dialect named again.
    body = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    _check_references(body, dialect)
    return Checker(_validator_of(dialect)(body, registry=Registry()))


def _check_against_metaschema(schema: Json, dialect: str) -> None:
    # Formats are left unchecked: Python's idea of a regular expression is not the standard's.
    metaschema = _validator_of(dialect).META_SCHEMA
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
        pending += [(child, inside) for _, child in children(schema)]
        pending += _referenced(schema, inside)


def _applied(schema: Json, resolver: Any) -> Iterator[tuple[Json, Any]]:
    for steps, child in children(schema):
        if steps[0] in IN_PLACE:
            yield child, resolver
    yield from _referenced(schema, resolver)


def _referenced(schema: Json, resolver: Any) -> Iterator[tuple[Json, Any]]:
    for keyword in REFERENCES:
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
def _validator_of(dialect: str) -> Any:
    """The dialect with our keywords; made when asked for, since few sites use more than one."""
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
    if isinstance(error, SchemaViolation):
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


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
