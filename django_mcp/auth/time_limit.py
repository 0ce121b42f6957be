"""The time limit for look-ups of an authenticator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from django_mcp import conf

T = TypeVar("T")


async def in_time(query: Awaitable[T]) -> T:
    """Return the result of a query; raises TimeoutError after STORE_TIMEOUT.

    The request is then answered with 503, as one that waits for a store.
    """
    async with asyncio.timeout(conf.get().store_timeout):
        return await query
