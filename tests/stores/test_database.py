"""The database stores satisfy the contracts, on every available database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import OperationalError, connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker, Settings

from django_mcp.core.frame.session import Change, Session
from django_mcp.models import McpSession, Stream, StreamEvent, Subscription
from django_mcp.runtime import pools
from django_mcp.runtime.store_operations import StoreUnavailable
from django_mcp.stores import database as module
from django_mcp.stores import retries
from django_mcp.stores.base import (
    Event,
    EventStore,
    SessionStore,
    StoreBusy,
    pack,
)
from django_mcp.stores.database import DatabaseEventStore, DatabaseSessionStore
from django_mcp.stores.statements import StreamStatements
from tests.databases import KINDS, STRICT_OPTIONS, available, scratch_database, why_not_database
from tests.spec import spec
from tests.stores.contracts import (
    IDLE_TIMEOUT,
    LIFETIME,
    Clock,
    a_session,
    put,
)
from tests.stores.event_cases import EventStoreCases
from tests.stores.session_cases import SessionStoreCases

# An option of MySQL, and the default of newer MariaDB where reads are repeatable.


class TestDatabaseSessions(SessionStoreCases):
    @pytest.fixture(autouse=True)
    def _use(self, database: str) -> None:
        self.using = database

    def make_store(self, **bounds: Any) -> SessionStore:
        return DatabaseSessionStore(**bounds, using=self.using)

    async def test_concurrent_sessions_are_created(self, store: SessionStore) -> None:
        await asyncio.gather(*(store.create(a_session(number)) for number in range(20)))
        assert await store.load(a_session(19).id) == a_session(19)


class TestDatabaseEvents(EventStoreCases):
    @pytest.fixture(autouse=True)
    def _use(self, database: str) -> None:
        self.using = database

    def make_store(self, **bounds: Any) -> EventStore:
        return DatabaseEventStore(**bounds, using=self.using)


@pytest.mark.parametrize("kind", KINDS)
def test_database_is_available(kind: str) -> None:
    reason = why_not_database(kind)
    if reason is not None:
        pytest.skip(reason)


def sessions(database: str, clock: Clock | None = None) -> SessionStore:
    return DatabaseSessionStore(
        idle_timeout=IDLE_TIMEOUT, limit_per_principal=5, now=clock or Clock(), using=database
    )


def events(database: str) -> DatabaseEventStore:
    return DatabaseEventStore(limit=5, lifetime=LIFETIME, streams=5, now=Clock(), using=database)


@pytest.fixture
def on_this_thread() -> Iterator[None]:
    """Queries use the connection of the test, which counts them."""
    with pools.thread_sensitive():
        yield


@spec("ELIC-25")
async def test_tables_do_not_contain_the_session_id(database: str) -> None:
    session = a_session(subscriptions=frozenset({"shop://a"}))
    await sessions(database).create(session)
    await events(database).append(session.address, "stream", ["message"])
    rows = await pools.run(
        lambda: [
            list(model._default_manager.using(database).values())
            for model in (McpSession, Subscription, Stream, StreamEvent)
        ]
    )
    assert all(rows)
    assert session.id not in repr(rows)


async def test_session_row_has_columns_for_server_principal_version_and_times(
    database: str,
) -> None:
    session = a_session()
    await sessions(database).create(session)
    row = await pools.run(McpSession.objects.using(database).get)
    assert (row.server, row.principal, row.version) == ("shop", "user:7", session.version)
    assert str(row) == "shop: user:7"
    assert row.created_at.timestamp() == row.used_at.timestamp() == Clock().seconds


@pytest.mark.usefixtures("on_this_thread")
def test_load_is_one_query_and_updates_the_time_of_use_only_occasionally(database: str) -> None:
    def queries() -> list[str]:
        with CaptureQueriesContext(connections[database]) as captured:
            assert async_to_sync(store.load)(a_session().id)
        # MySQL also sends queries for its settings when it connects.
        return [query["sql"].split()[0] for query in captured if "mcpsession" in query["sql"]]

    clock = Clock()
    store = sessions(database, clock)
    async_to_sync(store.create)(a_session())
    clock.advance(IDLE_TIMEOUT / 20 - 1)
    assert queries() == ["SELECT"]
    clock.advance(1)
    assert queries() == ["SELECT", "UPDATE"]
    assert queries() == ["SELECT"]


async def test_principal_longer_than_its_column_is_stored_in_full(database: str) -> None:
    session = a_session(principal="user:" + "7" * 1000)
    await sessions(database).create(session)
    assert await sessions(database).load(session.id) == session


async def test_update_that_always_conflicts_raises_store_busy(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflicting(session: Session) -> str:
        McpSession.objects.using(database).update(update_count=F("update_count") + 1)
        return pack(session)

    store = sessions(database)
    await store.create(a_session())
    monkeypatch.setattr(module, "pack", conflicting)
    monkeypatch.setattr(retries, "write_timeout", lambda: 0)
    with pytest.raises(StoreBusy):
        await store.update(a_session().id, [put("a", 1)])
    monkeypatch.setattr(module, "pack", pack)
    assert await store.load(a_session().id) == a_session()


async def test_operational_error_is_not_retried(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def broken(*_: object) -> None:
        calls.append(1)
        raise OperationalError("the disk is on fire")

    store = sessions(database)
    monkeypatch.setattr(store, "_read", broken)
    with pytest.raises(StoreUnavailable):
        await store.load("any")
    assert len(calls) == 1


async def test_move_is_retried_after_a_serialization_failure(
    strict_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower, faster = events(strict_database), events(strict_database)
    touch = StreamStatements.touch

    def conflicting(statements: StreamStatements, name: str, now: datetime) -> None:
        touch(statements, name, now)
        statements.read_data(name, now)  # From here on, what others commit is not seen.
        monkeypatch.setattr(StreamStatements, "touch", touch)
        on_another_connection(lambda: faster._append("session", "stream", ["faster"]))

    await slower.append("session", "box", ["slower"])
    await slower.append("session", "stream", [])
    monkeypatch.setattr(StreamStatements, "touch", conflicting)
    await slower.move("session", "box", "stream")
    assert await slower.after("session", "stream", 0) == [Event(1, "faster"), Event(2, "slower")]


async def test_stream_that_is_created_after_the_others_were_locked_is_locked_as_well(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connections[database].vendor == "sqlite":
        pytest.skip("SQLite locks the whole database")
    slower, faster = events(database), events(database)
    lock, attempts = slower._lock, 0

    def conflicting(names: list[str]) -> dict[str, int]:
        nonlocal attempts
        locked, attempts = lock(names), attempts + 1
        if attempts == 1:
            on_another_connection(lambda: faster._append("new", "outbox", ["faster"]))
        return locked

    await slower.append("old", "outbox", [])
    monkeypatch.setattr(slower, "_lock", conflicting)
    assert await slower.append_to_each("outbox", dict.fromkeys(("old", "new"), ["slower"])) == []
    assert attempts == 2
    assert await slower.after("old", "outbox", 0) == [Event(1, "slower")]
    assert await slower.after("new", "outbox", 0) == [Event(1, "faster"), Event(2, "slower")]


def on_another_connection(body: Callable[[], object]) -> None:
    def run() -> None:
        body()
        connections.close_all()

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(run).result()


@pytest.fixture(params=available(*KINDS[1:]))
def strict_database(
    request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The alias of a database that rejects writes to rows changed since the transaction began."""
    options = STRICT_OPTIONS[request.param]
    with (
        django_db_blocker.unblock(),
        scratch_database(request.param, tmp_path, OPTIONS=options) as alias,
    ):
        yield alias


