"""Sessions and events in the database, by Django's ORM: the default.

Every worker that has the site's database has its sessions, so it needs no configuration. It
works on every database which Django supports. Where an update is read and then written, the
write names what was read, and starts again when it was overtaken: no lock is held while Python
thinks, and SQLite, which has no locks on rows, needs nothing else.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import IntegrityError, OperationalError, connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q

from django_mcp.frame.session import Change, Session, address
from django_mcp.models import PRINCIPAL_LENGTH, McpSession, Stream, StreamEvent, Subscription
from django_mcp.runtime import threads
from django_mcp.stores.base import (
    PATIENCE,
    Clock,
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    StoreFull,
    digest,
    pack,
    unpack,
)

P = ParamSpec("P")
T = TypeVar("T")
Model = TypeVar("Model", bound=models.Model)


# Databases have no common code for others being in the way, but all say it in one of these words.
CONTENTION = ("lock", "serialize", "restarting transaction")


class DatabaseSessionStore(SessionStore):
    """Keeps sessions in a table.

    ``using`` is the alias of its database; without it Django's routers are asked. Expired
    sessions stay in the table until ``prune``, though nobody can load them.
    """

    def __init__(
        self,
        *,
        idle_timeout: float,
        limit_per_principal: int,
        now: Clock = time.time,
        using: str | None = None,
    ) -> None:
        super().__init__(
            idle_timeout=idle_timeout, limit_per_principal=limit_per_principal, now=now
        )
        self.using = using

    async def create(self, session: Session) -> None:
        await threads.run_in_store_pool(_with_retries, self._create, session)

    async def load(self, session_id: str) -> Session | None:
        return await threads.run_in_store_pool(_with_retries, self._load, session_id)

    async def update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        return await threads.run_in_store_pool(_with_retries, self._update, session_id, changes)

    async def touch(self, session_id: str) -> None:
        await threads.run_in_store_pool(_with_retries, self._touch, session_id)

    async def delete(self, session_id: str) -> bool:
        return await threads.run_in_store_pool(_with_retries, self._delete, session_id)

    async def subscribers(self, server: str, uri: str) -> list[str]:
        return await threads.run_in_store_pool(_with_retries, self._subscribers, server, uri)

    async def prune(self) -> int:
        return await threads.run_in_store_pool(_with_retries, self._prune)

    def _create(self, session: Session) -> None:
        now = to_datetime(self.now())
        principal = session.principal[:PRINCIPAL_LENGTH]
        if self._is_full(principal):
            raise StoreFull(f"This caller has {self.limit_per_principal} sessions already")
        with self._together(session.subscriptions):
            self._rows.create(
                address=session.address,
                server=session.server,
                principal=principal,
                version=session.version,
                data=pack(session),
                created_at=now,
                used_at=now,
            )
            self._subscribe(session, session.subscriptions)

    def _is_full(self, principal: str) -> bool:
        """Whether this principal has as many sessions as it may.

        MySQL takes names for the same that differ in case, so it only says who may be full.
        """
        held = _statements(self.using).count(principal, to_datetime(self.oldest_use))
        if held < self.limit_per_principal:
            return False
        names = list(self._live.filter(principal=principal).values_list("principal", flat=True))
        return names.count(principal) >= self.limit_per_principal

    def _load(self, session_id: str) -> Session | None:
        row = self._read(session_id)
        if row is None:
            return None
        data, used_at, _ = row
        if self.is_worth_noting(used_at.timestamp()):
            self._touch(session_id)
        return unpack(data, session_id=session_id)

    def _read(self, session_id: str) -> tuple[str, datetime, int] | None:
        """What there is of a live session: data, last use, update count.

        The age is compared here, which takes less than to tell it to the database.
        """
        row = _statements(self.using).read(address(session_id))
        return row if row is not None and self.is_live(row[1].timestamp()) else None

    def _update(self, session_id: str, changes: Sequence[Change]) -> Session | None:
        row = self._read(session_id)
        if row is None:
            return None
        data, _, count = row
        before = unpack(data, session_id=session_id)
        after = before.apply(changes)
        text = pack(after)
        # The write comes first in its transaction: SQLite refuses at once, without waiting,
        # to let a transaction write that has read before somebody else wrote.
        with self._together(before.subscriptions ^ after.subscriptions):
            now = to_datetime(self.now())
            if not _statements(self.using).update(after.address, count, text, now):
                raise _ConcurrentUpdate
            self._unsubscribe(after, before.subscriptions - after.subscriptions)
            self._subscribe(after, after.subscriptions - before.subscriptions)
        return unpack(text, session_id=session_id)

    def _touch(self, session_id: str) -> None:
        stale = Q(used_at__lte=to_datetime(self.now() - self.grain))
        self._live.filter(stale, pk=address(session_id)).update(used_at=to_datetime(self.now()))

    def _delete(self, session_id: str) -> bool:
        row = self._read(session_id)
        if row is None:
            return False
        data, _, count = row
        session = unpack(data, session_id=session_id)
        with self._together(session.subscriptions):
            if session.subscriptions:
                _rows(Subscription, self.using).filter(session=session.address).delete()
            # There are no others, as long as the count is what it was.
            if not _statements(self.using).delete(session.address, count):
                raise _ConcurrentUpdate
        return True

    def _subscribers(self, server: str, uri: str) -> list[str]:
        live = Q(session__used_at__gt=to_datetime(self.oldest_use))
        found = _rows(Subscription, self.using).filter(live, resource=digest(server, uri))
        return list(found.values_list("session_id", flat=True))

    def _prune(self) -> int:
        _, deleted = self._rows.exclude(used_at__gt=to_datetime(self.oldest_use)).delete()
        return deleted.get(McpSession._meta.label, 0)

    def _subscribe(self, session: Session, uris: Collection[str]) -> None:
        if uris:
            _rows(Subscription, self.using).bulk_create(
                Subscription(session_id=session.address, resource=digest(session.server, uri))
                for uri in uris
            )

    def _unsubscribe(self, session: Session, uris: Collection[str]) -> None:
        if uris:
            resources = [digest(session.server, uri) for uri in uris]
            _rows(Subscription, self.using).filter(
                session=session.address, resource__in=resources
            ).delete()

    def _together(self, subscriptions: Collection[str]) -> AbstractContextManager[Any]:
        """A transaction, where more has to be written than the session's own row."""
        return transaction.atomic(_alias(self.using)) if subscriptions else nullcontext()

    @property
    def _rows(self) -> models.QuerySet[McpSession]:
        return _rows(McpSession, self.using)

    @property
    def _live(self) -> models.QuerySet[McpSession]:
        return self._rows.filter(used_at__gt=to_datetime(self.oldest_use))


