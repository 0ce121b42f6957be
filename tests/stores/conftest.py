"""A database for the stores, of every kind that can be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.databases import KINDS, scratch_database


@pytest.fixture(scope="module", params=KINDS)
def database(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """The alias of a database that has our tables."""
    folder = tmp_path_factory.mktemp("database")
    with django_db_blocker.unblock(), scratch_database(request.param, folder) as alias:
        yield alias
