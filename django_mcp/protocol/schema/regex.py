"""The patterns of a JSON Schema: whether a text contains what one describes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_MAX_SLOW_TEXT = 500


@lru_cache(maxsize=1024)
def search(pattern: str) -> Callable[[str], bool]:
    """Whether a text contains what ``pattern`` describes; ValueError if it describes nothing."""
    try:
        fast = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(fast).isinstance_python
    except SchemaError:
        return _slow_search(pattern)


def _slow_search(pattern: str) -> Callable[[str], bool]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"The pattern {pattern!r} is no regular expression: {error}") from error
    return lambda text: len(text) <= _MAX_SLOW_TEXT and compiled.search(text) is not None
