"""What ``mcp_doctor`` says of the databases of a project that has several of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker, Settings

from django_mcp.management.findings import project
from tests import migrated_file

pytestmark = pytest.mark.django_db

ALIAS = "archive"


class Router:
    """Sends the sessions to the other database."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return ALIAS if model._meta.app_label == "django_mcp" else None

    db_for_write = db_for_read


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """An empty database beside the one of the tests."""
    file = str(tmp_path / "archive.sqlite3")
    with django_db_blocker.unblock(), migrated_file.configured(ALIAS, "sqlite3", NAME=file):
        yield


def findings() -> str:
    """What is said of the empty database."""
    return " ".join(item.text for item in project.of_databases() if ALIAS in item.text)


def test_database_that_is_for_other_tables_needs_none_of_this_package() -> None:
    assert findings() == ""


def test_database_of_the_router_needs_the_tables(settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [Router()]
    assert findings() == "Migrations of django_mcp are not applied to the database 'archive'."


def test_database_of_the_stores_needs_the_tables(settings: Settings) -> None:
    store = "django_mcp.stores.database.DatabaseEventStore"
    stores = {"events": {"BACKEND": store, "OPTIONS": {"using": ALIAS}}}
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "STORES": stores}
    assert findings() == "Migrations of django_mcp are not applied to the database 'archive'."


def test_database_for_other_tables_is_asked_whether_it_answers(tmp_path: Path) -> None:
    (tmp_path / "archive.sqlite3").write_bytes(b"no database" * 100)
    assert findings() == "The database 'archive' does not answer: DatabaseError."
