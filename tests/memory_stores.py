"""Uses sessions in memory, for tests of behavior that is the same with every store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_django import Settings

Configure = Callable[..., None]

MEMORY = {
    "sessions": {"BACKEND": "django_mcp.stores.memory.MemorySessionStore"},
    "events": {"BACKEND": "django_mcp.stores.memory.MemoryEventStore"},
}


@pytest.fixture(autouse=True)
def configure(settings: Settings) -> Configure:
    """Sets keys of DJANGO_MCP for this test."""

    def configure(**keys: Any) -> None:
        public = ["django_mcp.auth.anonymous.AnonymousAuthentication"]
        settings.DJANGO_MCP = {"AUTHENTICATORS": public, "STORES": MEMORY, **keys}

    configure()
    return configure
