"""Tests of pure functions over a table: one case, which reports each row that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest


def rows(
    names: str | Sequence[str], table: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[[pytest.Subtests], None]]:
    """Run a test once for each row, like ``pytest.mark.parametrize``, but as a single case.

    It is for functions that keep nothing between calls: all rows share the fixtures of one case.
    """
    listed = list(table)

    def decorate(test: Callable[..., None]) -> Callable[[pytest.Subtests], None]:
        def run(subtests: pytest.Subtests) -> None:
            for row in listed:
                arguments = named(names, row)
                with subtests.test(**arguments):
                    test(**arguments)

        run.__name__ = test.__name__
        run.__qualname__ = test.__qualname__
        run.__module__ = test.__module__
        run.__doc__ = test.__doc__
        return run

    return decorate


def named(names: str | Sequence[str], row: Any) -> Mapping[str, Any]:
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if len(keys) == 1:
        return {keys[0]: row}
    return dict(zip(keys, row, strict=True))
