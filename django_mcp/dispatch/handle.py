"""Handling every message of every transport: prepare, answer, commit, publish, log.

Frame processors, the start of the server, the answer, the commit and the publication of what the
handler changed, and the call log. ``Site`` has the functions which depend on stores, Channels
and Django.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from logging import INFO
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from django_mcp.dispatch import call_log, dispatcher
from django_mcp.dispatch.call_log import Signal
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.dispatch.invocation import raise_outcome
from django_mcp.frame.client import request_state
from django_mcp.protocol.errors import InternalError, InvalidParams, ServerBusy, TooManyRequests

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.frame.session import Change, Session
    from django_mcp.server.server import Server


class SingleUse(Protocol):
    """Request states that are accepted once."""

    def claim(self, state: str, /) -> bool:
        """Return whether no other call has used the state, or is using it."""

    def keep(self, state: str, /) -> None:
        """Mark a claimed state as used."""

    def release(self, state: str, /) -> None:
        """Let another call claim the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    start: Callable[[Server], Awaitable[None]]
    """Starts a server that is not running in this process."""
    process: Callable[[Frame], Awaitable[Frame]] | None
    """Runs the frame processors; None where there are none."""
    single_use: SingleUse | None
    """Lets a request state be used once; None where it may be used repeatedly."""
    commit: Callable[[str, Sequence[Change]], Awaitable[Session | None]]
    """Applies changes to a session, by its id: the new session, or None if it does not exist."""
    publish: Callable[[Server, str, Sequence[Change]], Awaitable[None]]
    """Notifies the client of a session of the changes that it has to know."""
    signals: Mapping[str, Signal]
    """The signals which are sent when a call of a method is over."""


async def answer(frame: Frame, site: Site) -> Reply:
    """The reply to the request on ``frame``; only cancellation is raised.

    What the handler changed in its session is committed before the reply is returned.
    """
    if site.single_use and (state := request_state.of(frame)) is not None:
        return await _answer_once(frame, site, site.single_use, state)
    if site.process or not frame.server.is_running:
        try:
            frame = await prepare(frame, site)
        except Exception as error:
            frame.server.report("A message could not be prepared", error)
            return dispatcher.error_reply(frame, InternalError())
    signal = site.signals.get(frame.message.method)
    # An empty list needs no check which receivers are still alive.
    if signal is None or not (signal.receivers or call_log.calls.isEnabledFor(INFO)):
        return await _answer(frame, site)
    return await call_log.logged(frame, signal, _answer(frame, site))


async def _answer_once(frame: Frame, site: Site, single_use: SingleUse, state: str) -> Reply:
    """``answer`` a call that brings a request state which may be used once.

    The state is used up when the answer is kept: a call that failed or was cancelled leaves it.
    """
    run = frame.exchange.run_hook
    if not await run(single_use.claim, state):
        return dispatcher.error_reply(frame, InvalidParams("params.requestState was used before"))
    is_kept = False
    try:
        reply = await answer(frame, replace(site, single_use=None))
        is_kept = reply.error is None
    finally:
        await run(single_use.keep if is_kept else single_use.release, state)
    return reply


async def prepare(frame: Frame, site: Site) -> Frame:
    """Start the server, and run the frame processors: the Frame with their assigns."""
    try:
        if not frame.server.is_running:
            await site.start(frame.server)
        return await site.process(frame) if site.process else frame
    except BaseException as raised:
        raise_outcome(raised, frame)


async def _answer(frame: Frame, site: Site) -> Reply:
    reply = await dispatcher.answer(frame)
    after = reply.frame
    if not after.changes:
        return reply
    try:
        session_id = after.get_mcp_session_id()
        if session_id is not None:
            await site.commit(session_id, after.changes)
            await site.publish(after.server, session_id, after.changes)
    except Exception as error:
        frame.server.report("What a handler changed in its session could not be committed", error)
        return dispatcher.error_reply(frame, InternalError())
    return reply


TICK = 0.05
"""Seconds between two ticks of a call."""


class Limits(Protocol):
    """The settings of the site which bound calls."""

    @property
    def max_in_flight(self) -> int: ...
    @property
    def max_in_flight_per_process(self) -> int: ...


class Call:
    """One call while it is answered."""

    frame: Frame
    counted_as: str | None = None
    """The key of its caller, once calls are counted by caller."""

    def tick(self) -> None:
        """Look after the call. A timer or a task for each call would cost as much as its answer."""


class CallsInFlight:
    """The calls that are answered on one event loop: their timer, and their bounds.

    They are counted by caller only while there are many. It has no reference to its loop, so that
    both can be collected.
    """

    def __init__(self) -> None:
        self.calls: dict[Call, None] = {}
        self._counts: Counter[str] | None = None
        self._is_ticking = False

    def begin(self, call: Call, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        """Add a call; raises TooManyRequests and ServerBusy."""
        count = len(self.calls)
        if (
            self._counts is not None
            or count >= limits.max_in_flight
            or count >= limits.max_in_flight_per_process
        ):
            self._count(call, limits)
        self.calls[call] = None
        if not self._is_ticking:
            self._is_ticking = True
            loop.call_later(TICK, self._tick, loop)

    def end(self, call: Call) -> None:
        del self.calls[call]
        if self._counts is not None:
            self._discount(call)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_ticking = bool(self.calls)
        if self._is_ticking:
            loop.call_later(TICK, self._tick, loop)
        for call in tuple(self.calls):
            call.tick()

    def _count(self, call: Call, limits: Limits) -> None:
        if len(self.calls) >= limits.max_in_flight_per_process:
            raise ServerBusy
        if self._counts is None:
            self._counts = Counter(map(_caller, self.calls))
        caller = _caller(call)
        if self._counts[caller] >= limits.max_in_flight:
            raise TooManyRequests
        self._counts[caller] += 1

    def _discount(self, call: Call) -> None:
        caller, counts = _caller(call), self._counts
        assert counts is not None
        counts[caller] -= 1
        if not counts[caller]:
            del counts[caller]
        if not self.calls:
            self._counts = None


def _caller(call: Call) -> str:
    """The principal of a call; for an anonymous one, also the IP address."""
    if call.counted_as is None:
        principal = call.frame.principal
        address = None if principal.subject else getattr(call.frame.transport, "remote_ip", None)
        call.counted_as = principal.key if address is None else f"{principal.key} {address}"
    return call.counted_as


def calls_in_flight(loop: asyncio.AbstractEventLoop) -> CallsInFlight:
    return _calls.get(loop) or _calls.setdefault(loop, CallsInFlight())


_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, CallsInFlight] = WeakKeyDictionary()
