"""pytest fixtures for tests of a server: list this module in ``pytest_plugins``."""

from __future__ import annotations

from typing import Any, Protocol, cast

import pytest

from django_mcp.core.protocol.revisions import REVISIONS
from django_mcp.core.server.server import Server
from django_mcp.testing.client import Client, Transport
from django_mcp.testing.sync_client import SyncClient

TRANSPORTS: tuple[Transport, ...] = ("memory", "http", "stdio")


class ClientFor(Protocol):
    """Creates a client of a server, with the options of ``Client``."""

    def __call__(self, server: Server | str | None = None, **options: Any) -> Client:
        """Return a client that is not open yet: use ``async with``."""


@pytest.fixture(params=[revision.version for revision in REVISIONS])
def mcp_version(request: pytest.FixtureRequest) -> str:
    """Each supported protocol version."""
    return cast("str", request.param)


@pytest.fixture(params=TRANSPORTS)
def mcp_transport(request: pytest.FixtureRequest) -> Transport:
    """Each transport of the test client."""
    return cast("Transport", request.param)


@pytest.fixture
def client_for(mcp_version: str, mcp_transport: Transport) -> ClientFor:
    """Creates clients; a test that uses it runs once for each version and transport.

    ``async with client_for(server, user=user) as client: …``
    """

    def make(server: Server | str | None = None, **options: Any) -> Client:
        return Client(server, **{"version": mcp_version, "transport": mcp_transport, **options})

    return make


@pytest.fixture
def mcp_client(transactional_db: None) -> type[Client]:
    """The client for async tests with a database; it needs pytest-django.

    Async code runs on another thread than the fixtures, so that it would wait for the locks of a
    transaction that the fixture ``db`` holds.

    ``async with mcp_client(user=user) as client: …``
    """
    return Client


@pytest.fixture
def sync_mcp_client(db: None) -> type[SyncClient]:
    """The client for synchronous tests with a database, which is rolled back.

    ``with sync_mcp_client(user=user) as client: …``
    """
    return SyncClient
