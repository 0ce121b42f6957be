"""The lease which decides which GET stream of a session sends: the newest, on any worker.

Every message is sent on exactly one stream (T-HTTP-51, -52). The holder of the lease flushes its
pending event and hands over its position in time, or loses the lease; that of a dead worker
expires. It is a field of the session, changed by compare-and-set; hints on the bus make it quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django_mcp import stores
from django_mcp.frame.session import Change, Session
from django_mcp.pubsub import bus, publisher

LEASE = 150.0
"""Seconds for which the lease is valid. It is renewed with each check of an open stream, every
60 seconds, by the store operation which keeps the session from expiring: no other one is made."""
HANDOVER = 3.0
"""Seconds which the previous stream has for its pending event."""
HINTS = REQUESTED, RELEASED = "stream_requested", "stream_released"
"""The hints: a newer stream waits for the lease, and the lease was released or handed over."""

LogPosition = int | None


class ActiveStream:
    def __init__(
        self,
        session_id: str,
        name: str,
        *,
        activate: Callable[[dict[str, Any]], None],
        drain: Callable[[], Awaitable[None]],
        retry: Callable[[], None],
    ) -> None:
        """``activate`` receives the lease, ``drain`` waits until everything written is sent.

        ``retry`` is called when the lease may be available: it has to call ``renew``.
        """
        self.is_active = False
        self.position: LogPosition = None
        """The last number of the server's log which this stream has sent."""
        self._session_id = session_id
        self._name = name
        self._activate = activate
        self._drain = drain
        self._retry = retry
        self._may_hold = False
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> Session | None:
        """Take the lease, or request it from its holder; return the session as it is now."""
        return await self.renew(is_new=True)

    async def renew(self, *, is_new: bool = False) -> Session | None:
        """Renew the lease, take a free one, or hand over; return the session as it is now."""
        async with self._lock:
            self._may_hold = True  # Also if this is cancelled while the store is at work.
            store = stores.sessions()
            now = store.now()
            value = {"now": now, "until": now + LEASE}
            if is_new:
                value["limit"] = now + HANDOVER
            if self.is_active and self.position is not None:
                value["position"] = self.position
            change = Change("active_stream", "activate", self._name, value)
            session = await store.update(self._session_id, [change])
            if session is not None:
                await self._apply(session, now, is_new=is_new)
            return session

    async def close(self) -> None:
        """Release the lease, or withdraw the request for it."""
        self._stop_timer()
        async with self._lock:
            was_active, self.is_active = self.is_active, False
            if self._may_hold:
                await self._hand_over(self.position if was_active else None)

    def receive(self, hint: bus.Message) -> None:
        """Look at the lease again if the hint of another stream concerns this one."""
        if hint["event"] == REQUESTED:
            concerns_this = self._may_hold and hint["by"] != self._name
        else:
            concerns_this = hint["to"] in ("", self._name)
        if concerns_this:
            self._retry()

    async def _apply(self, session: Session, now: float, *, is_new: bool) -> None:
        self._stop_timer()
        lease = dict(session.active_stream)
        was_active, self.is_active = self.is_active, lease["by"] == self._name
        is_next = lease.get("next") == self._name
        self._may_hold = self.is_active or is_next
        if is_next:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, lease["until"] - now), self._retry)
            if is_new:
                await publisher.send_to_session(session.address, REQUESTED, by=self._name)
        elif self.is_active and "next" in lease:
            self.is_active = False
            await self._yield(was_active=was_active)
        elif self.is_active and not was_active:
            self._activate(lease)

    async def _yield(self, *, was_active: bool) -> None:
        """Flush the pending event and hand over, unless the client does not read it in time."""
        try:
            async with asyncio.timeout(HANDOVER):
                await self._drain()
        except TimeoutError:
            return
        await self._hand_over(self.position if was_active else None)

    async def _hand_over(self, position: LogPosition) -> None:
        value = {"until": stores.sessions().now() + LEASE, "position": position}
        change = Change("active_stream", "hand_over", self._name, value)
        session = await stores.sessions().update(self._session_id, [change])
        self._may_hold = False
        if session is not None:
            next_holder = session.active_stream.get("by", "")
            await publisher.send_to_session(session.address, RELEASED, to=next_holder)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
