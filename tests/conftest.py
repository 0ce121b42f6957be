"""Fixtures for all tests, and the location of the official schemas."""

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
def _handlers_of_tests_may_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions store components whose handlers are in a test, which is in no installed app."""
    from django_mcp.components import stored

    checks = [*stored.MODULE_CHECKS, lambda module: module.startswith("tests.")]
    monkeypatch.setattr(stored, "MODULE_CHECKS", checks)


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """Close the connections of our threads, which outlive the test otherwise."""
    yield
    # Imported late: this file is read before django.setup().
    from django_mcp.runtime import threads

    threads.shutdown()
