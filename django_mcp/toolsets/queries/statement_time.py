"""The time that one statement may take, in each kind of database.

PostgreSQL limits the statements of a transaction, MariaDB and MySQL each statement, and SQLite
asks a function while it works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import DataError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_mcp.core.protocol.errors import ToolError

STEPS = 10_000
"""Instructions of SQLite between two looks at the clock, about a tenth of a millisecond."""


@contextmanager
def limited(using: str, seconds: float) -> Iterator[None]:
    """Limit each statement of the block; raises ToolError for one that takes longer.

    A database error about the values of a caller is a ToolError as well.
    """
    connection = connections[using]
    limit = LIMITS.get(connection.vendor)
    try:
        if limit is None:
            yield
        else:
            with limit(connection, seconds):
                yield
    except OperationalError as error:
        if is_timeout(connection, error):
            raise ToolError(
                f"The query took longer than {seconds:g} s: use more filters, or fewer rows"
            ) from error
        raise
    except (DataError, OverflowError) as error:
        raise ToolError("The database cannot compare or add such values") from error


def is_timeout(connection: BaseDatabaseWrapper, error: OperationalError) -> bool:
    """Whether the database ended a statement because of its time."""
    if connection.vendor == "postgresql":
        return getattr(error.__cause__, "sqlstate", None) == "57014"
    if connection.vendor == "mysql":
        return bool(error.args) and error.args[0] in (1969, 3024)
    return str(error) == "interrupted"


@contextmanager
def _postgresql(connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
    with transaction.atomic(using=connection.alias):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('statement_timeout'),"
                " set_config('statement_timeout', %s, true)",
                [str(max(round(seconds * 1000), 1))],
            )
            before, _ = cursor.fetchone()
        yield
        if connection.savepoint_ids:  # The transaction goes on, with its former limit.
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


@contextmanager
def _mysql(connection: Any, seconds: float) -> Iterator[None]:
    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if connection.mysql_is_mariadb:
            sql = f"SET STATEMENT max_statement_time={seconds:g} FOR {sql}"
        elif sql.startswith("SELECT "):
            sql = f"SELECT /*+ MAX_EXECUTION_TIME({round(seconds * 1000)}) */ {sql[7:]}"
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


@contextmanager
def _sqlite(connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    handle: Any = connection.connection
    until = time.monotonic() + seconds
    handle.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    try:
        yield
    finally:
        handle.set_progress_handler(None, 0)


LIMITS: Mapping[str, Callable[..., Any]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "sqlite": _sqlite,
}
