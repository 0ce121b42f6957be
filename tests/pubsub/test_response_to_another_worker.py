"""A client's response that reaches another worker than the one that waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.by_hand.processes import call, migrate, worker
from tests.memory_stores import configure
from tests.spec import spec

__all__ = ["configure"]


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
@spec("answers-05")
async def test_answer_reaches_the_call_on_another_worker_without_a_channel_layer(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with (
        worker(database=database) as first,
        worker(database=database) as other,
    ):
        session = await first.initialize(elicitation={})
        async with first.stream(call(7, "confirm"), session) as stream:
            sent = await stream.message()
            assert sent is not None
            assert sent["method"] == "elicitation/create"
            answer = {"jsonrpc": "2.0", "id": sent["id"], "result": {"action": "decline"}}
            response = await other.post(answer, session)
            while (done := await stream.message()) is not None and "id" not in done:
                pass

    assert response.status == 202
    assert done is not None
    assert done["id"] == 7
    assert "isError" not in done["result"]
