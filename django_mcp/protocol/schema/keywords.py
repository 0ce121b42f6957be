"""Keywords of JSON Schema whose run time is bounded for hostile values.

Those of jsonschema repeat the whole value in every error, collect every error of every alternative,
compare list items pair by pair, and run patterns on Python's ``re``. Not covered:
``patternProperties`` as ``unevaluatedProperties`` evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError

from django_mcp.protocol.errors import Json
from django_mcp.protocol.schema.regex import search


class SchemaViolation(ValidationError):
    """An error whose message lacks its subject, the value."""


Violations = Iterator[ValidationError]

MAX_VIOLATIONS = 5
_MAX_SHOWN = 60


def shown(value: Any) -> str:
    """Return the value, or a summary of a long one."""
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return f"a text of {len(value)} characters"
    text = repr(value)
    if len(text) <= _MAX_SHOWN:
        return text
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return "a long value"


def _type(checker: Any, types: Any, instance: Any, schema: Json) -> Violations:
    allowed = (types,) if isinstance(types, str) else types
    if not any(checker.is_type(instance, each) for each in allowed):
        yield SchemaViolation(f"is not of type {' or '.join(map(repr, allowed))}")


def _enum(checker: Any, values: Sequence[Any], instance: Any, schema: Json) -> Violations:
    if _hashable(instance) not in map(_hashable, values):
        yield SchemaViolation(f"is not one of {values!r}")


def _const(checker: Any, value: Any, instance: Any, schema: Json) -> Violations:
    if _hashable(value) != _hashable(instance):
        yield SchemaViolation(f"is not {value!r}")


def _pattern(checker: Any, pattern: str, instance: Any, schema: Json) -> Violations:
    if isinstance(instance, str) and not search(pattern)(instance):
        yield SchemaViolation(f"does not match {pattern!r}")


def _unique_items(checker: Any, unique: bool, instance: Any, schema: Json) -> Violations:
    is_restricted = unique and isinstance(instance, list)
    if is_restricted and len({_hashable(item) for item in instance}) < len(instance):
        yield SchemaViolation("has the same element more than once")


def _any_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> Violations:
    context: list[ValidationError] = []
    for index, option in enumerate(options):
        errors = _first_errors(checker, option, instance, index)
        if not errors:
            return
        context += errors
    yield SchemaViolation("fits none of the alternatives", context=context)


def _one_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> Violations:
    errors = [_first_errors(checker, each, instance, index) for index, each in enumerate(options)]
    matching = errors.count([])
    if not matching:
        yield SchemaViolation("fits none of the alternatives", context=sum(errors, []))
    elif matching > 1:
        yield SchemaViolation("fits more than one of the alternatives, which exclude each other")


def _first_errors(checker: Any, schema: Any, instance: Any, index: int) -> list[ValidationError]:
    return list(islice(checker.descend(instance, schema, schema_path=index), MAX_VIOLATIONS))


def _properties(checker: Any, properties: Json, instance: Any, schema: Json) -> Violations:
    members = instance if isinstance(instance, dict) else {}
    for name, inner in properties.items():
        if name in members and inner is False:
            yield ValidationError(f"{name!r} is not allowed")
        elif name in members:
            yield from checker.descend(members[name], inner, path=name, schema_path=name)


def _pattern_properties(checker: Any, patterns: Json, instance: Any, schema: Json) -> Violations:
    items = instance.items() if isinstance(instance, dict) else ()
    for pattern, inner in patterns.items():
        matches = search(pattern)
        for name, value in items:
            if matches(name):
                yield from checker.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(checker: Any, extra: Any, instance: Any, schema: Json) -> Violations:
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", ())
    patterns = [search(pattern) for pattern in schema.get("patternProperties", ())]
    names = [n for n in instance if n not in known and not any(match(n) for match in patterns)]
    if names and extra is False:
        listed = ", ".join(map(shown, names[:MAX_VIOLATIONS]))
        yield ValidationError(f"Additional properties are not allowed: {listed}")
        return
    for name in names:
        yield from checker.descend(instance[name], extra, path=name)


def _hashable(value: Any) -> Hashable:
    """Return a value that is equal for equal JSON: 1 equals 1.0 but not true."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(inner)) for name, inner in value.items())
    return value  # type: ignore[no-any-return]  # JSON has no other unhashable value


KEYWORDS: Mapping[str, Callable[..., Violations]] = {
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
