"""What the page about tenants uses of django-scopes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

scopes: list[dict[str, Any]] = [{}]


@contextmanager
def scope(**values: Any) -> Iterator[None]:
    scopes.append(values)
    try:
        yield
    finally:
        scopes.pop()
