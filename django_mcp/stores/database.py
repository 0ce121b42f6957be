"""Sessions and events in the database, through Django's ORM: the default stores.

All workers of a site share its database, so these stores need no configuration. They work on every
database that Django supports. An update names the version of the row that it has read, and starts
again after a concurrent update: no lock is held in between, and SQLite has no row locks.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from django.conf import settings
from django.db import IntegrityError, connections, models, router, transaction
from django.db.models import Count, F, Q

from django_mcp.core.frame.session import Change, Session, address
from django_mcp.models import PRINCIPAL_LENGTH, McpSession, Stream, StreamEvent, Subscription
from django_mcp.stores.base import (
    STEP,
    Check,
    Event,
    EventStore,
    SessionStore,
    StoreFull,
    digest,
    in_steps,
    pack,
    unpack,
)
from django_mcp.stores.retries import ConcurrentUpdate, retried_on_thread
from django_mcp.stores.statements import SessionRow, SessionStatements, StreamStatements

Model = TypeVar("Model", bound=models.Model)
Statements = TypeVar("Statements", SessionStatements, StreamStatements)

AT_ONCE = 500
"""Names in one query: some databases take a thousand parameters at most."""


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

    def _compiled(self, kind: type[Statements]) -> Statements:
        """The statements of this thread's connection."""
        connection = connections[self._alias]
        kept: dict[type, Any] = vars(_local).setdefault(self._alias, {})
        cached: Statements | None = kept.get(kind)
        if cached is None or cached.connection is not connection:
            cached = kind(connection)
            kept[kind] = cached
        return cached


