"""Private servers for the tests of this folder. ``instances`` has what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.services.instances import PostgreSQL, Redis, postgresql_server, redis_server
from tests.services.workers import STORES, Cluster, cluster, settings_of

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs services."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.services)


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def _postgresql_server() -> Iterator[PostgreSQL]:
    with postgresql_server() as server:
        yield server


@pytest.fixture
def redis(_redis_server: Redis) -> Iterator[Redis]:
    """A private Redis, which is empty; it may be left in any state."""
    _redis_server.resume()
    _redis_server.start()
    _redis_server.flush()
    yield _redis_server
    _redis_server.resume()


@pytest.fixture
def postgresql(_postgresql_server: PostgreSQL) -> Iterator[PostgreSQL]:
    """A private PostgreSQL, which may be left in any state."""
    _postgresql_server.resume()
    _postgresql_server.start()
    yield _postgresql_server
    _postgresql_server.resume()


@pytest.fixture(scope="session")
def _sites(
    _redis_server: Redis, _postgresql_server: PostgreSQL
) -> Iterator[Callable[[str], Cluster]]:
    """Three workers for each store that tests ask for."""
    with ExitStack() as stack:

        @cache
        def site(store: str) -> Cluster:
            described = settings_of(store, _redis_server, _postgresql_server)
            return stack.enter_context(cluster(**described))

        yield site


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """Where sessions and events are: database, cache or sqlite."""
    return str(request.param)


@pytest.fixture
def site(
    store: str, redis: Redis, postgresql: PostgreSQL, _sites: Callable[[str], Cluster]
) -> Cluster:
    """Three workers, whose sessions are in this store, and services that answer."""
    return _sites(store)
