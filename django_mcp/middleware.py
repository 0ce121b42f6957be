"""Middleware for ``Server(middleware=…)``: rate limits.

    shop = Server("shop", middleware=[RateLimit(60, per=60)])

A middleware is any ``async (frame, call_next)`` which returns a result and a Frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from django.core.cache import caches

from django_mcp.frame import Frame
from django_mcp.frame.transport import caller_key
from django_mcp.protocol.errors import McpError
from django_mcp.stores.base import digest

if TYPE_CHECKING:
    from django_mcp.server.server import Answer, CallNext

TOO_MANY_REQUESTS = 429
"""The code of the error: application-defined, the same number as in HTTP."""

LIMITED_METHODS = ("tools/call", "completion/complete")
"""The methods for which the specification demands rate limits (server/tools, completion)."""


class RateLimit:
    """Limits the calls of one caller in a period, and rejects the rest with an McpError.

    ``methods`` are counted together, in the Django cache with the alias ``cache``, which all
    workers must share. ``key`` returns the identity of a Frame's caller; by default the
    principal, and also the IP address for anonymous callers.
    """

    def __init__(
        self,
        calls: int,
        *,
        per: float = 60.0,
        methods: Iterable[str] = LIMITED_METHODS,
        key: Callable[[Frame], str] | None = None,
        cache: str = "default",
    ) -> None:
        if calls < 1 or per <= 0:
            raise ValueError("A rate limit allows at least one call per period")
        self.calls = calls
        self.per = per
        self.methods = frozenset(methods)
        self.key = caller_of if key is None else key
        self.cache = cache

    async def __call__(self, frame: Frame, call_next: CallNext) -> Answer:
        """Count the call; raises McpError when it exceeds the limit."""
        if frame.message.method not in self.methods:
            return await call_next(frame)
        now = time.time()
        period = int(now // self.per)
        name = f"django_mcp.rate.{digest(frame.server.name, self.key(frame), str(period))}"
        counts = caches[self.cache]
        await counts.aadd(name, 0, timeout=self.per * 2)
        if await counts.aincr(name) > self.calls:
            raise McpError(
                f"Too many calls: at most {self.calls} in {self.per:g} s",
                code=TOO_MANY_REQUESTS,
                data={"retryAfter": round((period + 1) * self.per - now, 3)},
            )
        return await call_next(frame)


def caller_of(frame: Frame) -> str:
    return caller_key(frame.principal, frame.transport)
