"""Leases by the clock of the database: the clock of a worker decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from django_mcp.core.protocol import tasks
from django_mcp.core.protocol.tasks import Status
from django_mcp.models import McpTask
from django_mcp.runtime import pools
from django_mcp.tasks.database_clock import Now
from django_mcp.tasks.store import LOST, TaskStore
from tests.databases import available, scratch_database
from tests.tasks.stored import make_store, new, pass_time

HOUR = timedelta(hours=1)
LEASE = 10.0


class Router:
    """Keeps tasks in the database of this test."""

    alias = ""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return self.alias if model is McpTask else None

    db_for_write = db_for_read


@pytest.fixture(scope="module", params=available())
def migrated(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """The alias of a migrated database."""
    folder = tmp_path_factory.mktemp("database")
    with django_db_blocker.unblock(), scratch_database(request.param, folder) as alias:
        yield alias


@pytest.fixture
def store(migrated: str, settings: Any) -> Iterator[TaskStore]:
    """Tasks in a database."""
    Router.alias = migrated
    settings.DATABASE_ROUTERS = [Router()]
    yield make_store(lease=LEASE)
    McpTask._default_manager.using(migrated).all().delete()


async def passed(seconds: float) -> None:
    """Let time pass for the leases, as the database sees it."""
    await pools.run_in_store_pool(partial(pass_time, seconds))


@contextmanager
def clock_of_worker(monkeypatch: pytest.MonkeyPatch, difference: timedelta) -> Iterator[None]:
    """Let the clock of this process differ."""
    true_time = timezone.now

    def now() -> datetime:
        return true_time() + difference

    with monkeypatch.context() as patch:
        patch.setattr(timezone, "now", now)
        yield


@pytest.mark.parametrize("difference", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_worker_with_a_wrong_clock_takes_over_nothing(
    difference: timedelta, store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await store.create(new("ada"), lease_owner="one", is_started=True)
    waiting = await store.create(new("ada"), lease_owner=None, is_started=False)

    with clock_of_worker(monkeypatch, difference):
        await store.prune()
        seen = [await store.load(task.id, "ada") for task in (running, waiting)]
        changed = await store.change(running.id, tasks.take_messages, owner="ada")

    assert [task and task.status for task in seen] == [Status.WORKING, Status.WORKING]
    assert changed is not None
    assert changed.after.status is Status.WORKING
    assert await store.renew(running.id, "one") is not None
    assert await store.start(waiting.id, "two") is not None


@pytest.mark.parametrize("difference", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_worker_with_a_wrong_clock_loses_nothing(
    difference: timedelta, store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = await store.create(new("ada"), lease_owner=None, is_started=False)
    with clock_of_worker(monkeypatch, difference):
        await store.start(queued.id, "one")
        created = await store.create(new("ada"), lease_owner="one", is_started=True)
        await store.renew(created.id, "one")

    await store.prune()
    for task in (queued, created):
        present = await store.load(task.id, "ada")
        assert present is not None
        assert present.status is Status.WORKING
        assert await store.renew(task.id, "one") is not None


async def test_lease_that_has_ended_is_lost_for_every_clock(
    store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await store.create(new("ada"), lease_owner="one", is_started=True)
    await passed(LEASE + 1)

    with clock_of_worker(monkeypatch, -HOUR):
        noted = await store.load(task.id, "ada")
        await passed(LEASE + 1)
        lost = await store.load(task.id, "ada")

    assert [each and each.status for each in (noted, lost)] == [Status.WORKING, Status.FAILED]


async def test_tasks_go_on_after_the_database_was_away_for_longer_than_a_lease(
    store: TaskStore,
) -> None:
    living, dead = [
        await store.create(new("ada"), lease_owner=lease_owner, is_started=True)
        for lease_owner in ("one", "two")
    ]
    await passed(10 * LEASE)
    # A worker that had nothing to do, and noticed nothing, is the first to look.
    await store.prune()
    seen = [await store.load(task.id, "ada") for task in (living, dead)]
    assert [task and task.status for task in seen] == [Status.WORKING, Status.WORKING]

    await passed(LEASE - 1)
    assert await store.renew(living.id, "one") is not None
    await passed(2)
    await store.prune()

    statuses = [row.status for row in [await store.row(living.id), await store.row(dead.id)] if row]
    assert statuses == ["working", "failed"]
    ended = await store.load(dead.id, "ada")
    assert ended is not None
    assert ended.error == LOST


async def test_what_was_noted_of_a_former_lease_does_not_count_for_the_next(
    store: TaskStore,
) -> None:
    task = await store.create(new("ada"), lease_owner="one", is_started=True)
    await passed(LEASE + 1)
    await store.load(task.id, "ada")
    await store.renew(task.id, "one")
    await passed(5 * LEASE)

    again = await store.load(task.id, "ada")
    assert await store.renew(task.id, "one") is not None

    assert again is not None
    assert again.status is Status.WORKING


async def test_end_of_a_lease_is_noted_once(store: TaskStore) -> None:
    """Clients that look all the time do not put the failure off."""
    task = await store.create(new("ada"), lease_owner="one", is_started=True)
    await passed(LEASE + 1)
    statuses = []
    for _ in range(3):
        present = await store.load(task.id, "ada")
        statuses.append(present and present.status)
        await passed(LEASE / 2 + 0.1)

    assert statuses == [Status.WORKING, Status.WORKING, Status.FAILED]


@pytest.mark.parametrize("use_tz", [True, False])
def test_clock_of_the_database_is_stored_as_django_stores_times(
    use_tz: bool, migrated: str, settings: Any, django_db_blocker: DjangoDbBlocker
) -> None:
    settings.TIME_ZONE = "Asia/Kathmandu"
    settings.USE_TZ = use_tz
    present = timezone.now()
    row = McpTask(
        id="x", status="working", created_at=Now(), updated_at=present, expires_at=present
    )
    with django_db_blocker.unblock():
        connections[migrated].close()
        try:
            row.save(using=migrated, force_insert=True)
            row.refresh_from_db(using=migrated)
        finally:
            McpTask._default_manager.using(migrated).all().delete()
            connections[migrated].close()

    assert abs(row.created_at - present) < timedelta(seconds=60)
