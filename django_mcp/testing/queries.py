"""The queries of a call of the test client, on whatever thread and connection it makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


@contextmanager
def recorded(queries: list[str]) -> Iterator[None]:
    """Append the SQL of each query to ``queries``, within the block and its tasks."""
    for connection in connections.all(initialized_only=True):
        _watch(connection)
    token = _queries.set(queries)
    try:
        yield
    finally:
        _queries.reset(token)


def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _execute not in connection.execute_wrappers:
        connection.execute_wrappers.append(_execute)


def _execute(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    queries = _queries.get()
    if queries is not None:
        queries.append(sql)
    return execute(sql, params, many, context)


_queries: ContextVar[list[str] | None] = ContextVar("django_mcp.queries", default=None)

# The threads of handlers have connections of their own.
connection_created.connect(_watch, dispatch_uid="django_mcp.testing.queries")
