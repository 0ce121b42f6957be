"""A stream whose call died with its worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.by_hand.processes import call, migrate, worker
from tests.spec import spec


@pytest.fixture
async def database(tmp_path: Path) -> dict[str, Any]:
    """A migrated database in a file, as DATABASES describes it."""
    found = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "site.sqlite3"),
        "OPTIONS": {"timeout": 5},
    }
    await migrate(found)
    return found


@pytest.mark.nightly
@spec("answers-04")
async def test_resumed_stream_of_a_dead_worker_ends_with_an_error(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    quick: dict[str, Any] = {"SSE_PING_INTERVAL": 0.2}
    async with worker(database=database, **quick) as dying:
        session = await dying.initialize()
        waiting = call(7, "wait", {"seconds": 60})
        async with dying.stream(waiting, session) as stream:
            await stream.message()
            last = stream.last_id
            assert last is not None
            await dying.kill()
    async with (
        worker(database=database, **quick) as other,
        other.stream(None, session, method="GET", **{"last-event-id": last}) as resumed,
    ):
        assert resumed.status == 200
        answer = await resumed.message(8)

    assert answer is not None
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32603
