"""How a value becomes JSON: the one table, and the functions that ask it.

| a value of | is in JSON | by |
|---|---|---|
| a type with an entry, or derived from one | what its entry returns, or an error | the table |
| str, int, bool, None, list, tuple, dict | the same | pydantic |
| float | a number; NaN and the infinities are an error | pydantic, ``finite`` |
| Decimal, UUID, date, time, timedelta, bytes, path | a string | pydantic |
| Enum | its value | pydantic |
| set, frozenset, deque | a list | pydantic |
| dataclass, pydantic model | an object | pydantic |
| a lazy translation | a string | ``json_fallback`` |
| another mapping: mappingproxy, ChainMap, headers | an object | ``json_fallback`` |
| a table or an array of pandas, polars, numpy | an error with the remedy | ``json_fallback`` |
| what can be iterated again | a list | ``json_fallback`` |
| anything else | an error with the remedy | ``json_fallback`` |

A type has the entry of its nearest base that has one: of the site, else of this package.
The entries of this package are in ``runtime.django_types.values``. An entry for a type
that pydantic serializes by itself is found by a search of every result (``must_walk``). pydantic
also serializes a declared return type, and asks ``json_fallback`` about unknown types.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from itertools import chain, islice
from json import loads
from math import isfinite
from numbers import Number
from os import PathLike
from typing import Any, Generic, NoReturn, TypeVar
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

from django_mcp.core.components.base import ConfigurationError, UnserializableResult
from django_mcp.core.ports import Port
from django_mcp.core.protocol.texts import is_text

T = TypeVar("T")
Serializer = Callable[[Any], Any]
Table = Mapping[type | str, Serializer]
"""By class, or by the full name of a class that may not be installed."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The entry of a type whose values are rejected, with words that name the remedy.

    ``words`` is a function of the class; it completes "A value of type Book …".
    """

    words: Callable[[type], str]
    as_rows: Serializer | None = None
    """Its form for a declared pydantic model, whose fields are read from attributes."""
    as_content: Serializer | None = None
    """Its form as a result by itself; inside another value it is rejected."""

    def __call__(self, value: Any) -> NoReturn:
        raise UnserializableResult(self.describe(type(value)))

    def describe(self, kind: type) -> str:
        return f"A value of type {kind.__name__} {self.words(kind)}"


@dataclass(frozen=True, slots=True)
class RowSerializer:
    """The entry of a type with another form for declared pydantic models: see ``Unsupported``."""

    serialize: Serializer
    as_rows: Serializer

    def __call__(self, value: Any) -> Any:
        return self.serialize(value)


BUILT_IN: Port[Table] = Port("has the entries of Django's types", default={})
"""The entries of this package."""
SITE_TABLE: Port[Callable[[], Table]] = Port("returns entries of the site", default=dict)
"""Returns the entries of the site: the setting SERIALIZERS."""

_registered: dict[type | str, Serializer] = {}


def register_serializer(kind: type[T], function: Callable[[T], Any]) -> None:
    """Send values of the class ``kind``, and of its subclasses, as what ``function`` returns.

    It returns JSON-compatible values, or values that have serializers. A later call replaces an
    earlier one. Inside a pydantic model, pydantic serializes the types that it knows. Raises
    ConfigurationError if ``kind`` is no class.
    """
    if not isinstance(kind, type) or not callable(function):
        raise ConfigurationError(
            f"register_serializer takes a class and a function, not {kind!r} and {function!r}"
        )
    _registered[kind] = function
    clear_cache()


def unregister_serializer(kind: type) -> None:
    """Undo ``register_serializer``; nothing happens if ``kind`` has none."""
    _registered.pop(kind, None)
    clear_cache()


def clear_cache() -> None:
    """Look every type up again: an entry has changed."""
    find.cache_clear()
    must_walk.cache_clear()


@cache
def find(kind: type) -> Serializer | None:
    """Return the entry of the class ``kind``, or None."""
    tables = (_site_entries(), BUILT_IN.get())
    for base in kind.__mro__[:-1]:
        name = f"{base.__module__}.{base.__qualname__}"
        for table in tables:
            entry = table.get(base) or table.get(name)
            if entry is not None:
                return entry
    return None


def _site_entries() -> dict[type | str, Serializer]:
    return {**SITE_TABLE.get()(), **_registered}


NATIVE = (
    str, bytes, Number, Decimal, date, time, timedelta, UUID, Enum, PathLike, list, tuple, set,
    frozenset, dict, BaseModel,
)  # fmt: skip
"""Types which pydantic serializes without asking."""


@cache
def must_walk() -> bool:
    """Return whether the site has entries for types which pydantic serializes without asking."""
    classes_with_entry = [kind for kind in _site_entries() if isinstance(kind, type)]
    return any(issubclass(kind, NATIVE) for kind in classes_with_entry)


def converted(value: Any) -> Any:
    """Convert ``value`` itself by its entry in the table, but not its members."""
    kind: type = type(value)
    serialize = find(kind)
    if serialize is None:
        return value
    return (getattr(serialize, "as_content", None) or serialize)(value)


def deeply_converted(value: Any, *, rows: bool = False) -> Any:
    """Convert ``value`` and its members by the table; return the same object if nothing changes.

    With ``rows``, types may have another form: one whose attributes are read.
    """
    if type(value) in CONTAINERS and _has_only_simple_types(value):
        return value
    return _members_converted(value, rows=rows)


def _members_converted(value: Any, *, rows: bool) -> Any:
    kind: type = type(value)
    serialize = find(kind)
    if rows and (as_rows := getattr(serialize, "as_rows", None)) is not None:
        return as_rows(value)
    if serialize is not None:
        return _members_converted(serialize(value), rows=rows)
    if isinstance(value, Mapping):
        members = {name: _members_converted(member, rows=rows) for name, member in value.items()}
        is_same = all(members[name] is member for name, member in value.items())
        return value if is_same else members
    if type(value) in (list, tuple):
        items = [_members_converted(item, rows=rows) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    return str(value) if not isinstance(value, str) and is_text(value) else value


CONTAINERS = frozenset({dict, list})
SIMPLE = frozenset(
    {type(None), bool, int, float, str, Decimal, UUID, date, datetime, time, timedelta, *CONTAINERS}
)
"""Types that the table has no entries for, unless the site adds some."""
MAX_LEVELS = 20
MAX_ON_LEVEL = 1_000_000
"""A list that contains itself has levels without end, which may grow."""


def _has_only_simple_types(value: Any) -> bool:
    """Whether nothing in ``value`` is of another type, or has an entry.

    The values are looked at level by level, which takes a tenth of the time of one by one.
    """
    level = [value]
    for _ in range(MAX_LEVELS):
        kinds = {*map(type, level)}
        if not kinds <= SIMPLE or any(find(kind) is not None for kind in kinds):
            return False
        if kinds.isdisjoint(CONTAINERS):
            return True
        lists = chain.from_iterable(item for item in level if type(item) is list)
        members = chain.from_iterable(item.values() for item in level if type(item) is dict)
        level = [*islice(chain(lists, members), MAX_ON_LEVEL)]
        if len(level) == MAX_ON_LEVEL:
            break
    return False


class Row(Generic[T]):
    """An object whose attributes are converted when they are read."""

    def __init__(self, value: T) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        return deeply_converted(getattr(self._value, name), rows=True)


def unsupported_class(annotation: Any) -> str | None:
    """Return the words about the first class in ``annotation`` that is refused, or None."""
    for kind in classes(annotation):
        entry = find(kind)
        if isinstance(entry, Unsupported) and entry.as_content is None:
            return entry.describe(kind)
    return None


def has_serializer(annotation: Any) -> bool:
    """Return whether ``annotation`` contains a class that has an entry and is not refused."""
    is_unsupported = unsupported_class(annotation) is not None
    return not is_unsupported and any(find(kind) is not None for kind in classes(annotation))


def classes(annotation: Any) -> Iterator[type]:
    """Yield the classes in an annotation: list and Book for ``list[Book] | None``.

    A class whose values have an adapter of their own as arguments is left out.
    """
    if any(getattr(each, "defers", False) for each in typing.get_args(annotation)):
        return
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        yield annotation
    for member in typing.get_args(annotation):
        yield from classes(member)


# Values as JSON.

NOT_SERIALIZABLE = (PydanticSerializationError, TypeError, ValueError, RecursionError)
SUPPORTED = (
    "Return a string, numbers, lists, dicts, dataclasses, pydantic models or a Response, or "
    "declare its form with register_serializer."
)


def encoded(value: Any) -> bytes:
    """``value`` as JSON; raises UnserializableResult."""
    try:
        if must_walk():
            value = deeply_converted(value)
        json = to_json(value, fallback=json_fallback, inf_nan_mode="constants")
        if NULL in json and _holds_models(value):
            check_finite(_dumped(value))
        return finite(json)
    except NOT_SERIALIZABLE as error:
        raise not_serializable(value, error) from error


def decoded(json: bytes) -> Any:
    """The objects of JSON that was encoded here; raises UnserializableResult if it is too deep."""
    try:
        return from_json(json)
    except ValueError as error:
        raise UnserializableResult(f"A returned value cannot be read as JSON: {error}") from error


def jsonable(value: Any) -> Any:
    """``value`` as JSON-compatible objects; raises UnserializableResult."""
    return decoded(encoded(value))


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


def json_fallback(value: Any) -> Any:
    """What pydantic serializes instead of ``value``; raises UnserializableResult."""
    if is_text(value):
        return str(value)
    kind: type = type(value)
    serialize = find(kind)
    if serialize is not None:
        return serialize(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytearray | memoryview):
        raise UnserializableResult(f"A value of type {kind.__qualname__} has {BYTES_REMEDY}")
    for protocol, remedy in TABLES:
        if hasattr(kind, protocol):
            raise UnserializableResult(f"A value of type {kind.__qualname__} {remedy}")
    if hasattr(value, "__iter__") and not hasattr(value, "__next__"):
        return list(value)
    raise UnserializableResult(
        f"A value of type {kind.__qualname__} is not JSON serializable. {SUPPORTED}"
    )


TABLES = (
    (
        "__dataframe__",
        "is a table, whose iteration would lose its rows. Return them, with None where a value is "
        'missing: df.astype(object).where(df.notna(), None).to_dict(orient="records")',
    ),
    (
        "__array__",
        "belongs to a library for arrays. Return values of Python: .tolist(), .to_dict() of a "
        "Series of pandas, which keeps its index, or .to_dicts() of a DataFrame of polars",
    ),
)
"""Protocols of libraries for tables and arrays, which identify their types without an import.
They have their own meaning of a missing value, so they are not converted silently."""


def not_serializable(value: Any, error: Exception) -> UnserializableResult:
    """The error for ``value``, with the remedy; it does not contain the value."""
    if isinstance(error, UnserializableResult):
        words = str(error)
    elif BYTES_ERROR in str(error):
        words = f"A returned {type(value).__qualname__} has {BYTES_REMEDY}"
    else:
        # pydantic repeats the error of the fallback in its own.
        _, is_unsupported, words = str(error).partition(f"{UnserializableResult.__name__}: ")
        kind = type(value).__qualname__
        if not is_unsupported:
            words = f"A returned {kind} is not JSON serializable ({error}). {SUPPORTED}"
    return UnserializableResult(f"{words}{_where_in(value)}")


BYTES_ERROR = "invalid utf-8 sequence"
"""What pydantic says of bytes that are no text."""
BYTES_REMEDY = (
    "bytes, which JSON does not have: return them as base64 (base64.b64encode(data).decode()), a "
    "URL of them, or a file by Response.file(…)"
)
MAX_SEARCHED = 1_000
"""Members of a collection that are searched for the one that is no JSON."""


def _where_in(value: Any) -> str:
    """Where the first part of a value is that is not JSON serializable; nothing if it is whole."""
    path: list[str] = []
    for _ in range(MAX_DEPTH):
        members = islice(_members_of(value), MAX_SEARCHED)
        wrong = next(((name, member) for name, member in members if _is_wrong(member)), None)
        if wrong is None:
            break
        path.append(str(wrong[0]))
        value = wrong[1]
    return f" (at {'.'.join(path)})" if path else ""


MAX_DEPTH = 20
"""Levels of a value that are searched."""


def _members_of(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, BaseModel):
        yield from value


def _is_wrong(member: Any) -> bool:
    try:
        to_json(member, fallback=json_fallback)
    except NOT_SERIALIZABLE:
        return True
    return False


# Numbers that JSON does not have.

NULL = b"null"
"""What pydantic writes for such a number in a model; elsewhere it writes the words below."""
NOT_FINITE = (b"NaN", b"Infinity")
"""A string may contain the same words."""
BYTES_PER_TRY = 1_000
FEWEST_TRIES = 8
MODELS_SEARCHED = 20
"""Members of a value that are searched for models, at each of two levels."""


def finite(json: bytes) -> bytes:
    """Return ``json``; raises UnserializableResult if it has NaN or an infinity."""
    if any(contains(json, word) for word in NOT_FINITE):
        loads(json, parse_constant=partial(_raise_not_finite, json))
    return json


def check_finite(value: Any) -> None:
    """Raise UnserializableResult for NaN or an infinity in ``value``, a dump of models."""
    # What only the serializer of its field knows becomes null: no number is lost in it.
    finite(to_json(value, fallback=lambda unknown: None, inf_nan_mode="constants"))


def contains(json: bytes, word: bytes) -> bool:
    """Whether ``json`` contains ``word``, whose first byte is rare in most results."""
    # The search for one byte takes a fortieth of that for several, where there are few of it. Most
    # results lack some letter of a word such as Infinity.
    if not all(byte in json for byte in word):
        return False
    first = word[:1]
    end = 0
    for _ in range(len(json) // BYTES_PER_TRY + FEWEST_TRIES):
        end = json.find(first, end) + 1
        if end == 0:
            return False
        if json.startswith(word, end - 1):
            return True
    return word in json


def _raise_not_finite(json: bytes, constant: str) -> NoReturn:
    path = _path_of_constant(loads(json)) or []
    name = ".".join(map(str, path)) or "A returned number"
    raise UnserializableResult(
        f"{name} is {constant}, which JSON does not have: return None or a string instead"
    )


def _path_of_constant(value: Any) -> list[Any] | None:
    """The keys that lead to the first number in ``value`` that is not finite, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else []
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for key, member in members:
        path = _path_of_constant(member)
        if path is not None:
            return [key, *path]
    return None


def _holds_models(value: Any, levels: int = 2) -> bool:
    """Whether ``value`` is a model of pydantic, or seems to hold some."""
    if isinstance(value, BaseModel):
        return "ser_json_inf_nan" not in value.model_config
    if not levels or not isinstance(value, dict | list | tuple):
        return False
    members = value.values() if isinstance(value, dict) else value
    return any(_holds_models(member, levels - 1) for member in islice(members, MODELS_SEARCHED))


def _dumped(value: Any) -> Any:
    """``value`` with the fields of its models as they are in Python."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, dict):
        return {name: _dumped(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_dumped(item) for item in value]
    return value
