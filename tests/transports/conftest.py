"""Sessions are kept in memory here, as in ``tests/behaviour``."""

from collections.abc import AsyncIterator

import pytest

from tests.behaviour.conftest import configure
from tests.transports.desk import Desk

__all__ = ["configure"]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A server whose handlers wait until the test lets them go on."""
    desk = Desk()
    yield desk
    desk.go_on.set()
