"""Bounds of the run time of a validation: its steps, and patterns that take linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from pydantic_core import SchemaError, SchemaValidator, core_schema

T = TypeVar("T")

MAX_STEPS = 1_000_000
"""Some seconds. A value with as many parts as a message may have takes fewer, if its schema applies
a few keywords to each of them."""


MAX_NESTED = 50
"""References within references which apply to one value: its depth, where a schema is recursive.
At Python's own limit, the library for persistent maps beneath jsonschema would panic."""


class TooManySteps(Exception):
    """The validation of a value takes longer than it may."""


_left: ContextVar[list[int]] = ContextVar("django_mcp.steps")
"""The steps that are left, and the references that are being followed."""


def begin(count: int) -> None:
    """Allow ``count`` steps from now on, in this context."""
    _left.set([count, 0])


def nested(keyword: Callable[..., Iterable[T] | None]) -> Callable[..., Iterator[T]]:
    """Return a keyword that follows a reference so that it raises RecursionError too deep."""

    def follow(*args: Any) -> Iterator[T]:
        left = _left.get()
        if left[1] >= MAX_NESTED:
            raise RecursionError
        left[1] += 1
        try:
            yield from keyword(*args) or ()
        finally:
            left[1] -= 1

    return follow


def spend(count: int = 1) -> None:
    """Take steps; raises TooManySteps."""
    left = _left.get()
    left[0] -= count
    if left[0] < 0:
        raise TooManySteps


@lru_cache(maxsize=1024)
def search(pattern: str) -> Callable[[str], bool]:
    """Return the predicate for strings that contain a match of ``pattern``; it takes linear time.

    Raises ValueError for one that is invalid, and for look-around and back-references: engines
    that have them take time that grows exponentially with the string.
    """
    try:
        linear = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(linear).isinstance_python
    except SchemaError as error:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as invalid:
            problem = f"The pattern {pattern!r} is no regular expression: {invalid}"
            raise ValueError(problem) from invalid
        raise ValueError(
            f"The pattern {pattern!r} cannot be matched in linear time: use neither look-around "
            "nor back-references nor large repetitions, and check the rest in the handler"
        ) from error
