"""Sessions are kept in memory here, as in ``tests/behaviour``."""

from tests.behaviour.conftest import configure

__all__ = ["configure"]
