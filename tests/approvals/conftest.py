"""The server of these tests, on a site with the pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import Server
from django_mcp.approvals import gate
from tests.approvals import till
from tests.memory_stores import configure

__all__ = ["configure"]


@pytest.fixture(autouse=True)
def server(configure: Any, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The till, as the only server of the site."""
    configure(BASE_URL="https://till.example")
    monkeypatch.setattr(gate, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(gate, "MAX_WAIT", 0.05)
    till.carried_out.clear()
    till.released.clear()
    server = till.till()
    till.register(server, monkeypatch)
    return server


@pytest.fixture
def ann(db: None) -> User:
    """A caller without the permission to approve."""
    return till.user("ann")


@pytest.fixture
def bob(db: None) -> User:
    """A person who may approve."""
    return till.user("bob", till.PERMISSION)
