"""The calls of sessions that are being answered: by whom they may be cancelled, and from where.

In a session a closed connection cancels nothing (T-HTTP-28), so each call has a task of its
own. What cancels it is a notification, which may have reached another worker: a call that
takes longer than most listens to its session's group. Most calls are answered before.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp import conf, stores
from django_mcp.dispatch import dispatcher
from django_mcp.dispatch.dispatcher import Reply
from django_mcp.frame.frame import Frame
from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import Cancelled, InternalError, InvalidRequest
from django_mcp.protocol.jsonrpc import RequestId
from django_mcp.pubsub import bus, publisher
from django_mcp.transports import frames
from django_mcp.transports.http.monitor import CallMonitor
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session import session_lock
from django_mcp.transports.http.session.response import SessionExchange

REMEMBERED = 30.0
"""Seconds for which it is remembered that a request was given up which was not seen to run."""
EARLY = 1000
"""How many of these are remembered here, of all sessions."""


def key_of(identity: RequestId) -> str:
    """A request's id as a text which differs for ``1`` and ``"1"``."""
    return f"{'s' if isinstance(identity, str) else 'i'}{identity}"


class SessionCallMonitor(CallMonitor):
    """A Watch which also hears, once the call takes long, what other workers know of it."""

    __slots__ = ("_call", "_joining")

    def __init__(self, call: InFlightRequest, receive: Receive, frame: Frame) -> None:
        site = conf.get()
        super().__init__(
            receive,
            frame,
            call.exchange,
            timeout=site.handler_timeout,
            keepalive=site.sse_ping_interval,
        )
        self._call = call
        self._joining: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """One round; in the first that counts, begin to listen."""
        super().tick()
        if self._joining is None and self._waiting is not None:
            self._joining = self._exchange.loop.create_task(self._join())

    def end(self, reason: str) -> None:
        """Cancel the call, and what it waits for."""
        super().end(reason)
        self._call.exchange.abandon(reason)

    def stop(self) -> None:
        """Stop looking and listening."""
        super().stop()
        if self._joining is not None:
            self._joining.cancel()
            bus.here().unsubscribe(publisher.of_session(self._call.session), self._hear)

    async def _join(self) -> None:
        await bus.here().subscribe(publisher.of_session(self._call.session), self._hear)
        if bus.shared_layer() is not None:
            await self._look_back()

    async def _look_back(self) -> None:
        """See what was said on other workers before this one listened."""
        session = await stores.sessions().load(self._call.session_id)
        if session is None:
            self.end(ENDED)
        elif is_noted(session, self._call.key):
            self.end(GIVEN_UP)

    def _hear(self, message: bus.Message) -> None:
        if message["event"] == "cancelled" and message["key"] == self._call.key:
            self.end(message["reason"])
        elif message["event"] == "ended":
            self.end(ENDED)
        elif message["event"] == "resumed" and message["stream"] == self._call.exchange.stream:
            bus.spawn(self._call.exchange.detach())


ENDED = "The session has ended"
GIVEN_UP = "The client gave the request up"


@dataclass(slots=True, eq=False, kw_only=True)
class InFlightRequest:
    """One request of a session, while it is answered here."""

    session_id: str
    session: str
    """The address of the session."""
    key: str
    exchange: SessionExchange
    given_up: str | None = None
    """Why it was cancelled before it began."""
    watch: SessionCallMonitor | None = None
    task: asyncio.Task[None] | None = None

    def end(self, reason: str) -> None:
        """Cancel it."""
        if self.watch is not None:
            self.watch.end(reason)
        else:
            self.given_up = reason


class InFlightRequests:
    """The calls that are being answered on one event loop, by session."""

    def __init__(self) -> None:
        self._running: dict[str, dict[str, InFlightRequest]] = {}
        self._early: OrderedDict[tuple[str, str], float] = OrderedDict()

    def begin(self, call: InFlightRequest, identity: RequestId) -> None:
        """Take up a call; raises InvalidRequest when there are too many, or one of its id."""
        running = self._running.setdefault(call.session, {})
        if running:
            _check(running, call, identity)
        running[call.key] = call
        until = self._early.pop((call.session, call.key), None) if self._early else None
        if until is not None and until > call.exchange.loop.time():
            call.given_up = GIVEN_UP

    def end(self, call: InFlightRequest) -> None:
        """Let go of a call which is answered."""
        running = self._running[call.session]
        del running[call.key]
        if not running:
            del self._running[call.session]

    def cancel(self, session: str, key: str, reason: str) -> bool:
        """Cancel a call that runs here; otherwise remember for a while, and False."""
        call = self._running.get(session, {}).get(key)
        if call is not None:
            call.end(reason)
            return True
        self._early[session, key] = asyncio.get_running_loop().time() + REMEMBERED
        if len(self._early) > EARLY:
            self._early.popitem(last=False)
        return False

    def cancel_all(self, session: str, reason: str) -> None:
        """Cancel every call of a session that runs here."""
        for call in tuple(self._running.get(session, {}).values()):
            call.end(reason)


