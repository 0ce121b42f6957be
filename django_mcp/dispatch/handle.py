"""Handling every message of every transport: prepare, answer, commit, publish, log.

Frame processors, the start of the server, the answer, the commit and the publication of what the
handler changed, and the call log. ``Site`` has the functions which depend on stores, Channels
and Django.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from django_mcp.dispatch import call_log, dispatcher
from django_mcp.dispatch.call_log import Signal
from django_mcp.dispatch.invocation import raise_outcome
from django_mcp.dispatch.reply import Reply, error_reply
from django_mcp.frame.client import request_state
from django_mcp.frame.transport import answering
from django_mcp.protocol.errors import InternalError, InvalidParams, ServerBusy
from django_mcp.server.server import server_of

if TYPE_CHECKING:
    from django_mcp.frame.frame import Frame
    from django_mcp.frame.session import Change, Session
    from django_mcp.frame.transport import Transport
    from django_mcp.server.server import Server


class SingleUse(Protocol):
    """Request states that are accepted once."""

    def claim(self, state: str, /) -> bool:
        """Return whether no other call has used the state, or is using it."""

    def keep(self, state: str, /) -> None:
        """Mark a claimed state as used."""

    def release(self, state: str, /) -> None:
        """Let another call claim the state."""


class Telemetry(Protocol):
    """The module ``dispatch.telemetry``, which imports an optional package."""

    async def traced(self, frame: Frame, answer: Callable[[Frame], Awaitable[Reply]], /) -> Reply:
        """What ``answer`` returns, which is measured."""

    def session_ended(self, session: Session, transport: Transport | None, /) -> None:
        """Measure a session that its client or the server has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    start: Callable[[Server], Awaitable[None]]
    """Starts a server that is not running in this process."""
    process: Callable[[Frame], Awaitable[Frame]] | None
    """Runs the frame processors; None where there are none."""
    single_use: SingleUse | None
    """Lets a request state be used once; None where it may be used repeatedly."""
    commit: Callable[[str, str, Sequence[Change]], Awaitable[Session | None]]
    """Applies changes to a session, by its id and the key of its principal.

    Returns the new session, or None if there is none of this principal.
    """
    publish: Callable[[Server, str, Sequence[Change]], Awaitable[None]]
    """Notifies the client of a session of the changes that it has to know."""
    signals: Mapping[str, Signal]
    """The signals which are sent when a call of a method is over."""
    telemetry: Telemetry | None = None
    """Makes a span of each request; None where the site does not use OpenTelemetry."""


async def answer(frame: Frame, site: Site) -> Reply:
    """The reply to the request on ``frame``; only cancellation is raised.

    What the handler changed in its session is committed before the reply is returned.
    """
    if site.telemetry is not None:
        return await site.telemetry.traced(
            frame, partial(answer, site=replace(site, telemetry=None))
        )
    token = answering.set((frame.principal, frame.transport))
    try:
        if site.single_use and (state := request_state.of(frame)) is not None:
            return await _answer_once(frame, site, site.single_use, state)
        if site.process or not frame.server.is_running:
            try:
                frame = await prepare(frame, site)
            except Exception as error:
                frame.server.report("A message could not be prepared", error)
                return error_reply(frame, InternalError())
        signal = site.signals.get(frame.message.method)
        if signal is not None and call_log.is_wanted(signal):
            return await call_log.logged(frame, signal, _answer(frame, site))
        return await _answer(frame, site)
    finally:
        answering.reset(token)


async def _answer_once(frame: Frame, site: Site, single_use: SingleUse, state: str) -> Reply:
    """``answer`` a call that brings a request state which may be used once.

    The state is used up when the answer is kept: a call that failed or was cancelled leaves it.
    """
    run = frame.exchange.run_hook
    if not await run(single_use.claim, state):
        return error_reply(frame, InvalidParams("params.requestState was used before"))
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
            await site.start(server_of(frame))
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
            session = await site.commit(session_id, frame.principal.key, after.changes)
            if session is not None:  # Otherwise it was deleted meanwhile.
                await site.publish(server_of(after), session_id, after.changes)
    except ServerBusy as error:
        return error_reply(frame, error)
    except Exception as error:
        frame.server.report("What a handler changed in its session could not be committed", error)
        return error_reply(frame, InternalError())
    return reply
