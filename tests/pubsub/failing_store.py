"""An event store whose operation fails at first, as while its server is away."""

from __future__ import annotations

from typing import Any

import pytest

from django_mcp import stores


def fail_first(monkeypatch: pytest.MonkeyPatch, operation: str, times: int) -> None:
    """Let an operation of the event store fail so many times."""
    succeed, left = getattr(stores.events(), operation), times

    async def fail(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise ConnectionError("no store")
        return await succeed(*args, **options)

    monkeypatch.setattr(stores.events(), operation, fail)
