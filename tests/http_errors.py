"""Assertions about errors."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from django_mcp.testing import ErrorResponse


async def error_of(answer: Awaitable[Any]) -> ErrorResponse:
    """Return the error response to a request."""
    with pytest.raises(ErrorResponse) as caught:
        await answer
    return caught.value
