"""Sessions are kept in memory here, as in ``tests/behaviour``."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from django_mcp import hub
from tests.behaviour.conftest import configure
from tests.transports.desk import Desk

__all__ = ["configure"]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A server whose handlers wait until the test lets them go on. Nobody is left listening."""
    desk = Desk()
    yield desk
    desk.go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert hub.here()._receivers == {}
    assert hub.here()._mailboxes == {}
