"""What has expired is deleted without a command, by one worker at a time and in small steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connections, models
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoDbBlocker, Settings

from django_mcp import Frame, Server, stores
from django_mcp.core.ports import Port
from django_mcp.models import McpSession, McpTask, Stream, StreamEvent
from django_mcp.runtime import housekeeping, pools
from django_mcp.stores.base import STEP
from django_mcp.stores.database import DatabaseSessionStore
from django_mcp.testing import Client
from tests.databases import scratch_database
from tests.stores.contracts import IDLE_TIMEOUT, Clock, a_session
from tests.waiting import SECONDS

SHORT = {
    "AUTHENTICATORS": ["django_mcp.auth.anonymous.AnonymousAuthentication"],
    "SESSION_IDLE_TIMEOUT": 0.3,
    "STORES": {
        "events": {
            "BACKEND": "django_mcp.stores.database.DatabaseEventStore",
            "OPTIONS": {"lifetime": 0.3},
        }
    },
}


class ToScratch:
    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: object, **hints: object) -> str:
        return self.alias

    db_for_write = db_for_read


@pytest.fixture
def database(
    tmp_path: Path,
    settings: Settings,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The alias of the database of the site, which all threads share."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        settings.DATABASE_ROUTERS = [ToScratch(alias)]
        settings.DJANGO_MCP = SHORT
        monkeypatch.setattr(housekeeping, "INTERVAL", 0.2)
        yield alias


def shop() -> Server:
    server = Server("shop")

    @server.tool
    async def report(frame: Frame) -> str:
        await frame.client.aprogress(1, 2)
        return "done"

    return server


async def count(model: type[models.Model]) -> int:
    return await pools.run(model._default_manager.count)


async def until_there_are_none(*kinds: type[models.Model]) -> None:
    async with asyncio.timeout(SECONDS):
        for model in kinds:
            while await count(model):
                await asyncio.sleep(0.05)


async def test_abandoned_session_leaves_no_rows(database: str) -> None:
    client = Client(shop(), version="2025-11-25", transport="http")
    await client.__aenter__()
    await client.call_tool("report")
    assert await count(McpSession) == 1
    assert await count(StreamEvent) > 0
    # It never says goodbye.
    await until_there_are_none(McpSession, StreamEvent)
    async with asyncio.timeout(SECONDS):
        while await pools.run(Stream.objects.exclude(session="").count):
            await asyncio.sleep(0.05)


async def test_expired_task_and_rows_of_apps_are_deleted(database: str) -> None:
    answers: Any = apps.get_model("django_mcp_elicitation", "PageAnswer").objects
    past = timezone.now() - timedelta(seconds=1)
    facts = {"created_at": past, "updated_at": past, "expires_at": past}
    await pools.run(lambda: McpTask.objects.create(id="task", status="completed", **facts))
    row = {"id": "x" * 22, "user_key": "7", "action": "accept", "encrypted_content": ""}
    await pools.run(lambda: answers.create(expires_at=past, **row))
    async with Client(shop(), version="2026-07-28", transport="http") as client:
        await client.call_tool("report")
        await until_there_are_none(McpTask, answers.model)


async def test_one_of_several_workers_does_a_round(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "INTERVAL", 600)
    runs = await asyncio.gather(*(housekeeping.run() for _ in range(5)))
    assert sorted(runs) == [False] * 4 + [True]


async def test_failing_step_does_not_keep_the_others_from_their_work(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(pause: float) -> None:
        raise LookupError("the step is broken")

    steps = Port("prunes", default=[broken, *housekeeping.STEPS.get()])
    monkeypatch.setattr(housekeeping, "STEPS", steps)
    await stores.sessions().create(a_session())
    async with asyncio.timeout(SECONDS):
        while await count(McpSession):
            await housekeeping.run()
            await asyncio.sleep(0.05)
    assert "could not be deleted" in caplog.text


def test_many_expired_sessions_are_deleted_in_steps(database: str) -> None:
    clock = Clock()
    store = DatabaseSessionStore(
        idle_timeout=IDLE_TIMEOUT, limit_per_principal=10_000, now=clock, using=database
    )
    with pools.thread_sensitive():
        for number in range(3):
            async_to_sync(store.create)(a_session(number))
        rows = [*McpSession.objects.all()]
        for number in range(STEP):
            rows[0].address = f"copy {number}"
            McpSession.objects.bulk_create([rows[0]])
        clock.advance(IDLE_TIMEOUT + 1)
        with CaptureQueriesContext(connections[database]) as captured:
            assert async_to_sync(store.prune)() == STEP + 3
    deletions = [query["sql"] for query in captured if query["sql"].startswith("UPDATE")]
    assert len(deletions) == 2
