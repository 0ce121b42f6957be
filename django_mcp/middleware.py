"""Middleware for ``Server(middleware=…)``: rate limits and quotas.

    shop = Server("shop", middleware=[RateLimit(60, per=60), RateLimit(1000, per="day")])

A middleware is any ``async (frame, call_next)`` which returns a result and a Frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from django.core.cache import caches
from django.utils import timezone

from django_mcp.core.components.base import ConfigurationError, listed
from django_mcp.core.components.signature import check_call
from django_mcp.core.dispatch import visibility
from django_mcp.core.frame.transport import caller_key
from django_mcp.core.protocol.errors import McpError, ToolError
from django_mcp.frame import Frame
from django_mcp.stores import cache_counts
from django_mcp.stores.base import digest, on_thread

if TYPE_CHECKING:
    from django_mcp.core.server.server import Answer, CallNext

TOO_MANY_REQUESTS = 429
"""The code of the error: application-defined, the same number as in HTTP."""

LIMITED_METHODS = ("tools/call", "completion/complete")
"""The methods that the specification demands rate limits for (server/tools, completion)."""

By = Literal["caller", "user", "token", "program", "tool"]


class Period(NamedTuple):
    """The period of one count of calls."""

    name: str
    remaining: float
    """Seconds until it ends."""


class RateLimit:
    """Limits the calls of one caller in a period, and refuses the rest.

    ``per`` is the period in seconds, or "day" of TIME_ZONE. ``by`` says which calls are counted
    together: of a "caller", "user", "token", "program", "tool", or several of them; or ``key``
    returns an identity. Each tenant has counts of its own. ``tools`` limits calls of these tools
    only. All workers must share the Django cache with the alias ``cache``; while it is away, calls
    are answered with 503. A refused tool call tells the model how long to wait; other methods raise
    an McpError.
    """

    def __init__(
        self,
        calls: int,
        *,
        per: float | Literal["day"] = 60.0,
        by: By | Iterable[By] = "caller",
        tools: Iterable[str] | None = None,
        methods: Iterable[str] = LIMITED_METHODS,
        key: Callable[[Frame], str] | None = None,
        cache: str = "default",
    ) -> None:
        if not isinstance(calls, int) or calls < 1:
            raise ConfigurationError(
                f"calls of RateLimit is {calls!r}: write 1 or more, such as RateLimit(5, per=60)"
            )
        if per != "day" and not (isinstance(per, int | float) and per > 0):
            raise ConfigurationError(
                f'per of RateLimit is {per!r}: write a number of seconds, or "day"'
            )
        words = (by,) if isinstance(by, str) else listed("by of RateLimit", by)
        if not words or not set(words) <= set(IDENTITIES):
            raise ConfigurationError(
                f"by of RateLimit is {by!r}: write some of {', '.join(IDENTITIES)}"
            )
        if key is not None:
            remedy = "let it take the Frame, and return a string"
            check_call(key, "key of RateLimit", "the Frame", remedy=remedy, must_be_sync=True)
        self.calls = calls
        self.per = per
        self.by = words
        self.tools = None if tools is None else frozenset(listed("tools of RateLimit", tools))
        named_methods = listed("methods of RateLimit", methods)
        self.methods = frozenset(named_methods if tools is None else ["tools/call"])
        self.key = key
        self.cache = cache
        # The identity of this limit among the others of a server, which count the same calls.
        named_tools = sorted(self.tools or ())
        self._limit = (str(calls), str(per), *sorted(self.methods), *named_tools)

    async def __call__(self, frame: Frame, call_next: CallNext) -> Answer:
        """Count the call; raises ToolError or McpError when it exceeds the limit.

        Raises StoreUnavailable (503) if the cache does not answer.
        """
        name = frame.message.params.get("name")
        is_limited = frame.message.method in self.methods and (
            self.tools is None or (isinstance(name, str) and name in self.tools)
        )
        if is_limited and await _is_usable(frame):
            period = self._period()
            if self.key is None:
                identities = [f"{word} {IDENTITIES[word](frame)}" for word in self.by]
            else:
                identities = [self.key(frame)]
            # Primary keys and the names of programs are equal in two tenants.
            place = (frame.server.name, frame.principal.tenant)
            counted = digest(*place, *identities, *self._limit, period.name)
            if await self._increment(f"django_mcp.rate.{counted}", period) > self.calls:
                self._refuse(frame, period)
        return await call_next(frame)

    @property
    def resource(self) -> str:
        """The threads that wait for the cache: if it hangs, nothing else does."""
        return f"the quotas in the cache {self.cache}"

    @on_thread
    def _increment(self, entry: str, period: Period) -> int:
        """Add a call to its period, and return the number of calls in it."""
        return cache_counts.increment(caches[self.cache], entry, period.remaining + GRACE)

    def _period(self) -> Period:
        now = time.time()
        if self.per == "day":
            # A day of TIME_ZONE; one of 23 or 25 hours has its own length.
            moment = datetime.fromtimestamp(now, timezone.get_default_timezone())
            today = moment.date()
            midnight = datetime.min.time()
            tomorrow = datetime.combine(today + timedelta(days=1), midnight, moment.tzinfo)
            return Period(today.isoformat(), tomorrow.timestamp() - now)
        number = int(now // self.per)
        return Period(str(number), (number + 1) * self.per - now)

    def _refuse(self, frame: Frame, period: Period) -> NoReturn:
        seconds = ceil(period.remaining)
        length = "a day" if self.per == "day" else f"{self.per:g} s"
        message = f"Too many calls: at most {self.calls} in {length}. Try again in {seconds} s."
        frame.exchange.advise_retry(seconds)
        if frame.message.method == "tools/call":
            raise ToolError(message)
        data = {"retryAfter": round(period.remaining, 3)}
        raise McpError(message, code=TOO_MANY_REQUESTS, data=data)


async def _is_usable(frame: Frame) -> bool:
    """Whether the caller may use the named component: a refused call is not counted.

    Otherwise, a limit of a tool would tell that the tool exists, and callers who may not use it
    would use up the calls that others share.
    """
    params = frame.message.params
    reference = params.get("ref")
    if frame.message.method == "completion/complete" and isinstance(reference, dict):
        params = reference
    try:
        for kind, member in NAMED_BY.get(frame.message.method, ()):
            name = params.get(member)
            if isinstance(name, str) and await visibility.find(frame, kind, name) is not None:
                return True
        if frame.message.method == "resources/read":
            uri = params.get("uri")
            return isinstance(uri, str) and await visibility.is_readable(frame, uri)
    except McpError:
        return False  # It is challenged, or selects an unknown group: answered without a limit.
    return frame.message.method not in NAMED_BY


NAMED_BY: Mapping[str, Iterable[tuple[str, str]]] = {
    "tools/call": (("tool", "name"),),
    "prompts/get": (("prompt", "name"),),
    "completion/complete": (("prompt", "name"), ("resource_template", "uri")),
}
"""The kinds of components that a request may name, and the parameters with their names."""

GRACE = 60.0
"""Seconds that a count is kept after its period: the clocks of workers differ."""


def caller_of(frame: Frame) -> str:
    """The principal, with the IP address of an anonymous one."""
    return caller_key(frame.principal, frame.transport)


def user_of(frame: Frame) -> str:
    """The user, whatever identified them; the principal of a caller without one."""
    user = frame.user
    if getattr(user, "is_authenticated", False) and user.pk is not None:
        return f"user {user.pk}"
    return caller_of(frame)


def token_of(frame: Frame) -> str:
    """The personal access token; the program and its principal for other tokens."""
    token = frame.principal.claims.get("token_id")
    if token is not None:
        return f"token {token}"
    return f"{program_of(frame)} {caller_of(frame)}"


def program_of(frame: Frame) -> str:
    """The program that has the access token, as its issuer names it; else the token or caller."""
    program = frame.principal.program
    if program:
        return f"program {program}"
    token = frame.principal.claims.get("token_id")
    return caller_of(frame) if token is None else f"token {token}"


def tool_of(frame: Frame) -> str:
    """The name of the called tool, or of the prompt or resource."""
    params = frame.message.params
    return str(params.get("name") or params.get("uri") or params.get("ref"))


IDENTITIES: Mapping[str, Callable[[Frame], str]] = {
    "caller": caller_of,
    "user": user_of,
    "token": token_of,
    "program": program_of,
    "tool": tool_of,
}
"""The function that identifies the calls to count together, by the word of ``by``."""
