"""Publishing notifications to the sessions and streams they concern, on any worker.

A message for one session is appended to its outbox. The active stream of the session takes it from
there. A message for every session of a server is appended once to the log of the server, which
each session reads from its own position. The store comes first. Afterwards a hint on the message
bus, which may be lost, tells the streams to read. A write that fails is logged, and not repeated.
"""

# The ways of a message:
#
# | for | stored in | hint | read by |
# |---|---|---|---|
# | one session | the outbox of the session | ``posted`` | its active stream, which moves it |
# | every client | the log of the server | the entries | ``announcements``, once per event loop |
# | subscribers of a resource | the log ``updates``, and their outboxes | both | both |
# | one connection | nothing | the message itself | the worker of the connection |
#
# The rules:
#
# 1. The store comes first, then the hint. A reader that finds nothing new does nothing, so a hint
#    may be lost, repeated or late.
# 2. ``catch_up`` makes up for a lost hint, within five seconds.
# 3. The order of a log is the order of its numbers. There is none between an outbox and a log.
# 4. A message that cannot be stored is logged, and not tried again. If it was for the log, its hint
#    contains the message, for those who are connected now.
# 5. An announcement that is equal to one in the queue is not stored again. The queue is therefore
#    only for notifications that add nothing when they are repeated.
# 6. An event loop that serves clients does not wait for the channel layer.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync

from django_mcp import registry, stores
from django_mcp.core.concurrency import loops
from django_mcp.core.concurrency.loops import result_of, running_loop
from django_mcp.core.frame.client.base import current_frame
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import Statefulness
from django_mcp.core.protocol.subscriptions import UPDATED
from django_mcp.core.server.notifications import CATEGORIES, list_changed
from django_mcp.pubsub import bus, channel_layer, session_messages
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.pubsub.publish_queue import Announcement, PublishQueue
from django_mcp.runtime import background, pools
from django_mcp.stores.base import digest

if TYPE_CHECKING:
    from django_mcp.core.server.server import Server

LOG = "log"
"""The stream of a server with the messages for every client."""
UPDATES = "updates"
"""The stream of a server with the URIs of resources that were updated."""
LOGS = (LOG, UPDATES)
"""The streams of a server, which no session has."""
SESSIONS_AT_ONCE = 50
"""How many outboxes are appended to in one operation of the store."""
NUMBERS_PER_SECOND = 1000
"""The first number of a log is the time, as so many numbers for each second since 1970.

More are never appended in a second. When a store is lost, the numbers of the new log are therefore
higher than all of the lost one, and its readers notice the gap."""

METHODS = frozenset(map(list_changed, CATEGORIES.values()))
"""The notifications which add nothing when repeated."""


def of_log(server: Server, stream: str) -> str:
    """The group for a log of the server. Only ``announcements`` joins it, for all others."""
    return bus.group(stream, server.name)


def log_of(server: Server) -> str:
    """The address of a server's log in the event store, in the place of a session's address."""
    return digest("server", server.name)


def of_task(task_id: str) -> str:
    """The group of those who wait for changes of a task."""
    return bus.group("task", task_id)


class ChannelsPublisher:
    """The publisher of a Django site, over the event store and the channel layer."""

    async def broadcast(self, server: Server, method: str, params: Json | None = None) -> None:
        """Send a notification to every client.

        A failure of the store is logged. The notification then reaches only the clients that are
        connected now, and only if the bus works.
        """
        if method in METHODS and not params:
            await loops.here(_Queue).publish(server, [Announcement(method)])
        else:
            await _broadcast(server, {method: _encoded(method, params)})

    async def send_to_session(
        self, server: Server, session_id: str, method: str, params: Json | None
    ) -> None:
        """Send a notification to one session, if its revision has it."""
        message = jsonrpc.notification(method, params)
        if session_messages.CONNECTION_BOUND in session_id:
            await session_messages.say_on_connection(session_id, message)
            return
        session = await stores.sessions().load(session_id)
        if (
            session is not None
            and session.server == server.name
            and session_messages.supports(session, method)
        ):
            await session_messages.post_to_outbox(session.address, message)

    async def resource_updated(self, server: Server, *uris: str) -> None:
        """Notify the sessions and the listen streams which subscribed to the resources."""
        updates = [Announcement(UPDATED, uri) for uri in uris]
        await loops.here(_Queue).publish(server, updates)

    async def ping(self, server: Server, session_id: str, timeout: float) -> None:
        if session_messages.CONNECTION_BOUND in session_id:
            raise ValueError("A session that ends with its connection needs no ping")
        await self.request(server, session_id, "ping", {}, timeout)

    async def request(
        self, server: Server, session_id: str, method: str, params: Json, timeout: float
    ) -> Any:
        session = await stores.sessions().load(session_id)
        if session is None or session.server != server.name:
            raise LookupError("Session not found")

        requests = PendingRequests()

        async def post(message: dict[str, Any]) -> None:
            is_stored = await session_messages.post_to_outbox(session.address, message)
            if not is_stored:
                requests.abandon("The request cannot be stored for the client")

        def write(message: dict[str, Any]) -> None:
            background.spawn(post(message))

        route = ResponseRoute(server, session)
        return await requests.send_request(route, write, method, params, timeout=timeout)

    def wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it now; raises RuntimeError in a thread that runs an event loop."""
        if running_loop() is not None:
            coroutine.close()
            raise RuntimeError("This would block the event loop: await the method with 'a' instead")
        async_to_sync(result_of)(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it now, or soon in a thread that runs an event loop."""
        if running_loop() is None:
            self.wait(coroutine)
        else:
            background.spawn_accepted(coroutine)

    def list_changed(self, server: Server, category: str) -> None:
        """Notify every client soon, once for all changes until then."""
        self._publish_soon(server, Announcement(list_changed(category)))

    def resource_changed(self, server: Server, uri: str) -> None:
        """Notify the subscribers of a resource soon, once for all changes until then."""
        self._publish_soon(server, Announcement(UPDATED, uri))

    def _publish_soon(self, server: Server, announcement: Announcement) -> None:
        loop = bus.any_loop() or _loop_of_test()
        if loop is None:
            self.run(_publish_one(server, announcement))
        else:
            loop.call_soon_threadsafe(_add, server, announcement)


