"""What all tests share: the fixtures which users get, and where the official schemas are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["django_mcp.testing.plugin"]

SCHEMAS = Path(__file__).resolve().parents[2] / "shared" / "spec" / "schema"

if SCHEMAS.is_dir():
    os.environ.setdefault("DJANGO_MCP_SPEC_SCHEMAS", str(SCHEMAS))


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """The connections which a test opened on our threads are closed while it may use them."""
    yield
    # Imported late: Django may not be set up while this file is read.
    from django_mcp.runtime import threads

    threads.shutdown()
