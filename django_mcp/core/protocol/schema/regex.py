"""The patterns of a JSON Schema: whether a string contains a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


@lru_cache(maxsize=1024)
def search(pattern: str) -> Callable[[str], bool]:
    """Return the predicate for strings that match ``pattern``; it takes linear time.

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
