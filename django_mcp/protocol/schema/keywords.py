"""Keywords of JSON Schema in versions of our own, whose time no stranger can choose.

jsonschema's repeat the whole value in every complaint, collect every complaint of every
alternative, compare list items pair by pair, and run patterns on Python's regular expressions.
These run patterns on pydantic's, which are linear in the text. A pattern with look-around or
back-references, which those lack, still runs on Python's, but there no long text fits it.
What remains: ``patternProperties`` as ``unevaluatedProperties`` sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema.regex import search


class SchemaViolation(ValidationError):
    """What is wrong with a value, without the value: whoever shows it puts that first."""


SchemaViolations = Iterator[ValidationError]

MAX_VIOLATIONS = 5
_MAX_SHOWN = 60


def shown(value: Any) -> str:
    """The value, unless it is long."""
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return f"a text of {len(value)} characters"
    text = repr(value)
    if len(text) <= _MAX_SHOWN:
        return text
    if isinstance(value, list | dict):
        return (
            f"a list of {len(value)}" if isinstance(value, list) else f"an object of {len(value)}"
        )
    return "a long value"


def _type(checker: Any, types: Any, instance: Any, schema: Json) -> SchemaViolations:
    allowed = (types,) if isinstance(types, str) else types
    if not any(checker.is_type(instance, each) for each in allowed):
        yield SchemaViolation(f"is not of type {' or '.join(map(repr, allowed))}")


def _enum(checker: Any, values: Sequence[Any], instance: Any, schema: Json) -> SchemaViolations:
    mine = _hashable(instance)
    if all(_hashable(each) != mine for each in values):
        yield SchemaViolation(f"is not one of {values!r}")


def _const(checker: Any, value: Any, instance: Any, schema: Json) -> SchemaViolations:
    if _hashable(value) != _hashable(instance):
        yield SchemaViolation(f"is not {value!r}")


def _pattern(checker: Any, pattern: str, instance: Any, schema: Json) -> SchemaViolations:
    if isinstance(instance, str) and not search(pattern)(instance):
        yield SchemaViolation(f"does not match {pattern!r}")


def _unique_items(checker: Any, unique: bool, instance: Any, schema: Json) -> SchemaViolations:
    if not unique or not isinstance(instance, list):
        return
    if len({_hashable(item) for item in instance}) < len(instance):
        yield SchemaViolation("has the same element more than once")


def _any_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> SchemaViolations:
    context: list[ValidationError] = []
    for index, option in enumerate(options):
        complaints = _first(checker, option, instance, index)
        if not complaints:
            return
        context += complaints
    yield SchemaViolation("fits none of the alternatives", context=context)


def _one_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> SchemaViolations:
    context: list[ValidationError] = []
    fitting = 0
    for index, option in enumerate(options):
        complaints = _first(checker, option, instance, index)
        context += complaints
        fitting += not complaints
    if not fitting:
        yield SchemaViolation("fits none of the alternatives", context=context)
    elif fitting > 1:
        yield SchemaViolation("fits more than one of the alternatives, which exclude each other")


def _first(checker: Any, schema: Any, instance: Any, index: int) -> list[ValidationError]:
    return list(islice(checker.descend(instance, schema, schema_path=index), MAX_VIOLATIONS))


def _properties(checker: Any, properties: Json, instance: Any, schema: Json) -> SchemaViolations:
    if not isinstance(instance, dict):
        return
    for name, inner in properties.items():
        if name not in instance:
            continue
        if inner is False:
            yield ValidationError(f"{name!r} is not allowed")
        else:
            yield from checker.descend(instance[name], inner, path=name, schema_path=name)


def _pattern_properties(
    checker: Any, patterns: Json, instance: Any, schema: Json
) -> SchemaViolations:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        fits = search(pattern)
        for name, value in instance.items():
            if fits(name):
                yield from checker.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(
    checker: Any, extra: Any, instance: Any, schema: Json
) -> SchemaViolations:
    if not isinstance(instance, dict):
        return
    names = list(_additional(instance, schema))
    if extra is False:
        if names:
            listed = ", ".join(map(shown, names[:MAX_VIOLATIONS]))
            yield ValidationError(f"Additional properties are not allowed: {listed}")
        return
    for name in names:
        yield from checker.descend(instance[name], extra, path=name)


def _additional(instance: Json, schema: Json) -> Iterator[str]:
    known = schema.get("properties", ())
    patterns = [search(pattern) for pattern in schema.get("patternProperties", ())]
    for name in instance:
        if name not in known and not any(fits(name) for fits in patterns):
            yield name


def _hashable(value: Any) -> Hashable:
    """Equal for equal JSON, where 1 is 1.0 and is not true."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(inner)) for name, inner in value.items())
    return value  # type: ignore[no-any-return]  # JSON has no other unhashable value


KEYWORDS: Mapping[str, Callable[..., SchemaViolations]] = {
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "const": _const,
    "enum": _enum,
    "oneOf": _one_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "properties": _properties,
    "type": _type,
    "uniqueItems": _unique_items,
}
