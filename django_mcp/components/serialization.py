"""Any Python value as JSON can say it.

Decimals, dates, UUIDs, enums, sets, dataclasses and pydantic models are known to pydantic.
Whatever else can be iterated is a list, and whatever else behaves as a string is a string:
a lazy query and a lazy translation are served without knowing who made them.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from django_mcp.components.base import UnserializableResult

NOT_SERIALIZABLE = (PydanticSerializationError, TypeError, ValueError, RecursionError)


def jsonable(value: Any) -> Any:
    """``value`` made of dicts, lists, strings, numbers, booleans and None; raises UnfitResult."""
    try:
        return to_jsonable_python(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def compact(value: Any) -> str:
    """``value``, which is made of JSON already, as JSON without spaces."""
    return to_json(value).decode()


def encoded(value: Any) -> bytes:
    """The JSON of ``jsonable(value)``, without making that first; raises UnfitResult."""
    try:
        return to_json(value, fallback=json_fallback, inf_nan_mode="null")
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def is_text(value: Any) -> bool:
    """Whether ``value`` is a string or behaves as one."""
    return isinstance(value, str) or hasattr(value, "casefold")


def json_fallback(value: Any) -> Any:
    """What stands for a value of a type which pydantic does not know."""
    if is_text(value):
        return str(value)
    if hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"JSON cannot say a {type(value).__qualname__}")


def not_serializable(value: Any, error: Exception) -> UnserializableResult:
    """The error for a ``value`` which JSON cannot say, with the remedy; it does not show it."""
    return UnserializableResult(
        f"A {type(value).__qualname__} was returned which JSON cannot say ({error}). "
        "Return a string, numbers, lists, dicts, dataclasses, pydantic models or a Response."
    )
