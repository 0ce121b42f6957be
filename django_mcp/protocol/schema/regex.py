"""The patterns of a JSON Schema: whether a string contains a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_MAX_BACKTRACKING_LENGTH = 500


@lru_cache(maxsize=1024)
def search(pattern: str) -> Callable[[str], bool]:
    """Return the predicate for strings in which ``pattern`` matches; ValueError if it is invalid.

    It runs in linear time. A pattern with look-around or back-references runs on Python's engine,
    which backtracks, and matches no string of more than 500 characters.
    """
    try:
        linear = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(linear).isinstance_python
    except SchemaError:
        pass
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"The pattern {pattern!r} is no regular expression: {error}") from error
    return lambda text: len(text) <= _MAX_BACKTRACKING_LENGTH and bool(compiled.search(text))
