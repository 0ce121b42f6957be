"""pytest fixtures for the tests of your own server.

Name this module among the ``pytest_plugins`` of your ``conftest.py``.
"""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from django_mcp.protocol.revisions import REVISIONS
from django_mcp.server.server import Server
from django_mcp.testing.client import Client, Transport

TRANSPORTS: tuple[Transport, ...] = ("memory", "http", "stdio")


class ClientFor(Protocol):
    """Makes a client of a server; the options are those of ``Client``."""

    def __call__(self, server: Server | str | None = None, **options: Any) -> Client:
        """A client which is not open yet: use it with ``async with``."""
        ...


@pytest.fixture(params=[revision.version for revision in REVISIONS])
def mcp_version(request: pytest.FixtureRequest) -> str:
    """Every version of the protocol, one after the other."""
    version: str = request.param
    return version


@pytest.fixture(params=TRANSPORTS)
def mcp_transport(request: pytest.FixtureRequest) -> Transport:
    """Every way of reaching a server, one after the other."""
    transport: Transport = request.param
    return transport


@pytest.fixture
def client_for(mcp_version: str, mcp_transport: Transport) -> ClientFor:
    """Clients of every version over every transport: a test which uses this runs for each.

    ``async with client_for(server, user=user) as client: …``
    """

    def make(server: Server | str | None = None, **options: Any) -> Client:
        return Client(server, **{"version": mcp_version, "transport": mcp_transport, **options})

    return make