async def test_failed_update_is_rolled_back(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OperationalError("the disk is on fire")

    store = sessions(database)
    await store.create(a_session())
    monkeypatch.setattr(store, "_subscribe", broken)
    with pytest.raises(StoreUnavailable):
        await store.update(
            a_session().id, [put("a", 1), Change("subscriptions", "include", "shop://a")]
        )
    assert await store.load(a_session().id) == a_session()


async def test_default_alias_is_the_database_for_writes(database: str, settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [ToScratch(database)]
    store = DatabaseSessionStore(idle_timeout=IDLE_TIMEOUT, limit_per_principal=5, now=Clock())
    await store.create(a_session())
    assert await sessions(database).load(a_session().id) == a_session()


class ToScratch:
    """A router that sends writes to one database, and reads to a replica that lags behind."""

    def __init__(self, database: str) -> None:
        self.database = database

    def db_for_read(self, model: object, **hints: object) -> str:
        return "a replica that does not exist"

    def db_for_write(self, model: object, **hints: object) -> str:
        return self.database


@pytest.mark.usefixtures("on_this_thread")
def test_sessions_expire_correctly_without_time_zone_support(
    database: str, settings: Settings
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    clock = Clock()
    store = sessions(database, clock)
    async_to_sync(store.create)(a_session())
    clock.advance(IDLE_TIMEOUT - 1)
    assert async_to_sync(store.load)(a_session().id) == a_session()
    clock.advance(IDLE_TIMEOUT + 1)
    assert async_to_sync(store.load)(a_session().id) is None


def test_permissions_of_components_exist_without_a_table(database: str) -> None:
    permissions = Permission.objects.using(database).filter(content_type__model="component")
    assert {permission.codename for permission in permissions} == {
        "change_component",
        "see_as_user",
        "try_component",
        "view_component",
    }
    assert "django_mcp_component" not in connections[database].introspection.table_names()


def test_migrations_match_the_models(database: str) -> None:
    call_command("makemigrations", "django_mcp", check=True, dry_run=True, verbosity=0)
