"""What is said of each call that is over: in a line of ``django_mcp.calls``, a signal, extensions.

Who called what, how it ended and how long it took; never results or tokens. Without a log handler,
receivers and an extension with ``after_call``, nothing is collected.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from logging import INFO
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.core.log import log_repeated
from django_mcp.core.protocol.limits import MAX_QUOTED, quoted, shown
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.dispatch.handle import RequestStep, Site
    from django_mcp.core.frame.frame import Frame

calls = logging.getLogger("django_mcp.calls")

TARGETS: Mapping[str, str] = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
"""The parameter with the name of the component, by method."""

is_recorded = ContextVar("django_mcp.is_recorded", default=True)
"""Whether calls are recorded: the test client turns it off, since its rows would be rolled back."""


class Signal(Protocol):
    """A signal of Django, as far as it is used here."""

    receivers: Any

    async def asend_robust(self, sender: Any, **facts: Any) -> Any:
        """Send the signal; errors of its receivers are not raised."""


def is_wanted(signal: Signal) -> bool:
    """Whether anything wants to know of a call that sends this signal."""
    # An empty list needs no check which receivers are still alive.
    return bool(INSTALLED.after_call or signal.receivers) or calls.isEnabledFor(INFO)


async def logged(signal: Signal, answer_next: RequestStep, frame: Frame, site: Site) -> bytes:
    """Return the response of ``answer_next``; log the call and send its signal at the end."""
    began = perf_counter()
    size = None
    outcome = "cancelled"
    is_stored = INSTALLED.after_call and is_recorded.get()
    try:
        body = await answer_next(frame, site)
        outcome = frame.exchange.outcome
        if outcome != "cancelled":
            size = len(body)
        return body
    finally:
        duration = perf_counter() - began
        if is_stored:
            _record(frame, outcome, duration, size)
        if signal.receivers or calls.isEnabledFor(INFO):
            await _log(frame, signal, outcome, duration)


def _record(frame: Frame, outcome: str, duration: float, size: int | None) -> None:
    """Call the extensions. One that fails is logged: the call itself has ended as it has."""
    for after_call in INSTALLED.after_call:
        try:
            after_call(frame, outcome, duration, size)
        except Exception:
            text = "An extension failed after a call"
            log_repeated(logging.ERROR, text, exc_info=True)


async def _log(frame: Frame, signal: Signal, outcome: str, duration: float) -> None:
    request = frame.message
    parameter = TARGETS[request.method]
    target = request.params.get(parameter)
    facts: dict[str, Any] = {parameter: target, "principal": frame.principal.key}
    facts |= {"outcome": outcome, "duration": duration}
    text = target if isinstance(target, str) else f"({type(target).__name__})"
    extra = {f"mcp_{name}": fact for name, fact in facts.items()}
    extra |= {f"mcp_{parameter}": text[:MAX_QUOTED], "mcp_request_id": shown(str(request.id))}
    line = "%s %s: %s after %.3f s"
    calls.info(line, request.method, quoted(text), outcome, duration, extra=extra)
    await signal.asend_robust(frame.server, user=frame.user, **facts)
