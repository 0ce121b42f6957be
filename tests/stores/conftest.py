"""A database for the stores, of every available kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from django_mcp.models import McpSession, Stream
from tests.databases import available, scratch_database


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
def database(migrated: str) -> str:
    """The alias of a migrated database with empty tables."""
    McpSession.objects.using(migrated).all().delete()
    Stream.objects.using(migrated).all().delete()
    return migrated
