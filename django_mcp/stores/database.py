"""Sessions and events in the database, through Django's ORM: the default stores.

All workers of a site share its database, so these stores need no configuration. They work on every
database that Django supports. An update names the version of the row that it has read, and starts
again after a concurrent update: no lock is held in between, and SQLite has no row locks.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.conf import settings
from django.db import IntegrityError, OperationalError, connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q

from django_mcp.frame.session import Change, Session, address
from django_mcp.models import PRINCIPAL_LENGTH, McpSession, Stream, StreamEvent, Subscription
from django_mcp.stores.base import (
    WRITE_TIMEOUT,
    AsyncMethod,
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    StoreFull,
    digest,
    on_thread,
    pack,
    unpack,
)

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Model = TypeVar("Model", bound=models.Model)

_Row = tuple[str, datetime, int, bool]
"""Of a session: its data, the time of its last use, its update count, whether it is initialized."""

CONTENTION = ("lock", "serialize", "restarting transaction")
"""Parts of the messages of databases about concurrent writers; there is no common error code."""


class _InDatabase:
    """A store in the database ``using``, or in the one that Django's routers choose for writes."""

    def __init__(self, *, using: str | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        self.using = using

    @property
    def _alias(self) -> str:
        """Its alias, for reads as well: a replica may not have the session yet."""
        return self.using or router.db_for_write(McpSession)

    def _rows(self, model: type[Model]) -> models.QuerySet[Model]:
        return model._default_manager.using(self._alias)

    def _atomic(self) -> AbstractContextManager[Any]:
        return transaction.atomic(self._alias)

    @property
    def _statements(self) -> _Statements:
        connection = connections[self._alias]
        cached: _Statements | None = vars(_local).get(self._alias)
        if cached is None or cached.connection is not connection:
            cached = vars(_local)[self._alias] = _Statements(connection)
        return cached


def _on_thread(method: Callable[Concatenate[S, P], T]) -> AsyncMethod[S, P, T]:
    """Run a method on a thread for stores, again while other writers are in conflict."""

    @on_thread
    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        deadline = time.monotonic() + WRITE_TIMEOUT
        while True:
            try:
                return method(self, *args, **kwargs)
            except (_ConcurrentUpdate, OperationalError) as error:
                text = str(error).lower()
                if isinstance(error, OperationalError) and not any(map(text.count, CONTENTION)):
                    raise
                if time.monotonic() > deadline:
                    raise StoreBusy("Too many concurrent writes to the session") from error
            time.sleep(random.uniform(0.001, 0.02))  # So that not all retry at once.

    return run


class DatabaseSessionStore(_InDatabase, SessionStore):
    """Stores sessions in a table.

    ``using`` is the alias of its database; without it Django's routers choose. Expired sessions
    cannot be loaded, and stay in the table until ``prune``.
    """

    @_on_thread
    def create(self, session: Session) -> None:
        now, caller = to_datetime(self.now()), digest(session.counted_as)
        if self._statements.count(caller) >= self.limit_per_principal:
            self._make_room(caller)
        with self._transaction_for(session.subscriptions):
            self._rows(McpSession).create(
                address=session.address,
                server=session.server,
                principal=session.principal[:PRINCIPAL_LENGTH],
                caller=caller,
                version=session.version,
                data=pack(session),
                initialized=session.initialized,
                created_at=now,
                used_at=now,
            )
            self._subscribe(session, session.subscriptions)

    def _make_room(self, caller: str) -> None:
        """Delete expired sessions of this caller or, if there are none, the longest idle ones."""
        rows = self._rows(McpSession).filter(caller=caller)
        rows.exclude(live(self)).delete()
        excess = rows.count() - self.limit_per_principal + 1
        if excess > 0:
            may_go = Q(initialized=False) | Q(used_at__lte=to_datetime(self.idle_since))
            idle = rows.filter(may_go).order_by("used_at").values_list("pk", flat=True)
            names = list(idle[:excess])
            if len(names) < excess:
                raise self.full()
            rows.filter(pk__in=names).delete()

    @_on_thread
    def load(self, session_id: str) -> Session | None:
        if (row := self._read(session_id)) is None:
            return None
        data, used_at, _, initialized = row
        if self.is_touch_due(used_at.timestamp(), initialized=initialized):
            self._touch(session_id)
        return unpack(data, session_id=session_id)

    def _read(self, session_id: str) -> _Row | None:
        row = self._statements.read(address(session_id))
        if row is None or not self.is_live(row[1].timestamp(), initialized=row[3]):
            return None
        return row

    @_on_thread
    def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        if (row := self._read(session_id)) is None:
            return None
        data, _, count, _ = row
        before = unpack(data, session_id=session_id)
        after = before.apply(changes)
        text = pack(after)
        # The write comes first in its transaction: SQLite raises at once, without waiting, when a
        # transaction has read before another one's write and then writes itself.
        with self._transaction_for(before.subscriptions ^ after.subscriptions):
            now = to_datetime(self.now())
            if not self._statements.update(after, count, text, now):
                raise _ConcurrentUpdate
            if gone := before.subscriptions - after.subscriptions:
                rows = self._rows(Subscription).filter(session=after.address)
                rows.filter(resource__in=[digest(after.server, uri) for uri in gone]).delete()
            self._subscribe(after, after.subscriptions - before.subscriptions)
        return unpack(text, session_id=session_id)

    @_on_thread
    def touch(self, session_id: str) -> None:
        self._touch(session_id)

    def _touch(self, session_id: str) -> None:
        rows = self._rows(McpSession).filter(live(self), pk=address(session_id))
        recently = to_datetime(self.now() - self.touch_interval)
        stale = Q(initialized=False) | Q(used_at__lte=recently)
        rows.filter(stale).update(used_at=to_datetime(self.now()))

    @_on_thread
    def delete(self, session_id: str) -> bool:
        if (row := self._read(session_id)) is None:
            return False
        data, _, count, _ = row
        session = unpack(data, session_id=session_id)
        with self._transaction_for(session.subscriptions):
            if session.subscriptions:
                self._rows(Subscription).filter(session=session.address).delete()
            # There are no other subscriptions while the update count is unchanged.
            if not self._statements.delete(session.address, count):
                raise _ConcurrentUpdate
        return True

    @_on_thread
    def subscribers(self, server: str, uri: str) -> list[str]:
        subscriptions = self._rows(Subscription).filter(resource=digest(server, uri))
        found = subscriptions.filter(live(self, "session__"))
        return list(found.values_list("session_id", flat=True))

    @_on_thread
    def prune(self) -> int:
        rows = self._rows(McpSession)
        _, deleted = rows.exclude(live(self)).delete()
        return deleted.get(McpSession._meta.label, 0)

    def _subscribe(self, session: Session, uris: Collection[str]) -> None:
        if uris:
            self._rows(Subscription).bulk_create(
                Subscription(session_id=session.address, resource=digest(session.server, uri))
                for uri in uris
            )

    def _transaction_for(self, subscriptions: Collection[str]) -> AbstractContextManager[Any]:
        """A transaction, where more than the row of the session is written."""
        return self._atomic() if subscriptions else nullcontext()


def live(store: SessionStore, prefix: str = "") -> Q:
    """The rows of sessions that have not expired; ``prefix`` leads from other rows to them."""

    def used(initialized: bool) -> Q:
        oldest = to_datetime(store.oldest_use(initialized=initialized))
        return Q((f"{prefix}initialized", initialized), (f"{prefix}used_at__gt", oldest))

    return used(True) | used(False)


class DatabaseEventStore(_InDatabase, EventStore):
    """Stores events in a table, and the last number of each stream in another.

    ``using`` is the alias of its database; without it Django's routers choose. Expired events and
    streams cannot be read, and stay in the tables until ``prune``.
    """

    async def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        # A retry must not find an exhausted iterator.
        return await self._append_on_thread(session, stream, tuple(data))

    def _append(self, session: str, stream: str, data: Sequence[str]) -> int:
        now, name = to_datetime(self.now()), digest(session, stream)
        # The update locks the row of the stream, so that events are committed in order.
        with self._atomic():
            stream_row = self._rows(Stream).filter(pk=name)
            known = stream_row.filter(self._known)
            if known.update(last=F("last") + len(data), touched_at=now):
                last = stream_row.values_list("last", flat=True).get()
            else:
                last = self._open(session, name, len(data))
            events = self._rows(StreamEvent)
            events.bulk_create(
                StreamEvent(stream_id=name, number=number, data=text, created_at=now)
                for number, text in enumerate(data, last - len(data) + 1)
            )
            if last > self.limit:
                events.filter(stream=name, number__lte=last - self.limit).delete()
        return last

    _append_on_thread = _on_thread(_append)

    @_on_thread
    def move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        if not self._after(name, 0):
            return []
        with self._atomic():
            # The update locks the row of the source: of two concurrent moves, one finds no events.
            self._rows(Stream).filter(pk=name).update(touched_at=to_datetime(self.now()))
            data = [event.data for event in self._after(name, 0) or ()]
            self._rows(StreamEvent).filter(stream=name).delete()
            last = self._append(session, target, data) if data else 0
        return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    def _open(self, session: str, name: str, last: int) -> int:
        rows = self._rows(Stream)
        of_session = rows.filter(session=session)
        of_session.exclude(self._known).delete()
        if of_session.count() >= self.streams:
            oldest = of_session.filter(closed=True).order_by("touched_at").first()
            if oldest is None:
                raise StoreFull(f"This session has {self.streams} open streams already")
            oldest.delete()
        now = to_datetime(self.now())
        try:
            with self._atomic():
                rows.create(name=name, session=session, last=last, touched_at=now)
        except IntegrityError:
            raise _ConcurrentUpdate from None
        return last

    @_on_thread
    def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        return self._after(digest(session, stream), number)

    def _after(self, name: str, number: int) -> list[Event] | None:
        if not self._find(name).exists():
            return None
        oldest = to_datetime(self.now() - self.lifetime)
        events = self._rows(StreamEvent).filter(stream=name, created_at__gt=oldest)
        later = events.filter(number__gt=number).order_by("number")
        return [Event(*row) for row in later.values_list("number", "data")]

    @_on_thread
    def last(self, session: str, stream: str) -> int | None:
        found = self._find(digest(session, stream)).values_list("last", flat=True)
        return found.first()

    @_on_thread
    def close(self, session: str, stream: str) -> None:
        self._find(digest(session, stream)).update(closed=True, touched_at=to_datetime(self.now()))

    @_on_thread
    def close_abandoned(self, session: str, stream: str, after: float, data: str) -> bool:
        silent = Q(closed=False, touched_at__lte=to_datetime(self.now() - after))
        rows = self._find(digest(session, stream))
        if not rows.filter(silent).exists():
            return False
        with self._atomic():
            # The update locks the row, so that one of several callers finds it open.
            if not rows.filter(silent).update(closed=True, touched_at=to_datetime(self.now())):
                return False
            self._append(session, stream, [data])
        return True

    @_on_thread
    def is_closed(self, session: str, stream: str) -> bool:
        return not self._find(digest(session, stream)).filter(closed=False).exists()

    @_on_thread
    def forget(self, session: str) -> None:
        streams = self._rows(Stream).filter(session=session)
        # Most sessions have none, and a query costs less than a transaction.
        if streams.exists():
            streams.delete()

    @_on_thread
    def prune(self) -> int:
        old = to_datetime(self.now() - self.lifetime)
        dropped, _ = self._rows(StreamEvent).exclude(created_at__gt=old).delete()
        self._rows(Stream).exclude(self._known).delete()
        return dropped

    def _find(self, name: str) -> models.QuerySet[Stream]:
        return self._rows(Stream).filter(self._known, pk=name)

    @property
    def _known(self) -> Q:
        def is_live(closed: bool) -> Q:
            oldest = to_datetime(self.now() - self.stream_lifetime(closed=closed))
            return Q(closed=closed, touched_at__gt=oldest)

        return is_live(True) | is_live(False)


class _Statements:
    """The statements on sessions that most requests execute, compiled once for a connection.

    The ORM takes 200 to 300 µs to compile a statement, and the database 20 to 40 µs to execute it.
    A session of ten calls (scripts/bench, sessions-database) takes 7.6 ms. With the ORM its 13
    reads cost 45 % more, its deletion 13 %, its count 4 % and its update 3 %.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        quote = connection.ops.quote_name
        columns = ("address", "caller", "data", "initialized", "update_count", "used_at")
        table = quote(McpSession._meta.db_table)
        name, caller, data, initialized, count, used_at = map(quote, columns)
        where = f"WHERE {name} = %s AND {count} = %s"
        assigned = ", ".join(f"{column} = %s" for column in (data, initialized, count, used_at))
        self._update = f"UPDATE {table} SET {assigned} {where}"
        self._delete = f"DELETE FROM {table} {where}"
        self._count = f"SELECT COUNT(*) FROM {table} WHERE {caller} = %s"
        # Compiled by the ORM, which knows how each database returns a time. A RawQuerySet, the
        # public interface, takes 90 µs more for each read: 16 % of the session.
        rows = McpSession._default_manager.using(connection.alias).filter(pk="0")
        read = rows.values_list("data", "used_at", "update_count", "initialized").query
        self._compiler = read.get_compiler(connection=connection)
        self._read, _ = self._compiler.as_sql()
        selected = [column for column, _, _ in self._compiler.select or ()]
        self._converters = self._compiler.get_converters(selected)

    def read(self, name: str) -> _Row | None:
        found = self._rows(self._read, name)
        if self._converters:
            found = list(self._compiler.apply_converters(found, self._converters))
        return tuple(found[0]) if found else None

    def update(self, session: Session, count: int, data: str, used_at: datetime) -> bool:
        """Write a session that was read with this update count; False after another update."""
        values = data, session.initialized, count + 1, self._time(used_at)
        return self._change(self._update, *values, session.address, count)

    def delete(self, name: str, count: int) -> bool:
        """Delete a session that was read with this update count; False after an update."""
        return self._change(self._delete, name, count)

    def count(self, caller: str) -> int:
        """The number of sessions of a caller, expired ones included."""
        return cast("int", self._rows(self._count, caller)[0][0])

    def _time(self, moment: datetime) -> Any:
        return self.connection.ops.adapt_datetimefield_value(moment)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cast("list[Any]", cursor.fetchall())

    def _change(self, statement: str, *values: Any) -> bool:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cast("int", cursor.rowcount) > 0


_local = threading.local()
"""Statements by alias. They end with their thread, as its connections do."""


class _ConcurrentUpdate(Exception):
    """The row was written by others after it was read."""


def to_datetime(seconds: float) -> datetime:
    """The time for a column: aware or, without USE_TZ, naive and local."""
    return datetime.fromtimestamp(seconds, tz=UTC if settings.USE_TZ else None)
