"""Middleware for servers which needs Django: how often one caller may call.

    shop = Server("shop", middleware=[RateLimit(60, per=60)])

A middleware is any ``async (frame, call_next)``; it knows the Frame and what comes of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from django.core.cache import caches

from django_mcp.frame import Frame, HttpTransport
from django_mcp.protocol.errors import McpError
from django_mcp.stores.base import digest

if TYPE_CHECKING:
    from django_mcp.server.server import Answer, CallNext

TOO_MANY_REQUESTS = 429
"""The code of the refusal: an application's own, as HTTP numbers the same."""

COSTLY = ("tools/call", "completion/complete")
"""The methods whose rate the specification wants to be limited (server/tools, completion)."""


class RateLimit:
    """Lets one caller make so many calls in a period, and refuses the rest with an McpError.

    ``methods`` are counted together, in the Django cache called ``cache``: give it one which all
    workers share. ``key`` says who a Frame's caller is; by default the principal, and the
    address of whoever is not known by name.
    """

    def __init__(
        self,
        calls: int,
        *,
        per: float = 60.0,
        methods: Iterable[str] = COSTLY,
        key: Callable[[Frame], str] | None = None,
        cache: str = "default",
    ) -> None:
        if calls < 1 or per <= 0:
            raise ValueError("A rate limit lets at least one call through in a period")
        self.calls = calls
        self.per = per
        self.methods = frozenset(methods)
        self.key = caller_of if key is None else key
        self.cache = cache

    async def __call__(self, frame: Frame, call_next: CallNext) -> Answer:
        """Count the call, and let it pass unless it is one too many."""
        if frame.request is not None and frame.request.method in self.methods:
            await self._count(frame)
        return await call_next(frame)

    async def _count(self, frame: Frame) -> None:
        now = time.time()
        period = int(now // self.per)
        name = f"django_mcp.rate.{digest(frame.server.name, self.key(frame), str(period))}"
        counts = caches[self.cache]
        await counts.aadd(name, 0, timeout=self.per * 2)
        if await counts.aincr(name) > self.calls:
            wait = round((period + 1) * self.per - now, 3)
            raise McpError(
                f"Too many calls: at most {self.calls} in {self.per:g} s",
                code=TOO_MANY_REQUESTS,
                data={"retryAfter": wait},
            )


def caller_of(frame: Frame) -> str:
    """Who calls: the principal; of those who have no name, the address they call from."""
    assert frame.auth is not None
    if frame.auth.subject or not isinstance(frame.transport, HttpTransport):
        return frame.auth.key
    return f"{frame.auth.key} {frame.transport.remote_ip}"