class DatabaseEventStore(EventStore):
    """Keeps events in a table, and in another how far each stream has come.

    ``using`` is the alias of its database; without it Django's routers are asked. What is too
    old stays in the tables until ``prune``, though nobody can read it.
    """

    def __init__(
        self,
        *,
        limit: int,
        lifetime: float,
        streams: int,
        now: Clock = time.time,
        using: str | None = None,
    ) -> None:
        super().__init__(limit=limit, lifetime=lifetime, streams=streams, now=now)
        self.using = using

    async def append(self, session: str, stream: str, data: Iterable[str]) -> int:
        return await threads.run_in_store_pool(
            _with_retries, self._append, session, stream, tuple(data)
        )

    async def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        return await threads.run_in_store_pool(
            _with_retries, self._after, digest(session, stream), number
        )

    async def move(self, session: str, source: str, target: str) -> list[Event]:
        return await threads.run_in_store_pool(_with_retries, self._move, session, source, target)

    async def close(self, session: str, stream: str) -> None:
        await threads.run_in_store_pool(_with_retries, self._close, digest(session, stream))

    async def is_closed(self, session: str, stream: str) -> bool:
        return await threads.run_in_store_pool(
            _with_retries, self._is_closed, digest(session, stream)
        )

    async def forget(self, session: str) -> None:
        await threads.run_in_store_pool(_with_retries, self._forget, session)

    async def prune(self) -> int:
        return await threads.run_in_store_pool(_with_retries, self._prune)

    def _append(self, session: str, stream: str, data: Sequence[str]) -> int:
        now, name = to_datetime(self.now()), digest(session, stream)
        # Counting first locks the stream's row, so that events appear in the order of numbers.
        with transaction.atomic(_alias(self.using)):
            last = self._count(session, name, len(data))
            _rows(StreamEvent, self.using).bulk_create(
                StreamEvent(stream_id=name, number=number, data=text, created_at=now)
                for number, text in enumerate(data, last - len(data) + 1)
            )
            if last > self.limit:
                _rows(StreamEvent, self.using).filter(
                    stream=name, number__lte=last - self.limit
                ).delete()
        return last

    def _move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        if not self._after(name, 0):
            return []
        with transaction.atomic(_alias(self.using)):
            # The write locks the source's row, so that of two who move one finds it empty.
            _rows(Stream, self.using).filter(pk=name).update(touched_at=to_datetime(self.now()))
            data = [event.data for event in self._after(name, 0) or ()]
            _rows(StreamEvent, self.using).filter(stream=name).delete()
            last = self._append(session, target, data) if data else 0
        return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    def _count(self, session: str, name: str, more: int) -> int:
        """The last number of the stream, which is opened if need be, after ``more`` events."""
        streams = _rows(Stream, self.using).filter(pk=name)
        counted = streams.filter(self._known).update(
            last=F("last") + more, touched_at=to_datetime(self.now())
        )
        if counted:
            return streams.values_list("last", flat=True).get()
        self._open(session, name, more)
        return more

    def _open(self, session: str, name: str, last: int) -> None:
        rows = _rows(Stream, self.using)
        of_session = rows.filter(session=session)
        of_session.exclude(self._known).delete()
        if of_session.count() >= self.streams:
            oldest = of_session.filter(closed=True).order_by("touched_at").first()
            if oldest is None:
                raise StoreFull(f"This session has {self.streams} open streams already")
            oldest.delete()
        try:
            with transaction.atomic(_alias(self.using)):
                rows.create(
                    name=name, session=session, last=last, touched_at=to_datetime(self.now())
                )
        except IntegrityError:
            raise _ConcurrentUpdate from None

    def _after(self, name: str, number: int) -> list[Event] | None:
        last = self._find(name).values_list("last", flat=True).first()
        if last is None:
            return None
        events = _rows(StreamEvent, self.using).filter(
            stream=name, number__gt=number, created_at__gt=to_datetime(self.now() - self.lifetime)
        )
        return [Event(*row) for row in events.order_by("number").values_list("number", "data")]

    def _close(self, name: str) -> None:
        self._find(name).update(closed=True, touched_at=to_datetime(self.now()))

    def _is_closed(self, name: str) -> bool:
        return not self._find(name).filter(closed=False).exists()

    def _forget(self, session: str) -> None:
        # Most sessions have none, and to look costs less than to write.
        if _statements(self.using).has_streams(session):
            _rows(Stream, self.using).filter(session=session).delete()

    def _prune(self) -> int:
        old = to_datetime(self.now() - self.lifetime)
        dropped, _ = _rows(StreamEvent, self.using).exclude(created_at__gt=old).delete()
        _rows(Stream, self.using).exclude(self._known).delete()
        return dropped

    def _find(self, name: str) -> models.QuerySet[Stream]:
        return _rows(Stream, self.using).filter(self._known, pk=name)

    @property
    def _known(self) -> Q:
        def since(closed: bool) -> datetime:
            return to_datetime(self.now() - self.stream_lifetime(closed=closed))

        return Q(closed=True, touched_at__gt=since(True)) | Q(
            closed=False, touched_at__gt=since(False)
        )


