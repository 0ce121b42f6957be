"""Publishing notifications to the sessions and streams they concern, on any worker.

A message for one session is appended to its outbox, from which the active stream of the session
takes it. A message for every session of a server is appended once to the log of the server, which
each session reads from its own position. A hint on the message bus wakes the streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync

from django_mcp import signals, stores
from django_mcp.frame.session import Change, Session, address
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import Json
from django_mcp.protocol.revisions import BY_VERSION, Statefulness
from django_mcp.pubsub import bus
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.server.notifications import CATEGORIES, list_changed
from django_mcp.stores.base import digest

if TYPE_CHECKING:
    from django_mcp.server.server import Server

logger = logging.getLogger("django_mcp")

Loop: TypeAlias = asyncio.AbstractEventLoop

OUTBOX = "outbox"
"""The stream of a session with the messages which no stream to the client has taken yet."""
LOG = "log"
"""The stream of a server with the messages for all of its sessions."""
CONCURRENCY = 10
"""How many outboxes are written to at the same time."""

CONNECTION_BOUND = "."
"""A character which only the ids of sessions contain that end with their connection. They are in
no store, and messages reach them over the message bus alone."""

METHODS = frozenset(map(list_changed, CATEGORIES.values()))
"""The notifications which add nothing when repeated."""


def of_server(server: Server) -> str:
    """The group for the messages to every client of the server."""
    return bus.group("server", server.name)


def of_resource(server: Server, uri: str) -> str:
    """The group for updates of one resource."""
    return bus.group("resource", server.name, uri)


def of_session(session: str) -> str:
    """The group for the streams and calls of the session with this address."""
    return bus.group("session", session)


def log_of(server: Server) -> str:
    """The address of a server's log in the event store, which takes it for a session."""
    return digest("server", server.name)


class ChannelsPublisher:
    """The publisher of a Django site, over the event store and the channel layer."""

    def __init__(self) -> None:
        # By loop, because a loop may end before it has sent its notifications.
        self._pending: WeakKeyDictionary[Loop, dict[tuple[Server, str], None]] = WeakKeyDictionary()

    async def broadcast(self, server: Server, method: str, params: Json | None = None) -> None:
        text = jsonrpc.encode(jsonrpc.notification(method, params)).decode()
        number = None
        if server.revisions(Statefulness.SESSION):
            try:
                number = await stores.events().append(log_of(server), LOG, [text])
            except Exception:
                logger.exception("A notification cannot be appended to the log of %s", server.name)
        await bus.publish(of_server(server), {"method": method, "text": text, "number": number})

    async def send_to_session(
        self, server: Server, session_id: str, method: str, params: Json | None
    ) -> None:
        """Send a notification to one session, if its revision has it."""
        message = jsonrpc.notification(method, params)
        if CONNECTION_BOUND in session_id:
            await bus.publish(of_session(address(session_id)), {"event": "said", "said": message})
            return
        session = await stores.sessions().load(session_id)
        if session is not None and session.server == server.name and supports(session, method):
            await post_to_outbox(session.address, message)

    async def resource_updated(self, server: Server, uri: str) -> None:
        """Notify the sessions and the listen streams which subscribed to the resource."""
        method, params = "notifications/resources/updated", {"uri": uri}
        await bus.publish(of_resource(server, uri), {"method": method, "uri": uri})
        if server.revisions(Statefulness.SESSION):
            try:
                found = await stores.sessions().subscribers(server.name, uri)
                message = jsonrpc.notification(method, params)
                for start in range(0, len(found), CONCURRENCY):
                    some = found[start : start + CONCURRENCY]
                    await asyncio.gather(*(post_to_outbox(session, message) for session in some))
            except Exception:
                logger.exception("The sessions that subscribed to %s cannot be notified", uri)

    async def ping(self, server: Server, session_id: str, timeout: float) -> None:
        if CONNECTION_BOUND in session_id:
            raise ValueError("A session that ends with its connection needs no ping")
        session = await stores.sessions().load(session_id)
        if session is None or session.server != server.name:
            raise LookupError("Session not found")

        def write(message: dict[str, Any]) -> None:
            bus.spawn(post_to_outbox(session.address, message))

        route = ResponseRoute(server, session)
        await PendingRequests().send_request(route, write, "ping", {}, timeout=timeout)

    def wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it now; raises RuntimeError in a thread that runs an event loop."""
        if bus.running_loop() is not None:
            coroutine.close()
            raise RuntimeError("This would block the event loop: await the method with 'a' instead")
        async_to_sync(_await)(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it now, or soon in a thread that runs an event loop."""
        if bus.running_loop() is None:
            self.wait(coroutine)
        else:
            bus.spawn(coroutine)

    def list_changed(self, server: Server, category: str) -> None:
        """Notify every client soon, once for all changes until then."""
        method, loop = list_changed(category), bus.any_loop()
        if loop is None:
            self.run(self.broadcast(server, method))
        else:
            loop.call_soon_threadsafe(self._schedule, loop, server, method)

    def _schedule(self, loop: Loop, server: Server, method: str) -> None:
        if not (pending := self._pending.setdefault(loop, {})):
            bus.spawn(self._broadcast_pending(loop))
        pending[server, method] = None

    async def _broadcast_pending(self, loop: Loop) -> None:
        for server, method in self._pending.pop(loop, {}):
            await self.broadcast(server, method)


