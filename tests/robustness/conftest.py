"""Sessions are kept in memory here, as in ``tests/memory_stores.py``."""

from tests.memory_stores import configure

__all__ = ["configure"]