class DatabaseSessionStore(_InDatabase, SessionStore):
    """Stores sessions in a table.

    ``using`` is the alias of its database; without it Django's routers choose. Expired sessions
    cannot be loaded, and stay in the table until ``prune``.
    """

    @property
    def _statements(self) -> SessionStatements:
        return self._compiled(SessionStatements)

    @retried_on_thread
    def create(self, session: Session) -> None:
        now = to_datetime(self.now())
        caller = digest(session.counted_as)
        self._make_room(caller)
        with self._transaction_if(bool(session.subscriptions)):
            self._statements.insert(session, caller, pack(session), now)
            self._subscribe(session, session.subscriptions)

    def _make_room(self, caller: str) -> None:
        """Delete expired sessions of this caller or, if there are none, the longest idle ones.

        Nothing is deleted while the caller has fewer than the limit.
        """
        if self._statements.count(caller) < self.limit_per_principal:
            return
        rows = self._rows(McpSession).filter(caller=caller)
        self._delete_rows(rows.filter(expired(self)))
        excess = rows.count() - self.limit_per_principal + 1
        if excess > 0:
            may_go = Q(initialized=False) | Q(used_at__lte=to_datetime(self.idle_since))
            idle = rows.filter(may_go).order_by("used_at").values_list("pk", flat=True)
            names = list(idle[:excess])
            if len(names) < excess:
                raise self.full()
            self._delete_rows(rows.filter(may_go, pk__in=names))

    def _delete_rows(self, rows: models.QuerySet[McpSession]) -> int:
        """Delete sessions, some at a time, with their subscriptions; return their number.

        They are locked first: a concurrent update waits, and then finds no session.
        """
        names = list(rows.values_list("pk", flat=True)[:STEP])
        if not names:
            return 0
        with self._atomic():
            locked = rows.filter(pk__in=names)
            locked.update(update_count=F("update_count") + 1)
            _, deleted = locked.delete()
        return deleted.get(McpSession._meta.label, 0)

    @retried_on_thread
    def load(self, session_id: str) -> Session | None:
        row = self._read(session_id)
        if row is None:
            return None
        self._touch_if_due(session_id, row)
        return unpack(row[0], session_id=session_id)

    def _touch_if_due(self, session_id: str, row: SessionRow) -> None:
        _, used_at, _, initialized = row
        if self.is_touch_due(used_at.timestamp(), initialized=initialized):
            self._touch(session_id)

    def _read(self, session_id: str) -> SessionRow | None:
        row = self._statements.read(address(session_id))
        if row is None or not self.is_live(row[1].timestamp(), initialized=row[3]):
            return None
        return row

    @retried_on_thread
    def update(
        self, session_id: str, changes: Sequence[Change], *, check: Check | None = None
    ) -> Session | None:
        row = self._read(session_id)
        if row is None:
            return None
        data, _, update_count, _ = row
        before = unpack(data, session_id=session_id)
        if check is not None:
            check(before)
        after = before.apply(changes)
        text = pack(after)
        if text == data:
            self._touch_if_due(session_id, row)
            return before
        if after.counted_as != before.counted_as:
            self._make_room(digest(after.counted_as))
        is_taken_over = after.principal != before.principal
        # The write comes first in its transaction: SQLite raises at once, without waiting, when a
        # transaction has read before another one's write and then writes itself.
        with self._transaction_if(is_taken_over or before.subscriptions != after.subscriptions):
            now = to_datetime(self.now())
            if not self._statements.update(after, update_count, text, now):
                raise ConcurrentUpdate
            if is_taken_over:
                self._rows(McpSession).filter(pk=after.address).update(
                    principal=after.principal[:PRINCIPAL_LENGTH],
                    caller=digest(after.counted_as),
                )
            removed = before.subscriptions - after.subscriptions
            if removed:
                rows = self._rows(Subscription).filter(session=after.address)
                rows.filter(resource__in=[digest(after.server, uri) for uri in removed]).delete()
            self._subscribe(after, after.subscriptions - before.subscriptions)
        return unpack(text, session_id=session_id)

    @retried_on_thread
    def touch(self, session_id: str) -> None:
        self._touch(session_id)

    def _touch(self, session_id: str) -> None:
        rows = self._rows(McpSession).filter(live(self), pk=address(session_id))
        recently = to_datetime(self.now() - self.touch_interval)
        stale = Q(initialized=False) | Q(used_at__lte=recently)
        rows.filter(stale).update(used_at=to_datetime(self.now()))

    @retried_on_thread
    def delete(self, session_id: str, *, check: Check | None = None) -> bool:
        row = self._read(session_id)
        if row is None:
            return False
        data, _, update_count, _ = row
        session = unpack(data, session_id=session_id)
        if check is not None:
            check(session)
        with self._transaction_if(bool(session.subscriptions)):
            if session.subscriptions:
                self._rows(Subscription).filter(session=session.address).delete()
            # There are no other subscriptions while the update count is unchanged.
            if not self._statements.delete(session.address, update_count):
                raise ConcurrentUpdate
        return True

    @retried_on_thread
    def subscribers(self, server: str, uri: str) -> list[str]:
        subscriptions = self._rows(Subscription).filter(resource=digest(server, uri))
        of_live_sessions = subscriptions.filter(live(self, "session__"))
        return list(of_live_sessions.values_list("session_id", flat=True))

    @retried_on_thread
    def subscribers_of_each(self, server: str, uris: Sequence[str]) -> dict[str, list[str]]:
        subscribers: dict[str, list[str]] = {uri: [] for uri in uris}
        resources = {digest(server, uri): uri for uri in uris}
        for start in range(0, len(uris), AT_ONCE):
            some = list(resources)[start : start + AT_ONCE]
            rows = self._rows(Subscription).filter(live(self, "session__"), resource__in=some)
            for resource, session in rows.values_list("resource", "session_id"):
                subscribers[resources[resource]].append(session)
        return subscribers

    async def prune(self, *, pause: float = 0.0) -> int:
        return await in_steps(self._prune_some, pause)

    @retried_on_thread
    def _prune_some(self) -> int:
        return self._delete_rows(self._rows(McpSession).filter(expired(self)))

    def _subscribe(self, session: Session, uris: Collection[str]) -> None:
        if uris:
            self._rows(Subscription).bulk_create(
                Subscription(session_id=session.address, resource=digest(session.server, uri))
                for uri in uris
            )

    def _transaction_if(self, writes_more: bool) -> AbstractContextManager[Any]:
        """A transaction, where more than one statement writes."""
        return self._atomic() if writes_more else nullcontext()


def live(store: SessionStore, prefix: str = "") -> Q:
    """The rows of sessions that have not expired; ``prefix`` leads from other rows to them."""

    def used(initialized: bool) -> Q:
        oldest = to_datetime(store.oldest_use(initialized=initialized))
        return Q((f"{prefix}initialized", initialized), (f"{prefix}used_at__gt", oldest))

    return used(True) | used(False)


def expired(store: SessionStore) -> Q:
    """The rows of sessions that have expired. An index finds them, which the opposite does not."""

    def unused(initialized: bool) -> Q:
        oldest = to_datetime(store.oldest_use(initialized=initialized))
        return Q(initialized=initialized, used_at__lte=oldest)

    return unused(True) | unused(False)


