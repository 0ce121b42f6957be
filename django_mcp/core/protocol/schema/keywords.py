"""Keywords of JSON Schema with a bounded run time for hostile values.

The keywords of jsonschema repeat the whole value in every error, collect every error of every
alternative, compare list items pair by pair, and run patterns on Python's ``re``. Those in
``KEYWORDS`` replace them. ``bounded`` makes each keyword take steps; a validation has a limited
number of them (see ``steps``). Long values take additional steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError

from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.schema import steps
from django_mcp.core.protocol.schema.steps import search, spend


class SchemaViolation(ValidationError):
    """An error with a message that lacks its subject, the value."""


Violations = Iterator[ValidationError]

MAX_VIOLATIONS = 5
MAX_CONTEXT = 20
"""Errors of alternatives, inner ones included, which are kept until one of them is shown."""
_MAX_SHOWN = 60
"""Characters of a value that a message repeats; a longer value is summarized."""
_MAX_ENUMS = 1024
"""Lists of ``enum``, with cached keys of their values."""
_COST = {"$ref": 5, "$dynamicRef": 5, "$recursiveRef": 5}
"""Steps of the keywords that take longer than others."""
_COST_OF_ERROR = 3
"""Steps of making an error."""
# fmt: off
_SHOW_INSTANCE = frozenset({
    "contains", "maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties",
    "not",
})
# fmt: on
"""The keywords of jsonschema that write the whole value into their errors."""
_QUADRATIC = frozenset({"unevaluatedItems", "unevaluatedProperties"})
"""The keywords of jsonschema that compare the members of a value pair by pair."""
# fmt: off
_OF_MEMBERS = frozenset({
    "additionalItems", "additionalProperties", "items", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties",
})
# fmt: on
"""The keywords that apply one schema to many members of a value."""


def bounded(name: str, keyword: Callable[..., Violations | None]) -> Callable[..., Violations]:
    """Return ``keyword`` so that it takes steps and repeats no long value."""
    cost = _COST.get(name, 1)
    if name in _COST:
        keyword = steps.nested(keyword)

    def apply(checker: Any, value: Any, instance: Any, schema: Json) -> Violations:
        if name in _OF_MEMBERS and accepts_anything(checker, value):
            return
        spend(cost)
        if name in _QUADRATIC and isinstance(instance, list | dict):
            spend(len(instance) ** 2 // 64)
        if name in _SHOW_INSTANCE and is_long(instance):
            spend(len(instance) >> 6)
            instance = _SUMMARIZED[type(instance)](instance)
        for error in keyword(checker, value, instance, schema) or ():
            spend(_COST_OF_ERROR)
            yield error

    return apply


def accepts_anything(checker: Any, schema: Any) -> bool:
    """Whether a schema has no keyword that can reject a value: its members need not be visited.

    ``format`` is an annotation here.
    """
    if not isinstance(schema, Mapping):
        return schema is True
    return not (schema.keys() - {"format"}) & checker.VALIDATORS.keys()


def shown(value: Any) -> str:
    """Return the value, or a summary of a long one."""
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return f"a text of {len(value)} characters"
    if not is_long(value):
        text = repr(value)
        if len(text) <= _MAX_SHOWN:
            return text
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    return "a long value"


def is_long(value: Any) -> bool:
    """Whether a text, a list or an object is certainly too long to be shown."""
    pending = [value]
    size = 0
    for item in pending:
        if isinstance(item, str | list | dict):
            size += len(item)
            if size > _MAX_SHOWN:
                return True
            if isinstance(item, list):
                pending += item
            elif isinstance(item, dict):
                pending += [*item, *item.values()]
    return False


class _LongText(str):
    __repr__ = shown


class _LongList(list[Any]):
    __repr__ = shown


class _LongObject(dict[str, Any]):
    __repr__ = shown


_SUMMARIZED: Mapping[type, Callable[[Any], Any]]
_SUMMARIZED = {str: _LongText, list: _LongList, dict: _LongObject}
"""Types of long values that are written as their summary."""


def _type(checker: Any, types: Any, instance: Any, schema: Json) -> Violations:
    allowed = (types,) if isinstance(types, str) else types
    if not any(checker.is_type(instance, each) for each in allowed):
        yield SchemaViolation(f"is not of type {' or '.join(map(repr, allowed))}")


def _enum(checker: Any, values: Sequence[Any], instance: Any, schema: Json) -> Violations:
    if _key(instance) not in _keys_of(values):
        yield SchemaViolation(f"is not one of {values!r}")


def _const(checker: Any, value: Any, instance: Any, schema: Json) -> Violations:
    if _key(value) != _key(instance):
        yield SchemaViolation(f"is not {value!r}")


def _pattern(checker: Any, pattern: str, instance: Any, schema: Json) -> Violations:
    if not isinstance(instance, str):
        return
    spend(len(instance) >> 10)
    if not search(pattern)(instance):
        yield SchemaViolation(f"does not match {pattern!r}")


def _unique_items(checker: Any, unique: bool, instance: Any, schema: Json) -> Violations:
    is_restricted = unique and isinstance(instance, list)
    if is_restricted and len({_key(item) for item in instance}) < len(instance):
        yield SchemaViolation("has the same element more than once")


def _any_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> Violations:
    context: list[ValidationError] = []
    for index, option in enumerate(options):
        errors = _first_errors(checker, option, instance, index)
        if not errors:
            return
        context += errors
    yield _no_alternative(context)


def _one_of(checker: Any, options: Sequence[Any], instance: Any, schema: Json) -> Violations:
    errors_by_option = [
        _first_errors(checker, option, instance, index) for index, option in enumerate(options)
    ]
    matching = errors_by_option.count([])
    if matching == 0:
        yield _no_alternative(sum(errors_by_option, []))
    elif matching > 1:
        yield SchemaViolation("fits more than one of the alternatives, which exclude each other")


def _no_alternative(context: list[ValidationError]) -> SchemaViolation:
    """Return the error of a value that fits no alternative; ``context`` has the errors of each.

    If there are many, the errors inside those are dropped. The context is not passed to the
    constructor, which would set the parent of each error in it. Such reference cycles are freed
    late, and can hold hundreds of megabytes. ``link`` sets the parents of the few that are shown.
    """
    error = SchemaViolation("fits none of the alternatives")
    if sum(1 + len(alternative.context) for alternative in context) > MAX_CONTEXT:
        for alternative in context:
            alternative.context = []
    error.context = context
    return error


def link(error: ValidationError) -> None:
    """Set the parent of each error in the context: jsonschema computes its path from it."""
    for inner in error.context:
        inner.parent = error
        link(inner)


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
        spend(len(items))
        for name, value in items:
            if matches(name):
                yield from checker.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(checker: Any, extra: Any, instance: Any, schema: Json) -> Violations:
    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", ())
    lookups = len(instance) * (1 + len(patterns))
    spend(lookups // 4)
    declared = schema.get("properties", ())
    searches = [search(pattern) for pattern in patterns]
    undeclared = [name for name in instance if name not in declared]
    additional = [name for name in undeclared if not any(matches(name) for matches in searches)]
    if additional and extra is False:
        listed = ", ".join(map(shown, additional[:MAX_VIOLATIONS]))
        yield ValidationError(f"Additional properties are not allowed: {listed}")
        return
    for name in additional:
        yield from checker.descend(instance[name], extra, path=name)


def _keys_of(values: Sequence[Any]) -> frozenset[str]:
    """Return the keys of the values of one ``enum``, which are computed once."""
    entry = _enums.get(id(values))
    if entry is None:
        if len(_enums) >= _MAX_ENUMS:
            _enums.clear()
        entry = (values, frozenset(map(_key, values)))
        _enums[id(values)] = entry
    return entry[1]


_enums: dict[int, tuple[Sequence[Any], frozenset[str]]] = {}
"""The keys of the values of ``enum``, by the identity of their list, which is kept alive here."""


def _key(value: Any) -> str:
    """Return a text that is equal for equal JSON: 1 equals 1.0 but not true.

    Python hashes texts with a secret, so that nobody can send thousands that have one hash.
    """
    spend()
    if isinstance(value, str):
        spend(len(value) >> 10)
        return f"{len(value)}:{value}"
    if isinstance(value, float):
        return repr(int(value) if value.is_integer() else value)
    if isinstance(value, list):
        items = ",".join(map(_key, value))
        return f"[{items}]"
    if isinstance(value, dict):
        members = sorted(_key(name) + _key(inner) for name, inner in value.items())
        return "{" + ",".join(members) + "}"
    return repr(value)


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