def _check(
    running: Mapping[str, InFlightRequest], call: InFlightRequest, identity: RequestId
) -> None:
    """Raise InvalidRequest when the call must not run beside those of its session that do."""
    if call.key in running:
        raise InvalidRequest("A request with this id is running", request_id=identity)
    if len(running) >= conf.get().max_in_flight:
        raise InvalidRequest("Too many requests are running", request_id=identity)


_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, InFlightRequests] = WeakKeyDictionary()


def here() -> InFlightRequests:
    """The calls on the running event loop."""
    loop = asyncio.get_running_loop()
    calls = _calls.get(loop)
    if calls is None:
        calls = _calls[loop] = InFlightRequests()
    return calls


async def answer(frame: Frame, exchange: SessionExchange, receive: Receive, key: str) -> None:
    """Answer a request of a session, for as long as its connection is of use.

    Raises InvalidRequest when it must not begin.
    """
    assert frame.request is not None
    assert frame.request.id is not None
    session_id = frame.get_mcp_session_id()
    assert session_id is not None
    call = InFlightRequest(
        session_id=session_id, session=address(session_id), key=key, exchange=exchange
    )
    calls = here()
    calls.begin(call, frame.request.id)
    call.task = exchange.loop.create_task(_answer(calls, call, frame, receive))
    await exchange.until_over(call.task)


async def _answer(
    calls: InFlightRequests, call: InFlightRequest, frame: Frame, receive: Receive
) -> None:
    try:
        await _watched(calls, call, frame, receive)
    finally:
        # Here, and not when the task is done, of which the loop would tell a round later.
        call.exchange.release()


async def _watched(
    calls: InFlightRequests, call: InFlightRequest, frame: Frame, receive: Receive
) -> None:
    call.watch = watch = SessionCallMonitor(call, receive, frame)
    try:
        if call.given_up is not None:
            watch.end(call.given_up)
            await asyncio.sleep(0)  # Here the cancellation takes effect, before any handler runs.
        reply = await _reply(frame)
    except asyncio.CancelledError:
        if watch.ended_by is None:
            raise
        watch.uncancel()
        reply = dispatcher.error_reply(frame, Cancelled())
    finally:
        watch.stop()
        calls.end(call)
        # They know each other, and would wait for the collector of cycles.
        call.watch = call.task = None
    await call.exchange.finish(reply.message)


async def _reply(frame: Frame) -> Reply:
    try:
        if not session_lock.is_needed(frame):
            return await _kept(await frames.answer(frame))
        session_id = frame.get_mcp_session_id()
        assert session_id is not None
        load = partial(stores.sessions().load, session_id)
        async with session_lock.acquire(frame, load, shared=True) as ready:
            return await _kept(await frames.answer(ready))
    except InvalidRequest as error:
        return dispatcher.error_reply(frame, error)
    except Exception as error:
        frame.server.report("A request could not be answered in its turn", error)
        return dispatcher.error_reply(frame, InternalError())


async def _kept(reply: Reply) -> Reply:
    if not reply.frame.changes:
        return reply
    try:
        await frames.commit(stores.sessions, reply)
    except Exception:
        return frames.commit_failed_reply(reply)
    return reply


async def cancel(session: Session, params: Mapping[str, Any]) -> None:
    """Cancel what ``notifications/cancelled`` names, on whichever worker it runs.

    One that names nothing is ignored (CANC-11); one that comes first is remembered.
    """
    identity = params.get("requestId")
    if not jsonrpc.is_id(identity):
        return
    key = key_of(identity)
    reason = str(params.get("reason") or GIVEN_UP)[:200]
    if here().cancel(session.address, key, reason) or bus.shared_layer() is None:
        return
    # First the note, then the news: a call listens first and then looks for the note.
    store = stores.sessions()
    note = Change("cancelled", "note", key, store.now() + REMEMBERED)
    await store.update(session.id, [note])
    await publisher.send_to_session(session.address, "cancelled", key=key, reason=reason)


async def end_all(session: Session) -> None:
    """End everything that belongs to a session which has ended: its calls and its streams."""
    here().cancel_all(session.address, ENDED)
    await publisher.send_to_session(session.address, "ended")


def is_noted(session: Session, key: str) -> bool:
    """Whether a request of the session was given up before it was seen to run."""
    return session.cancelled.get(key, 0.0) > stores.sessions().now()