class DatabaseEventStore(_InDatabase, EventStore):
    """Stores events in a table, and the last number of each stream in another.

    ``using`` is the alias of its database; without it Django's routers choose. Expired events and
    streams cannot be read, and stay in the tables until ``prune``.
    """

    @property
    def _statements(self) -> StreamStatements:
        return self._compiled(StreamStatements)

    async def append(
        self, session: str, stream: str, data: Iterable[str], *, create: bool = True, first: int = 1
    ) -> int:
        # A retry must not find an exhausted iterator.
        texts = tuple(data)
        return await self._append_on_thread(session, stream, texts, create=create, first=first)

    def _append(
        self, session: str, stream: str, data: Sequence[str], *, create: bool = True, first: int = 1
    ) -> int:
        name = digest(session, stream)
        statements = self._statements
        # The update locks the row of the stream, so that events are committed in order. In another
        # transaction, it needs no savepoint: an error ends that as well.
        with transaction.atomic(self._alias, savepoint=False):
            now = to_datetime(self.now())
            last = statements.extend(name, len(data), now, self._oldest(False), self._oldest(True))
            if last is None:
                if not create:
                    return 0
                last = first - 1 + len(data)
                if self._open({name: session}, last):
                    raise StoreFull(f"This session has {self.streams} open streams already")
            statements.insert(name, last, data, now)
            if last > self.limit:
                statements.delete(name, last - self.limit)
        return last

    _append_on_thread = retried_on_thread(_append)

    @retried_on_thread
    def append_to_each(self, stream: str, data: Mapping[str, Sequence[str]]) -> list[str]:
        names = {digest(session, stream): session for session in data}
        with self._atomic():
            lasts = self._lock(list(names))
            missing = {name: names[name] for name in names.keys() - lasts.keys()}
            full = self._open(missing) if missing else []
            added: dict[str, tuple[int, Sequence[str]]] = {}
            for name, session in names.items():
                if session not in full:
                    messages = data[session]
                    last = lasts.get(name, 0) + len(messages)
                    added[name] = (last, messages)
            self._count(added)
            self._add_events(added)
        return full

    def _lock(self, names: Sequence[str]) -> dict[str, int]:
        """Lock streams, and return the last number of each that is known.

        They are locked in one order, so that two workers which lock several never wait for each
        other. A stream that is created after that is not locked, and not returned.
        """
        rows = self._rows(Stream).filter(self._live, pk__in=names)
        if connections[self._alias].features.has_select_for_update:
            rows = rows.select_for_update().order_by("pk")
        else:
            rows.update(touched_at=F("touched_at"))  # SQLite locks the whole database.
        return dict(rows.values_list("name", "last"))

    def _count(self, added: Mapping[str, tuple[int, Sequence[str]]]) -> None:
        """Write that messages were appended to streams: most have got the same number of them."""
        by_number: dict[int, list[str]] = {}
        for name, (_, messages) in added.items():
            by_number.setdefault(len(messages), []).append(name)
        now = to_datetime(self.now())
        for number, names in by_number.items():
            self._rows(Stream).filter(pk__in=names).update(last=F("last") + number, touched_at=now)

    def _add_events(self, added: Mapping[str, tuple[int, Sequence[str]]]) -> None:
        """Write messages, given by stream with the number of the last one, and drop old ones."""
        events = self._rows(StreamEvent)
        now = to_datetime(self.now())
        events.bulk_create(
            StreamEvent(stream_id=name, number=number, data=text, created_at=now)
            for name, (last, messages) in added.items()
            for number, text in enumerate(messages, last - len(messages) + 1)
        )
        excess = [
            Q(stream=name, number__lte=last - self.limit)
            for name, (last, _) in added.items()
            if last > self.limit
        ]
        if excess:
            events.filter(reduce(or_, excess)).delete()

    @retried_on_thread
    def move(self, session: str, source: str, target: str) -> list[Event]:
        name = digest(session, source)
        statements = self._statements
        oldest = to_datetime(self.now() - self.lifetime)
        # A stream lives longer than its events, so it needs no look of its own.
        if not statements.read_data(name, oldest):
            return []
        with self._atomic():
            # The update locks the row of the source: of two concurrent moves, one finds no events.
            statements.touch(name, to_datetime(self.now()))
            data = statements.read_data(name, oldest)
            if not data:
                return []
            statements.delete(name)
            last = self._append(session, target, data)
        return [Event(number, text) for number, text in enumerate(data, last - len(data) + 1)]

    def _open(self, names: Mapping[str, str], last: int = 0) -> list[str]:
        """Create streams, given with their sessions; return the sessions with too many streams."""
        full = self._make_room(list(names.values()))
        now = to_datetime(self.now())
        try:
            with self._atomic():
                self._rows(Stream).bulk_create(
                    Stream(name=name, session=session, last=last, touched_at=now)
                    for name, session in names.items()
                    if session not in full
                )
        except IntegrityError:
            raise ConcurrentUpdate from None
        return full

    def _make_room(self, sessions: Sequence[str]) -> list[str]:
        """Make room for one more stream of each session; return the sessions without room."""
        full: list[str] = []
        rows = self._rows(Stream).filter(session__in=sessions)
        self._delete_rows(rows.filter(self._expired))
        counted = rows.values_list("session").annotate(Count("pk")).order_by()
        for session, _ in counted.filter(pk__count__gte=self.streams):
            closed = rows.filter(session=session, closed=True)
            oldest = closed.order_by("touched_at").first()
            if oldest is None:
                full.append(session)
            else:
                self._delete_rows(rows.filter(pk=oldest.pk))
        return full

    @retried_on_thread
    def after(self, session: str, stream: str, number: int) -> list[Event] | None:
        return self._after(digest(session, stream), number)

    def _after(self, name: str, number: int) -> list[Event] | None:
        if not self._find(name).exists():
            return None
        oldest = to_datetime(self.now() - self.lifetime)
        events = self._rows(StreamEvent).filter(stream=name, created_at__gt=oldest)
        later = events.filter(number__gt=number).order_by("number")
        return [Event(*row) for row in later.values_list("number", "data")]

    @retried_on_thread
    def last(self, session: str, stream: str) -> int | None:
        row = self._statements.read(digest(session, stream))
        if row is None:
            return None
        last, closed, touched_at = row
        is_live = self.is_live_stream(touched_at.timestamp(), closed=closed)
        return last if is_live else None

    @retried_on_thread
    def last_of_each(self, streams: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        names = {digest(*key): key for key in streams}
        rows = self._rows(Stream).filter(self._live)
        numbers: dict[tuple[str, str], int] = {}
        for start in range(0, len(streams), AT_ONCE):
            some = rows.filter(pk__in=list(names)[start : start + AT_ONCE])
            numbers.update((names[name], last) for name, last in some.values_list("name", "last"))
        return numbers

    @retried_on_thread
    def close(self, session: str, stream: str) -> None:
        self._find(digest(session, stream)).update(closed=True, touched_at=to_datetime(self.now()))

    @retried_on_thread
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

    @retried_on_thread
    def is_closed(self, session: str, stream: str) -> bool:
        return not self._find(digest(session, stream)).filter(closed=False).exists()

    @retried_on_thread
    def forget(self, session: str) -> None:
        # Most sessions have none, and a query costs less than a transaction.
        if self._statements.count(session):
            while self._delete_rows(self._rows(Stream).filter(session=session)):
                pass

    def _delete_rows(self, rows: models.QuerySet[Stream]) -> int:
        """Delete streams, some at a time, with their events; return their number.

        They are locked first: a concurrent append waits and then finds no stream, and one that
        came before is waited for. Otherwise it could leave an event without a stream.
        """
        names = list(rows.values_list("pk", flat=True)[:STEP])
        if not names:
            return 0
        with self._atomic():
            locked = rows.filter(pk__in=names)
            locked.update(closed=F("closed"))
            _, deleted = locked.delete()
        return deleted.get(Stream._meta.label, 0)

    async def prune(self, *, pause: float = 0.0) -> int:
        dropped = await in_steps(self._prune_events, pause)
        await in_steps(self._prune_streams, pause)
        return dropped

    @retried_on_thread
    def _prune_events(self) -> int:
        old = to_datetime(self.now() - self.lifetime)
        rows = self._rows(StreamEvent).filter(created_at__lte=old)
        names = list(rows.values_list("pk", flat=True)[:STEP])
        return rows.filter(pk__in=names).delete()[0] if names else 0

    @retried_on_thread
    def _prune_streams(self) -> int:
        return self._delete_rows(self._rows(Stream).filter(self._expired))

    @retried_on_thread
    def claim(self, name: str, seconds: float) -> bool:
        # A row of a stream without events or session, which expires as any other.
        rows = self._rows(Stream).filter(pk=digest("claim", name))
        now = self.now()
        free = rows.filter(touched_at__lte=to_datetime(now - seconds))
        if free.update(touched_at=to_datetime(now)):
            return True
        if rows.exists():
            return False
        try:
            with self._atomic():
                moment = to_datetime(now)
                rows.create(name=digest("claim", name), session="", last=0, touched_at=moment)
        except IntegrityError:
            return False
        return True

    def _find(self, name: str) -> models.QuerySet[Stream]:
        return self._rows(Stream).filter(self._live, pk=name)

    @property
    def _live(self) -> Q:
        def is_live(closed: bool) -> Q:
            return Q(closed=closed, touched_at__gt=self._oldest(closed))

        return is_live(True) | is_live(False)

    @property
    def _expired(self) -> Q:
        def is_expired(closed: bool) -> Q:
            return Q(closed=closed, touched_at__lte=self._oldest(closed))

        return is_expired(True) | is_expired(False)

    def _oldest(self, closed: bool) -> datetime:
        """When streams were last written that expire now."""
        return to_datetime(self.now() - self.stream_lifetime(closed=closed))


_local = threading.local()
"""Statements by alias and kind. They end with their thread, as its connections do."""


def to_datetime(seconds: float) -> datetime:
    """The time for a column: aware or, without USE_TZ, naive and local."""
    return datetime.fromtimestamp(seconds, tz=UTC if settings.USE_TZ else None)
