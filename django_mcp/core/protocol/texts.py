"""Texts of a site in messages, names that it writes in its options, and nouns.

A lazy translation becomes a string when the message is made. It is known by its methods, the same
as a string has: this package must not import Django.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

_PLAIN = frozenset({str, int, float, bool, type(None), bytes})


def is_text(value: Any) -> bool:
    """Return whether ``value`` is a string or a lazy translation."""
    return isinstance(value, str) or hasattr(value, "casefold")


def resolved(value: Any) -> Any:
    """Return ``value`` with strings instead of lazy translations, in the active language.

    It is the same object if it contains none of them.
    """
    if _is_plain(value):
        return value
    kind = type(value)
    if isinstance(value, Mapping):
        members = {resolved(name): resolved(member) for name, member in value.items()}
        pairs = zip(members.values(), value.values(), strict=False)
        is_same = all(new is old for new, old in pairs)
        is_same = is_same and all(type(name) in _PLAIN for name in value)
        return value if is_same else members
    if isinstance(value, list | tuple):
        items = [resolved(item) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    return encodable(str(value)) if kind is not type and is_text(value) else value


def encodable(text: str) -> str:
    """``text`` with escapes in the place of lone surrogates, which are no characters."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is JSON of Python's own types, as most values are: nothing is built."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is dict:
        return all(map(_is_plain, value.values())) and all(type(name) in _PLAIN for name in value)
    return kind is list and all(map(_is_plain, value))


def json_fallback(value: Any) -> Any:
    """Return the string of a lazy translation; raise TypeError for any other value."""
    if is_text(value):
        return str(value)
    raise TypeError(f"JSON has no form of {type(value).__qualname__}")


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that ``name`` resembles most, or None."""
    return next(iter(get_close_matches(name, [*known], n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question for the known name that ``name`` resembles, or ``otherwise``."""
    near = similar(name, known)
    return otherwise if near is None else f"did you mean {near!r}?"


def listed(option: str, names: Any, error: type[Exception] = ValueError) -> tuple[str, ...]:
    """Return the names of an option.

    Raises ``error`` for a string, since Python would take each character for a name, and for
    anything else than strings.
    """
    if isinstance(names, str | bytes):
        raise error(f"{option} is the string {names!r}: write a list, [{names!r}]")
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        raise error(f"{option} is {names!r}: write a list of names")
    read = tuple(names)
    for name in read:
        if not isinstance(name, str):
            raise error(f"{option} has {name!r}: write a list of names, which are strings")
    return read


def storable(text: str) -> str:
    """Return ``text`` without NUL and lone surrogates, which databases refuse."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


# English nouns in names of tools.

UNCOUNTED = ("ss", "us", "is")
"""Endings of nouns in the singular, such as address and status."""


def plural(noun: str) -> str:
    if noun.endswith("s") and not noun.endswith(UNCOUNTED):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def singular(noun: str) -> str:
    if noun.endswith("ies"):
        return f"{noun[:-3]}y"
    if noun.endswith(("xes", "ches", "shes", "sses")):
        return noun[:-2]
    is_plural = noun.endswith("s") and not noun.endswith(UNCOUNTED)
    return noun[:-1] if is_plural else noun
