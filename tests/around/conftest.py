"""Uses sessions in memory, and databases: see ``tests/memory_stores.py``."""

from tests.memory_stores import configure

__all__ = ["configure"]
