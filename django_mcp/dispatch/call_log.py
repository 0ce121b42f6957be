"""What is told of a call when it is over: a signal, and a line in the log ``django_mcp.calls``.

Who called what, how it ended and how long it took; never arguments, results or tokens. Where
nobody listens, nothing is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter

from django.dispatch import Signal

from django_mcp import signals
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Session
from django_mcp.protocol.errors import InternalError

calls = logging.getLogger("django_mcp.calls")

SIGNALS: Mapping[str, tuple[Signal, str]] = {
    "tools/call": (signals.tool_called, "name"),
    "resources/read": (signals.resource_read, "uri"),
    "prompts/get": (signals.prompt_got, "name"),
}
"""The signal of each method that has one, and the parameter which says what was called."""


def is_logged(frame: Frame) -> bool:
    """Whether anybody wants to know of this call."""
    known = SIGNALS.get(frame.message.method)
    if known is None:
        return False
    signal = known[0]
    # Of an empty list nobody need ask which receivers are still alive.
    return calls.isEnabledFor(logging.INFO) or bool(
        signal.receivers and signal.has_listeners(frame.server)
    )


async def logged(frame: Frame, answer: Callable[[Frame], Awaitable[Reply]]) -> Reply:
    """The reply of ``answer``; how the call went is told when it is over."""
    began = perf_counter()
    outcome = "cancelled"
    try:
        reply = await answer(frame)
        outcome = outcome_of(reply)
        return reply
    finally:
        await _log(frame, outcome, perf_counter() - began)


def outcome_of(reply: Reply) -> str:
    """How a call went: "ok", "error", "refused", "failed" or "asked"."""
    if reply.error is not None:
        return "failed" if isinstance(reply.error, InternalError) else "refused"
    result = reply.message["result"]
    if result.get("resultType") == "input_required":
        return "asked"
    return "error" if result.get("isError") else "ok"


async def _log(frame: Frame, outcome: str, duration: float) -> None:
    signal, parameter = SIGNALS[frame.message.method]
    target = frame.message.params.get(parameter)
    facts = {parameter: target, "principal": frame.principal.key, "outcome": outcome}
    calls.info(
        "%s %s: %s after %.3f s",
        frame.message.method,
        target,
        outcome,
        duration,
        extra={**{f"mcp_{name}": fact for name, fact in facts.items()}, "mcp_duration": duration},
    )
    await signal.asend_robust(frame.server, user=frame.user, duration=duration, **facts)


async def session_started(frame: Frame, session: Session) -> None:
    """Tell that a session was opened."""
    await signals.session_started.asend_robust(
        frame.server,
        address=session.address,
        version=session.version,
        client_info=session.client_info,
        user=frame.user,
        principal=session.principal,
    )


async def session_ended(server: object, session: Session) -> None:
    """Tell that a session was ended."""
    await signals.session_ended.asend_robust(
        server, address=session.address, principal=session.principal
    )