class _Statements:
    """What most requests want of the database, written out once for a connection.

    Django takes 100 to 300 µs to build such a statement, and the database 20 to carry it out.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        quote = connection.ops.quote_name
        names = {each.name: quote(each.column or "") for each in McpSession._meta.concrete_fields}
        table = quote(McpSession._meta.db_table)
        found = "WHERE {address} = %s AND {update_count} = %s".format(**names)
        self._update = f"UPDATE {table} SET " + (
            "{data} = %s, {update_count} = %s, {used_at} = %s ".format(**names) + found
        )
        self._delete = f"DELETE FROM {table} {found}"
        self._count = f"SELECT COUNT(*) FROM {table} " + (
            "WHERE {principal} = %s AND {used_at} > %s".format(**names)
        )
        streams = {each.name: quote(each.column or "") for each in Stream._meta.concrete_fields}
        self._names = f"SELECT {streams['name']} FROM {quote(Stream._meta.db_table)} " + (
            f"WHERE {streams['session']} = %s"
        )
        rows = McpSession._default_manager.using(connection.alias).filter(pk="0")
        read = rows.values_list("data", "used_at", "update_count").query
        self._compiler = read.get_compiler(connection=connection)
        self._read, _ = self._compiler.as_sql()
        columns = [column for column, _, _ in self._compiler.select or ()]
        self._converters = self._compiler.get_converters(columns)

    def read(self, name: str) -> tuple[str, datetime, int] | None:
        """What there is of a session: data, last use, update count."""
        found = self._rows(self._read, name)
        if self._converters:
            found = list(self._compiler.apply_converters(found, self._converters))
        return tuple(found[0]) if found else None

    def update(self, name: str, count: int, data: str, used_at: datetime) -> bool:
        """Write a session that was read with this count; False when somebody else was faster."""
        return self._change(self._update, data, count + 1, self._time(used_at), name, count)

    def delete(self, name: str, count: int) -> bool:
        """Delete the row of a session that was read with this count, and nothing else."""
        return self._change(self._delete, name, count)

    def count(self, principal: str, oldest_use: datetime) -> int:
        """How many sessions a principal has which were used since."""
        number: int = self._rows(self._count, principal, self._time(oldest_use))[0][0]
        return number

    def has_streams(self, session: str) -> bool:
        """Whether a session has streams."""
        return bool(self._rows(self._names, session))

    def _time(self, moment: datetime) -> Any:
        return self.connection.ops.adapt_datetimefield_value(moment)

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            rows: list[Any] = cursor.fetchall()
        return rows

    def _change(self, statement: str, *values: Any) -> bool:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            changed: int = cursor.rowcount
        return changed > 0


class _Here(threading.local):
    """The current thread's statements, by database: they end with it, as its connections do."""

    def __init__(self) -> None:
        self.statements: dict[str, _Statements] = {}


