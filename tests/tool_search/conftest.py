"""Uses sessions in memory: see ``tests/memory_stores.py``."""

from tests.memory_stores import configure

__all__ = ["configure"]
