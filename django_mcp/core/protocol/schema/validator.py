"""Validate values with jsonschema, and describe violations in sentences.

``compiler`` imports this module when a schema first needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from jsonschema.exceptions import best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import steps, walk
from django_mcp.core.protocol.schema.keywords import (
    KEYWORDS,
    SchemaViolation,
    bounded,
    is_long,
    link,
    shown,
)
from django_mcp.core.protocol.schema.steps import MAX_STEPS
from django_mcp.core.protocol.schema.walk import MAX_DEPTH, MAX_SUBSCHEMAS

MAX_PROBLEMS = 5
"""Violations that are described; more are mentioned as "and more"."""
MAX_SENTENCE = 300
"""Characters of a sentence."""


def prepare(schema: Json, dialect: str) -> Callable[[Any, str, int], list[str]]:
    """Check a schema, which is plain JSON, and return ``Validator.errors`` for it.

    Raises ValueError with the errors of the schema.
    """
    _check_against_metaschema(schema, dialect)
    # jsonschema would replace our keywords by its own wherever it met the dialect named again.
    body = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    _check_references(body, dialect)
    validator = _validator_of(dialect)(body, registry=Registry())

    def errors(instance: Any, name: str, max_steps: int) -> list[str]:
        steps.begin(max_steps)
        try:
            first_errors = list(islice(validator.iter_errors(instance), MAX_PROBLEMS + 1))
            sentences = [_sentence(error, name) for error in first_errors[:MAX_PROBLEMS]]
        except (RecursionError, ArithmeticError, ValueError, re.error, Unresolvable):
            problem = "cannot be checked, for it is nested too deeply or a number is too big"
            return [f"{name}: {problem}"]
        different = list(dict.fromkeys(sentences))
        return [*different, "and more"] if len(first_errors) > MAX_PROBLEMS else different

    return errors


def _check_against_metaschema(schema: Json, dialect: str) -> None:
    # Formats are not checked: the standard's regular expressions are not Python's.
    metaschema = _validator_of(dialect).META_SCHEMA
    validator = validator_for(metaschema)(metaschema, registry=Registry())
    steps.begin(MAX_STEPS)
    error = next(validator.iter_errors(schema), None)
    if error is not None:
        raise ValueError(f"Not a valid JSON Schema: {_sentence(error, 'schema')}") from error


def _check_references(root: Json, dialect: str) -> None:
    """Reject references that do not resolve, are circular, or grow exponentially."""
    specification = specification_with(dialect)
    resource = specification.create_resource(root)
    pending: list[tuple[Json, Any]] = [(root, Registry().resolver_with_root(resource))]
    costs = _Costs(specification)
    seen: set[int] = set()
    while pending:
        schema, resolver = pending.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        costs.of(schema, resolver, frozenset())
        inside = costs.enter(schema, resolver)
        pending += [(child, inside) for _, child in walk.children(schema)]
        pending += _referenced(schema, inside)


class _Costs:
    """How many schemas apply where a schema does: itself, and the ones it refers to.

    A resolver follows references; each schema is entered, since it may have an ``$id``.
    """

    def __init__(self, specification: Any) -> None:
        self._specification = specification
        self._by_id: dict[int, int] = {}

    def enter(self, schema: Json, resolver: Any) -> Any:
        """Return the resolver for the references in ``schema``."""
        return resolver.in_subresource(self._specification.create_resource(schema))

    def of(self, schema: Json, resolver: Any, above: frozenset[int]) -> int:
        """Return the cost of ``schema``; ``above`` are the ids of those that led to it.

        Raises ValueError for a circle, and for a cost beyond the limit.
        """
        if id(schema) in above or len(above) > MAX_DEPTH:
            problem = "go in a circle, or on for too long"
            raise ValueError(f"The references of this JSON Schema {problem}")
        cost = self._by_id.get(id(schema))
        if cost is None:
            cost = 1
            above_applied = above | {id(schema)}
            for applied, inside in self._applied(schema, resolver):
                cost += self.of(applied, inside, above_applied)
            self._by_id[id(schema)] = cost
        if cost > MAX_SUBSCHEMAS:
            raise ValueError(f"More than {MAX_SUBSCHEMAS} parts of this JSON Schema apply at once")
        return cost

    def _applied(self, schema: Json, resolver: Any) -> list[tuple[Json, Any]]:
        """Return the schemas that apply to the same value as ``schema``, with their resolvers."""
        inside = self.enter(schema, resolver)
        children = walk.children(schema)
        applied = [(child, inside) for path, child in children if path[0] in walk.IN_PLACE]
        applied += _referenced(schema, inside)
        return applied


def _referenced(schema: Json, resolver: Any) -> Iterator[tuple[Json, Any]]:
    """Yield the schemas that references point to, with their resolvers."""
    for keyword in walk.REFERENCES:
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


@cache
def _validator_of(dialect: str) -> Any:
    """Return the validator class of a dialect with our keywords; few sites use more than one."""
    base = validator_for({"$schema": dialect})
    keywords = {**base.VALIDATORS, **KEYWORDS}
    bounded_keywords = {name: bounded(name, each) for name, each in keywords.items()}
    return extend(base, bounded_keywords)  # type: ignore[no-untyped-call]


def _sentence(error: Any, name: str) -> str:
    """Return path and problem, such as "lines.0.sku: 1 is not of type 'string'"."""
    link(error)
    error = best_match([error])
    steps_of_path = [
        str(step) if isinstance(step, int) or step.isidentifier() else shown(step)
        for step in error.absolute_path
    ]
    # As pydantic and REST framework name a value: without the container of all values.
    outer = [] if name in WHOLE and steps_of_path else [name]
    text = f"{'.'.join([*outer, *steps_of_path])}: {_problem(error)}"
    return text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…"


WHOLE = ("arguments", "the value")
"""Names of a value that is everything that is validated."""


def _problem(error: Any) -> str:
    """Describe the error of the value; a long value is summarized."""
    value = shown(error.instance)
    types = _alternative_types(error)
    if types:
        return f"{value} is not of type {' or '.join(map(repr, types))}"
    if isinstance(error, SchemaViolation):
        return f"{value} {error.message}"
    message: str = error.message
    if not is_long(error.instance):
        message = message.replace(repr(error.instance), value)
    repeats_value = len(message) > MAX_SENTENCE // 2  # Nothing else makes a message long.
    return f"{value} does not fit {error.validator}" if repeats_value else message


def _alternative_types(error: Any) -> list[str]:
    """Return the types that the alternatives accept, where nothing but the type is wrong."""
    types: list[str] = []
    for inner in error.context:
        if inner.validator != "type" or inner.path:
            return []
        value = inner.validator_value
        types += [value] if isinstance(value, str) else value
    return list(dict.fromkeys(types))
