"""Python values as JSON.

pydantic serializes decimals, dates, UUIDs, enums, sets, dataclasses and models. Any other iterable
becomes a list, and any other string-like object a string: a lazy query and a lazy translation are
serialized without importing Django.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from django_mcp.components.base import UnserializableResult

NOT_SERIALIZABLE = (PydanticSerializationError, TypeError, ValueError, RecursionError)


def jsonable(value: Any) -> Any:
    """``value`` as JSON-compatible objects; raises UnserializableResult."""
    try:
        return to_jsonable_python(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def copied(value: Any) -> Any:
    """A copy of a JSON-compatible ``value``, whose objects and lists may be changed."""
    if isinstance(value, Mapping):
        return {name: copied(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def compact(value: Any) -> str:
    """A JSON-compatible ``value`` as JSON without spaces."""
    return to_json(value).decode()


def encoded(value: Any) -> bytes:
    """The JSON of ``jsonable(value)`` in one step; raises UnserializableResult."""
    try:
        return to_json(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def is_text(value: Any) -> bool:
    """Whether ``value`` is a string or a lazy translation."""
    return isinstance(value, str) or hasattr(value, "casefold")


def json_fallback(value: Any) -> Any:
    if is_text(value):
        return str(value)
    if hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"JSON has no form of {type(value).__qualname__}")


def not_serializable(value: Any, error: Exception) -> UnserializableResult:
    """The error for ``value``, with the remedy; it does not contain the value."""
    return UnserializableResult(
        f"A returned {type(value).__qualname__} is not JSON serializable ({error}). "
        "Return a string, numbers, lists, dicts, dataclasses, pydantic models or a Response."
    )