_here = _Here()


def _statements(using: str | None) -> _Statements:
    """The statements for this thread's connection to the database."""
    alias = _alias(using)
    connection, known = connections[alias], _here.statements.get(alias)
    if known is None or known.connection is not connection:
        known = _here.statements[alias] = _Statements(connection)
    return known


class _ConcurrentUpdate(Exception):
    """Somebody else wrote what we have read, before we did."""


def to_datetime(seconds: float) -> datetime:
    """The time as the project's databases have it: aware or, without USE_TZ, naive and local."""
    return datetime.fromtimestamp(seconds, tz=UTC if settings.USE_TZ else None)


def _rows(model: type[Model], using: str | None) -> models.QuerySet[Model]:
    return model._default_manager.using(_alias(using))


def _alias(using: str | None) -> str:
    """The database to write to. We also read there: a replica may not know the session yet."""
    return using or router.db_for_write(McpSession)


def _with_retries(body: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``body`` returns, begun again as long as other writers are in its way."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return body(*args, **kwargs)
        except (_ConcurrentUpdate, OperationalError) as error:
            if not _is_contention(error):
                raise
            if time.monotonic() > deadline:
                raise StoreBusy("The session is being written by too many at once") from error
        time.sleep(random.uniform(0.001, 0.02))  # Not all losers at the same time.


def _is_contention(error: Exception) -> bool:
    """Whether the database is well, and only others are in the way."""
    said = str(error).lower()
    return isinstance(error, _ConcurrentUpdate) or any(word in said for word in CONTENTION)