def _loop_of_test() -> asyncio.AbstractEventLoop | None:
    """The event loop of the call that runs on this thread, if its stores need this thread.

    They do in the clients for tests: the thread cannot wait for them.
    """
    frame = current_frame.get()
    if frame is None or not pools.is_thread_sensitive():
        return None
    return getattr(frame.exchange, "loop", None)


def _add(server: Server, announcement: Announcement) -> None:
    _ = loops.here(_Queue).add(server, announcement)


async def _publish_one(server: Server, announcement: Announcement) -> None:
    await loops.here(_Queue).publish(server, [announcement])


async def _publish_queued(server: Server, announcements: Sequence[Announcement]) -> None:
    """Store and publish the messages of the queue."""
    changed = [announcement.method for announcement in announcements if announcement.uri is None]
    uris = [announcement.uri for announcement in announcements if announcement.uri is not None]
    if changed:
        await _broadcast(server, {method: _encoded(method) for method in changed})
    if uris:
        await _publish_updates(server, uris)


class _Queue(PublishQueue):
    """The queue of one event loop, which may end before it has published its queue."""

    def __init__(self) -> None:
        super().__init__(_publish_queued)


def _encoded(method: str, params: Json | None = None) -> str:
    return jsonrpc.encode(jsonrpc.notification(method, params)).decode()


async def _broadcast(server: Server, texts: Mapping[str, str]) -> None:
    """Store and publish notifications for every client, by method."""
    group = of_log(server, LOG)
    hint = await _append(server, LOG, [*texts.values()])
    if hint is not None:
        bus.publish_soon(group, hint)
    else:
        for method, text in texts.items():
            bus.publish_soon(group, {"method": method, "text": text, "number": None})
    await bus.flush()


NOT_STORED = (
    "A notification of %s cannot be stored: those who are not connected now do not receive it"
)


def is_logged() -> bool:
    """Whether other workers read the event store, in case a message on the bus was lost."""
    return stores.events().is_shared and channel_layer.shared() is not None


def is_stored(server: Server, stream: str) -> bool:
    """Whether messages are appended to this log: sessions, or other workers, read it."""
    return is_logged() or (stream == LOG and bool(server.revisions(Statefulness.SESSION)))


async def _append(server: Server, stream: str, texts: Sequence[str]) -> Json | None:
    """Append to a log; return the hint for its readers.

    None if nobody reads this log, or if the store fails, which is logged.
    """
    if not is_stored(server, stream):
        return None
    try:
        store = stores.events()
        first = int(store.now() * NUMBERS_PER_SECOND)
        last = await store.append(log_of(server), stream, texts, first=first)
    except Exception:
        log_repeated(logging.ERROR, NOT_STORED, server.name, exc_info=True)
        return None
    return {"entries": [*texts], "last": last}


async def _publish_updates(server: Server, uris: Sequence[str]) -> None:
    """Store and publish updates of resources.

    If the store fails, the sessions are not notified through it either: a store that hangs is
    waited for once.
    """
    group = of_log(server, UPDATES)
    hint = await _append(server, UPDATES, uris)
    if hint is not None:
        bus.publish_soon(group, hint)
    else:
        for uri in uris:
            bus.publish_soon(group, {"method": UPDATED, "uri": uri})
    is_refused = hint is None and is_stored(server, UPDATES)
    if not is_refused:
        await _notify_subscribers(server, uris)
    await bus.flush()


async def _notify_subscribers(server: Server, uris: Sequence[str]) -> None:
    """Notify the sessions which subscribed to the resources; a failure of the store is logged."""
    if not server.revisions(Statefulness.SESSION):
        return
    try:
        await _post_updates(server, uris)
    except Exception:
        text = "The sessions that subscribed to a resource of %s cannot be notified"
        log_repeated(logging.ERROR, text, server.name, exc_info=True)


async def _post_updates(server: Server, uris: Sequence[str]) -> None:
    """Append updates to the outboxes of the sessions that subscribed, and publish the hints."""
    subscribers = await stores.sessions().subscribers_of_each(server.name, uris)
    messages: dict[str, list[str]] = {}
    for uri, addresses in subscribers.items():
        text = _encoded(UPDATED, {"uri": uri})
        for session in addresses:
            messages.setdefault(session, []).append(text)
    sessions = sorted(messages)
    for start in range(0, len(sessions), SESSIONS_AT_ONCE):
        portion = sessions[start : start + SESSIONS_AT_ONCE]
        part = {session: messages[session] for session in portion}
        full = await stores.events().append_to_each(session_messages.OUTBOX, part)
        if full:
            log_repeated(logging.WARNING, session_messages.TOO_MANY_STREAMS, times=len(full))
        for session in part.keys() - set(full):
            session_messages.publish_to_session(session, "posted")


async def position(server: Server) -> int:
    """The last number in the server's log."""
    return await stores.events().last(log_of(server), LOG) or 0


async def renew_logs(_: float = 0.0) -> None:
    """Keep the logs of this site's servers: a log that expires would begin with other numbers."""
    for server in registry.servers():
        for stream in LOGS:
            await stores.events().append(log_of(server), stream, (), create=False)
