"""A site that reads from a replica, which has none of what was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.databases import scratch_database

PRIMARY = "default"


class ReplicaRouter:
    """Reads the tables of some apps from a replica, as the documentation of Django shows it."""

    def __init__(self, replica: str) -> None:
        self.replica = replica

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        label = model._meta.app_label
        return self.replica if label.startswith("django_mcp") or label == "helpdesk" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return PRIMARY

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@pytest.fixture
def replica(
    transactional_db: None, tmp_path: Path, settings: Any, django_db_blocker: Any
) -> Iterator[str]:
    """The alias of an empty replica, from which the site reads from now on."""
    with django_db_blocker.unblock(), scratch_database("sqlite3", tmp_path) as alias:
        settings.DATABASE_ROUTERS = [ReplicaRouter(alias)]
        yield alias
