"""The table of serializers: what values of other types than JSON's become, by their type.

pydantic serializes the types of Python, and asks the table about any other. A type has the entry of
its nearest base that has one: of the site, else of this package. ``apps.py`` adds those of Django,
which ``runtime.django_values`` lists.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Number
from os import PathLike
from typing import Any, Generic, NoReturn, TypeVar
from uuid import UUID

from pydantic import BaseModel

from django_mcp.components.base import ConfigurationError, UnserializableResult
from django_mcp.protocol.texts import is_text

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
    """What it is for a declared pydantic model, whose fields are read from attributes."""
    as_content: Serializer | None = None
    """What it is as a result by itself; inside another value it is rejected."""

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


BUILT_IN: dict[type | str, Serializer] = {}
"""Port: the entries of this package. apps.py adds those of Django's types."""
SITE_TABLES: list[Callable[[], Table]] = []
"""Port: each returns entries of the site. apps.py adds the setting SERIALIZERS."""

_registered: dict[type | str, Serializer] = {}
_found: dict[type, Serializer | None] = {}


def register_serializer(kind: type[T], function: Callable[[T], Any]) -> None:
    """Send values of the class ``kind``, and of its subclasses, as what ``function`` returns.

    ``function`` returns JSON-compatible values, or values of other types that have serializers.
    A later call replaces an earlier one. Inside a pydantic model, pydantic serializes the types
    which it knows. Raises ConfigurationError if ``kind`` is no class.
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
    _found.clear()
    _walks.clear()


def find(kind: type) -> Serializer | None:
    """Return the entry of the class ``kind``, or None."""
    try:
        return _found[kind]
    except KeyError:
        _found[kind] = found = _find(kind)
        return found


def _find(kind: type) -> Serializer | None:
    tables = (_site_entries(), BUILT_IN)
    for base in kind.__mro__[:-1]:
        name = f"{base.__module__}.{base.__qualname__}"
        for table in tables:
            entry = table.get(base) or table.get(name)
            if entry is not None:
                return entry
    return None


def _site_entries() -> dict[type | str, Serializer]:
    entries: dict[type | str, Serializer] = {}
    for table in SITE_TABLES:
        entries.update(table())
    return {**entries, **_registered}


NATIVE = (
    str, bytes, Number, Decimal, date, time, timedelta, UUID, Enum, PathLike, list, tuple, set,
    frozenset, dict, BaseModel,
)  # fmt: skip
"""Types which pydantic serializes without asking."""
_walks: list[bool] = []


def must_walk() -> bool:
    """Return whether the site has entries for types which pydantic serializes without asking."""
    if not _walks:
        entries = _site_entries()
        _walks.append(any(isinstance(each, type) and issubclass(each, NATIVE) for each in entries))
    return _walks[0]


def converted(value: Any) -> Any:
    """Return ``value`` itself as its entry in the table says, not what it contains."""
    serialize = find(type(value))
    if serialize is None:
        return value
    return (getattr(serialize, "as_content", None) or serialize)(value)


def deeply_converted(value: Any, *, rows: bool = False) -> Any:
    """Return ``value`` with what it contains as the table says; the same object if nothing is.

    With ``rows``, types may have another form: one whose attributes are read.
    """
    serialize = find(type(value))
    if rows and (as_rows := getattr(serialize, "as_rows", None)) is not None:
        return as_rows(value)
    if serialize is not None:
        return deeply_converted(serialize(value), rows=rows)
    if isinstance(value, Mapping):
        members = {name: deeply_converted(member, rows=rows) for name, member in value.items()}
        is_same = all(members[name] is member for name, member in value.items())
        return value if is_same else members
    if type(value) in (list, tuple):
        items = [deeply_converted(item, rows=rows) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    return str(value) if not isinstance(value, str) and is_text(value) else value


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
    """Yield the classes in an annotation: those of ``list[Book] | None`` are list and Book.

    A class whose values have an adapter of their own as arguments is left out.
    """
    if any(getattr(each, "defers", False) for each in typing.get_args(annotation)):
        return
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        yield annotation
    for member in typing.get_args(annotation):
        yield from classes(member)
