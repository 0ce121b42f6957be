"""The context manager of django-tenants that chooses a schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

schemas: list[str] = ["public"]


@contextmanager
def schema_context(schema_name: str) -> Iterator[None]:
    schemas.append(schema_name)
    try:
        yield
    finally:
        schemas.pop()
