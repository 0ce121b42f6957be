"""Python values as JSON.

pydantic serializes decimals, dates, UUIDs, enums, sets, dataclasses and models. Any other
string-like object becomes a string, so that lazy translations need no import of Django. Any other
value becomes what the table of ``converters`` says, or a list if it can be iterated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from django_mcp.components import converters
from django_mcp.components.base import UnserializableResult
from django_mcp.protocol.texts import is_text

NOT_SERIALIZABLE = (PydanticSerializationError, TypeError, ValueError, RecursionError)


def jsonable(value: Any) -> Any:
    """``value`` as JSON-compatible objects; raises UnserializableResult."""
    try:
        if converters.must_walk():
            value = converters.deeply_converted(value)
        return to_jsonable_python(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def encoded(value: Any) -> bytes:
    """The JSON of ``jsonable(value)`` in one step; raises UnserializableResult."""
    try:
        if converters.must_walk():
            value = converters.deeply_converted(value)
        return to_json(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


SCALARS = frozenset({type(None), bool, int, float, str})
"""Types of values that hold no others."""


def copied(value: Any) -> Any:
    """A copy of a JSON-compatible ``value``, whose objects and lists may be changed."""
    if type(value) in SCALARS:  # Whether something is a Mapping takes 0.3 µs to find out.
        return value
    if isinstance(value, Mapping):
        return {name: copied(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def compact(value: Any) -> str:
    """A JSON-compatible ``value`` as JSON without spaces."""
    return to_json(value).decode()


def json_fallback(value: Any) -> Any:
    """What pydantic serializes instead of ``value``; raises UnserializableResult."""
    if is_text(value):
        return str(value)
    serialize = converters.find(type(value))
    if serialize is not None:
        return serialize(value)
    if hasattr(value, "__iter__") and not hasattr(value, "__next__"):
        return list(value)
    raise UnserializableResult(
        f"A value of type {type(value).__qualname__} is not JSON serializable. {SUPPORTED}"
    )


SUPPORTED = (
    "Return a string, numbers, lists, dicts, dataclasses, pydantic models or a Response, or "
    "declare its form with register_serializer."
)


def not_serializable(value: Any, error: Exception) -> UnserializableResult:
    """The error for ``value``, with the remedy; it does not contain the value."""
    if isinstance(error, UnserializableResult):
        return error
    # pydantic repeats the error of the fallback in its own.
    _, is_unsupported, words = str(error).partition(f"{UnserializableResult.__name__}: ")
    if is_unsupported:
        return UnserializableResult(words)
    return UnserializableResult(
        f"A returned {type(value).__qualname__} is not JSON serializable ({error}). {SUPPORTED}"
    )
