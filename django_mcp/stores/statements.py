"""The statements which most requests in a session execute, compiled once for a connection.

The ORM takes 200 to 900 µs to compile a statement, and the database 20 to 40 µs to execute it.
This module knows tables and columns, and nothing of limits or lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_mcp.core.frame.session import Session
from django_mcp.models import PRINCIPAL_LENGTH, McpSession, Stream, StreamEvent

SessionRow = tuple[str, datetime, int, bool]
"""Of a session: its data, the time of its last use, its update count, whether it is initialized."""

LARGEST = 2**63 - 1
"""The largest number of an event."""


class _Read:
    """A query for columns; each call gives the parameters.

    It is compiled by the ORM, which knows how each database returns values, but only once. A
    RawQuerySet, the public interface, takes 90 µs more for each read.
    """

    def __init__(self, connection: BaseDatabaseWrapper, rows: models.QuerySet[Any]) -> None:
        self._connection = connection
        self._compiler = rows.query.get_compiler(connection=connection)
        self._text, _ = self._compiler.as_sql()
        selected = [column for column, _, _ in self._compiler.select or ()]
        self._converters = self._compiler.get_converters(selected)

    def __call__(self, *values: Any) -> list[Any]:
        rows = _rows(self._connection, self._text, *values)
        if self._converters:
            rows = list(self._compiler.apply_converters(rows, self._converters))
        return rows


class _Statements:
    """The statements of one connection."""

    _count: str

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    def count(self, owner: str) -> int:
        """The number of sessions of a caller, or of streams of a session; also expired ones."""
        return cast("int", _rows(self.connection, self._count, owner)[0][0])

    def _time(self, moment: datetime) -> Any:
        return self.connection.ops.adapt_datetimefield_value(moment)

    def _change(self, statement: str, *values: Any) -> bool:
        """Execute the statement; return whether it has changed a row."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cast("int", cursor.rowcount) > 0


class SessionStatements(_Statements):
    """The statements of sessions."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        quote = connection.ops.quote_name
        columns = ("address", "caller", "data", "initialized", "update_count", "used_at")
        table = quote(McpSession._meta.db_table)
        name, caller, data, initialized, count, used_at = map(quote, columns)
        where = f"WHERE {name} = %s AND {count} = %s"
        assigned = ", ".join(f"{column} = %s" for column in (data, initialized, count, used_at))
        inserted = (*columns, "created_at", "server", "principal", "version")
        self._insert = (
            f"INSERT INTO {table} ({', '.join(map(quote, inserted))}) "
            f"VALUES ({', '.join(['%s'] * len(inserted))})"
        )
        self._update = f"UPDATE {table} SET {assigned} {where}"
        self._delete = f"DELETE FROM {table} {where}"
        self._count = f"SELECT COUNT(*) FROM {table} WHERE {caller} = %s"
        rows = McpSession.objects.filter(pk="0")
        read = rows.values_list("data", "used_at", "update_count", "initialized")
        self._read = _Read(connection, read)

    def read(self, name: str) -> SessionRow | None:
        rows = self._read(name)
        return cast("SessionRow", rows[0]) if rows else None

    def insert(self, session: Session, caller: str, data: str, now: datetime) -> None:
        """Write a new session."""
        moment = self._time(now)
        principal = session.principal[:PRINCIPAL_LENGTH]
        changing = (session.address, caller, data, session.initialized, 0, moment)
        fixed = (moment, session.server, principal, session.version)
        self._change(self._insert, *changing, *fixed)

    def update(self, session: Session, count: int, data: str, used_at: datetime) -> bool:
        """Write a session that was read with this update count; False after another update."""
        values = (data, session.initialized, count + 1, self._time(used_at))
        return self._change(self._update, *values, session.address, count)

    def delete(self, name: str, count: int) -> bool:
        """Delete a session that was read with this update count; False after an update."""
        return self._change(self._delete, name, count)


class StreamStatements(_Statements):
    """The statements of streams, by their names, and of their events."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        quote = connection.ops.quote_name
        streams = quote(Stream._meta.db_table)
        events = quote(StreamEvent._meta.db_table)
        columns = ("name", "session", "last", "closed", "touched_at")
        name, session, last, closed, touched_at = map(quote, columns)
        inserted = ("stream_id", "number", "data", "created_at")
        stream, number, *_ = map(quote, inserted)
        live = " OR ".join([f"({closed} = %s AND {touched_at} > %s)"] * 2)
        self._extend = (
            f"UPDATE {streams} SET {last} = {last} + %s, {touched_at} = %s "
            f"WHERE {name} = %s AND ({live})"
        )
        self._touch = f"UPDATE {streams} SET {touched_at} = %s WHERE {name} = %s"
        self._last = f"SELECT {last} FROM {streams} WHERE {name} = %s"
        self._count = f"SELECT COUNT(*) FROM {streams} WHERE {session} = %s"
        self._insert = (
            f"INSERT INTO {events} ({', '.join(map(quote, inserted))}) VALUES (%s, %s, %s, %s)"
        )
        later = StreamEvent.objects.filter(created_at__gt=timezone.now()).filter(stream="0")
        self._read_data = _Read(connection, later.order_by("number").values_list("data"))
        self._delete = f"DELETE FROM {events} WHERE {stream} = %s AND {number} <= %s"
        rows = Stream.objects.filter(pk="0").values_list("last", "closed", "touched_at")
        self._read = _Read(connection, rows)

    def read(self, name: str) -> tuple[int, bool, datetime] | None:
        """The number of the last event, whether it is closed, and when it was last written."""
        rows = self._read(name)
        return cast("tuple[int, bool, datetime]", rows[0]) if rows else None

    def extend(
        self, name: str, number: int, now: datetime, oldest_open: datetime, oldest_closed: datetime
    ) -> int | None:
        """Add to the last number of a stream, and return it; None if there is no such stream.

        A stream that was last written at or before ``oldest_…`` has expired.
        """
        is_open = (False, self._time(oldest_open))
        is_closed = (True, self._time(oldest_closed))
        if not self._change(self._extend, number, self._time(now), name, *is_open, *is_closed):
            return None
        return cast("int", _rows(self.connection, self._last, name)[0][0])

    def touch(self, name: str, now: datetime) -> None:
        """Write when a stream was last written, which locks its row."""
        self._change(self._touch, self._time(now), name)

    def insert(self, name: str, last: int, data: Sequence[str], now: datetime) -> None:
        """Write events, given with the number of the last one."""
        moment = self._time(now)
        first = last - len(data) + 1
        rows = [(name, number, text, moment) for number, text in enumerate(data, first)]
        with self.connection.cursor() as cursor:
            if len(rows) == 1:
                cursor.execute(self._insert, rows[0])
            elif rows:
                cursor.executemany(self._insert, rows)

    def read_data(self, name: str, oldest: datetime) -> list[str]:
        """The events of a stream that were created after ``oldest``, in order."""
        return [data for (data,) in self._read_data(self._time(oldest), name)]

    def delete(self, name: str, last: int = LARGEST) -> None:
        """Delete the events of a stream, up to this number."""
        self._change(self._delete, name, last)


def _rows(connection: BaseDatabaseWrapper, statement: str, *values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cast("list[Any]", cursor.fetchall())