async def position(server: Server) -> int:
    """The last number in the server's log."""
    return await stores.events().last(log_of(server), LOG) or 0


async def post_to_outbox(session: str, *messages: Json) -> None:
    """Append messages to the outbox of the session with this address."""
    try:
        texts = [jsonrpc.encode(message).decode() for message in messages]
        await stores.events().append(session, OUTBOX, texts)
    except Exception:
        logger.exception("A message cannot be appended to the outbox of a session")
        return
    await send_to_session(session, "posted")


async def send_to_session(session: str, event: str, **facts: Any) -> None:
    """Publish an event to the streams and calls of a session, on every worker."""
    await bus.publish(of_session(session), {"event": event, **facts})


async def session_ended(server: Server | None, session: str, principal: str) -> None:
    """Close the streams of a session that was deleted, cancel its calls, and forget its events.

    ``server`` is None if it is no longer registered.
    """
    await signals.session_ended.asend_robust(server, address=session, principal=principal)
    await send_to_session(session, "ended")
    await stores.events().forget(session)


async def components_changed(server: Server, session: str, changes: Iterable[Change]) -> None:
    """Notify a session, by its address, of lists which its own components have changed."""
    if messages := lists_changed(server, changes):
        await post_to_outbox(session, *messages)


def lists_changed(server: Server, changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The notifications for the lists which changes of a session's own components affect.

    Lists which the server does not declare are left out.
    """
    changed: set[str] = set()
    for change in changes:
        if change.area == "components":
            is_clear = change.action == "clear"
            kinds = change.value if is_clear else [change.key.partition(":")[0]]
            changed.update(list_changed(CATEGORIES[kind]) for kind in kinds)
    if not changed:
        return []
    return [jsonrpc.notification(method) for method in advertised(server) if method in changed]


def advertised(server: Server) -> list[str]:
    """The list_changed notifications which the server declares."""
    declared, categories = server.get_capabilities(), dict.fromkeys(CATEGORIES.values())
    return [list_changed(each) for each in categories if declared.get(each, {}).get("listChanged")]


def supports(session: Session, method: str) -> bool:
    """Whether the session's revision has this notification; custom methods always pass."""
    notifications = BY_VERSION[session.version].server_notifications
    return method in notifications or not method.startswith("notifications/")


async def _await(coroutine: Coroutine[Any, Any, None]) -> None:
    await coroutine
