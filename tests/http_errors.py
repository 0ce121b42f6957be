"""How tests look at errors."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from django_mcp.testing import ErrorResponse


async def refusal(answer: Awaitable[Any]) -> ErrorResponse:
    """The error with which a request is answered."""
    with pytest.raises(ErrorResponse) as caught:
        await answer
    return caught.value
