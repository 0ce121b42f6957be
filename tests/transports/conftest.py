"""Uses sessions in memory, as in ``tests/memory_stores.py``."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from django_mcp.pubsub import bus
from tests.memory_stores import configure
from tests.transports.sample_server import Desk

__all__ = ["configure"]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A server whose handlers wait until the test releases them. No listener outlives the test."""
    desk = Desk()
    yield desk
    desk.proceed.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert bus.here()._receivers == {}
