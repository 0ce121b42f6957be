"""The rest of a POST's stream, up to the response, for a client that lost its connection.

| phase | meaning | who moves it |
|---|---|---|
| reading | events are sent as the worker of the call stores them | the response: ended |
| ended | the client has its response, or the error of a worker that died | ``_read`` |
| replaced | the client has resumed the stream over a newer connection | ``resumed`` of that one |

A client that leaves, and the end of its session, end a stream that reads.
"""

from __future__ import annotations

import asyncio
import secrets
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from django_mcp import stores
from django_mcp.core.frame.session import Session
from django_mcp.core.protocol import sse
from django_mcp.core.protocol.sse import EventId
from django_mcp.pubsub import bus, session_messages
from django_mcp.transports.http.session import event_log
from django_mcp.transports.http.session.stream import SessionStream, method_of

if TYPE_CHECKING:
    from django_mcp.transports.http.exchange import HttpExchange

RESUME_AGAIN = 0.3
"""Seconds until a resumed stream publishes that again: a new call subscribes after a moment."""
CHECKS = 3
"""How often a resumed stream looks at its lease while that would be renewed once, at first."""


class _Phase(Enum):
    READING = auto()
    ENDED = auto()
    REPLACED = auto()


class ResumedStream(SessionStream):
    """The rest of a POST's stream, up to the response, for a client that lost its connection."""

    ends_with_call = True

    def __init__(self, http: HttpExchange, session: Session, last_event: EventId) -> None:
        super().__init__(http, session)
        self._name = last_event.stream
        self._number = last_event.sequence
        self._token = secrets.token_urlsafe(9)
        self._phase = _Phase.READING
        self._is_lease_due = True
        self._resumed_at = self._loop.time()
        self._watched_since = inf
        """When the store first answered."""
        self._timer: asyncio.TimerHandle | None = None

    def _check_lease(self) -> None:
        """Look, as often as the lease is renewed, whether the worker that writes still lives.

        At first more often: streams are resumed because their workers have just died.
        """
        self._is_lease_due = True
        self._wake()
        is_first = self._loop.time() - self._resumed_at <= event_log.lease()
        interval = event_log.renewal_interval() / (CHECKS if is_first else 1)
        self._timer = self._loop.call_later(interval, self._check_lease)

    async def serve(self) -> None:
        group = session_messages.of_session(self._session.address)
        here = bus.here()
        try:
            self.enqueue(sse.KEEP_ALIVE)
            await here.subscribe(group, self._receive_event)
            self._follow(self._name)
            self._replace_others()
            asyncio.get_running_loop().call_later(RESUME_AGAIN, self._replace_others)
            await self._reload()
            self._check_lease()
            await self.wait_until_closed()
            await self._wait_for_reader()
            await self.finish()
        finally:
            self._unfollow()
            if self._timer is not None:
                self._timer.cancel()
            here.unsubscribe(group, self._receive_event)
            if self._phase is not _Phase.REPLACED:
                bus.publish_soon(group, {"event": "left", "stream": self._name})

    def _replace_others(self) -> None:
        if not self.is_closed:
            event = {"event": "resumed", "stream": self._name, "by": self._token}
            bus.publish_soon(session_messages.of_session(self._session.address), event)
            self._wake()

    def _receive_event(self, message: bus.Message) -> None:
        is_mine = message.get("stream") == self._name
        match message["event"]:
            case "appended" if is_mine:
                self._wake()
            case "resumed" if is_mine and message["by"] != self._token:
                self._phase = _Phase.REPLACED
                self.end()
            case "ended":
                self.end()
            case "taken_over" if message["by"] != self.principal.key:
                self.end()

    async def _read(self) -> None:
        if self._phase is not _Phase.READING:
            return
        session = self._session.address
        store = stores.events()
        if self._is_lease_due:
            self._is_lease_due = False
            watched_for = self._loop.time() - self._watched_since
            await event_log.end_abandoned(self._session, self._name, watched_for=watched_for)
        # In this order: entries before the end are read after it was seen.
        is_closed = await store.is_closed(session, self._name)
        self._watched_since = min(self._watched_since, self._loop.time())
        events = await store.after(session, self._name, self._number)
        for event in events or ():
            self._number = event.number
            await self._send_stored(event.data, str(EventId(self._name, event.number)))
        if events is None:
            await self._send_end_of_lease()
        elif is_closed and not events:
            await self._send_unseen_end()
        # A worker that died after it stored the response has not closed the stream.
        if is_closed or events is None or (events and not method_of(events[-1].data)):
            # The client has its one answer.
            if self._phase is _Phase.READING:
                self._phase = _Phase.ENDED
            self.end()

    async def _send_unseen_end(self) -> None:
        """Send the error of a lease that has ended to a client which is ahead of the store.

        Events are sent while they are being stored. Of those that a worker did not store before it
        died, the client has seen the numbers, including the error's.
        """
        session = self._session.address
        store = stores.events()
        last = await store.last(session, self._name) or 0
        for event in await store.after(session, self._name, last - 1) or ():
            if event.data == event_log.end_of_lease(self._session, self._name):
                await self._send_end_of_lease()

    async def _send_end_of_lease(self) -> None:
        text = event_log.end_of_lease(self._session, self._name)
        await self._send_stored(text, str(EventId(self._name, self._number)))
