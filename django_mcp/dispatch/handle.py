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
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import finalize

from django_mcp.dispatch import call_log, dispatcher
from django_mcp.dispatch.call_log import Signal
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.dispatch.invocation import raise_outcome
from django_mcp.frame.client import request_state
from django_mcp.protocol.errors import (
    InternalError,
    InvalidParams,
    ServerBusy,
    ServerStopping,
    TooManyRequests,
)

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
    if signal is not None and (signal.receivers or call_log.calls.isEnabledFor(INFO)):
        return await call_log.logged(frame, signal, _answer(frame, site))
    reply = await dispatcher.answer(frame)
    return await _committed(frame, reply, site) if reply.frame.changes else reply


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
    return await _committed(frame, reply, site) if reply.frame.changes else reply


async def _committed(frame: Frame, reply: Reply, site: Site) -> Reply:
    """The reply, once what the handler changed in its session is committed and published."""
    after = reply.frame
    try:
        session_id = after.get_mcp_session_id()
        if session_id is not None:
            session = await site.commit(session_id, after.changes)
            if session is not None:  # Otherwise it was deleted meanwhile.
                await site.publish(after.server, session_id, after.changes)
    except ServerBusy as error:
        return dispatcher.error_reply(frame, error)
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
    is_bound_here = False
    """Whether no other process could answer it, as on a connection."""
    task: asyncio.Task[Any] | None = None
    """The task that answers it, up to the end of its response."""

    def tick(self) -> None:
        """Look after the call. A timer or a task for each call would cost as much as its answer."""

    def abandon_requests(self, reason: str) -> None:
        """Give up what the call has asked its client, which cannot respond any more."""

    def end(self, reason: str) -> None:
        """Cancel the call, whose response is then an error."""


class CallsInFlight:
    """The calls that are answered on one event loop: their timer, and their bounds.

    They are counted by caller only while there are many. It has no reference to its loop, so that
    both can be collected.
    """

    def __init__(self) -> None:
        self.calls: dict[Call, None] = {}
        self._counts: Counter[str] | None = None
        self._is_ticking = False
        self._is_closed = False

    def begin(self, call: Call, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        """Add a call; raises TooManyRequests, ServerBusy and ServerStopping."""
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

    def close(self) -> None:
        """Reject further calls, because the process ends."""
        self._is_closed = True
        # Each call is then counted, where it is rejected: others do not look at a flag.
        self._counts = self._counts or Counter(map(_caller, self.calls))

    def open(self) -> None:
        """Accept calls again."""
        self._is_closed = False

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_ticking = bool(self.calls)
        if self._is_ticking:
            loop.call_later(TICK, self._tick, loop)
        for call in tuple(self.calls):
            call.tick()

    def _count(self, call: Call, limits: Limits) -> None:
        if self._is_closed and not call.is_bound_here:
            raise ServerStopping
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
        if not self.calls and not self._is_closed:
            self._counts = None


def _caller(call: Call) -> str:
    """The principal of a call; for an anonymous one, also the IP address."""
    if call.counted_as is None:
        principal = call.frame.principal
        address = None if principal.subject else getattr(call.frame.transport, "remote_ip", None)
        call.counted_as = principal.key if address is None else f"{principal.key} {address}"
    return call.counted_as


T = TypeVar("T")


class PerLoop(Generic[T]):
    """Objects by event loop, which are made at their first use and end with their loop.

    They are found by the identity of the loop: a ``WeakKeyDictionary`` takes 0.5 µs more.
    """

    __slots__ = ("_make", "_objects")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._objects: dict[int, T] = {}

    def of(self, loop: asyncio.AbstractEventLoop) -> T:
        found = self._objects.get(id(loop))
        return self._add(loop) if found is None else found

    def _add(self, loop: asyncio.AbstractEventLoop) -> T:
        finalize(loop, self._objects.pop, id(loop), None).atexit = False
        return self._objects.setdefault(id(loop), self._make())


calls_in_flight = PerLoop(CallsInFlight).of
