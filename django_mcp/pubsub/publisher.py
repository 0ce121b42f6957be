"""Telling connected clients that something changed, on any worker.

A message for one session is kept in its outbox, from which whichever of its streams may speak
takes it. What every session of a server is told is kept once, in the server's log, which each
session reads from where it was. Then those who listen are woken, by way of the hub.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync

from django_mcp import stores
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

OUTBOX = "outbox"
"""The stream of a session that holds what no stream to the client has taken yet."""
LOG = "log"
"""The stream of a server that holds what every session is told."""
WITHOUT_WAITING = 10
"""How many sessions are told of an update at the same time."""

CONNECTION_BOUND = "."
"""What only the ids of those sessions have in them that end with their connection: they are in
no store, and are told over the hub alone."""

METHODS = frozenset(map(list_changed, CATEGORIES.values()))
"""The announcements which say nothing more the second time."""


def of_server(server: Server) -> str:
    """The group of those who hear what every client of the server is told."""
    return bus.group("server", server.name)


def of_resource(server: Server, uri: str) -> str:
    """The group of those who hear of one resource."""
    return bus.group("resource", server.name, uri)


def of_session(session: str) -> str:
    """The group of everything that belongs to the session of this address."""
    return bus.group("session", session)


def log_of(server: Server) -> str:
    """The address under which a server's log is kept, as if it were a session."""
    return digest("server", server.name)


class ChannelsPublisher:
    """The Announcer of a Django site."""

    def __init__(self) -> None:
        self._pending: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[Server, str], None]
        ] = WeakKeyDictionary()

    async def say(self, server: Server, method: str, params: Json | None = None) -> None:
        """Tell every client of the server."""
        text = jsonrpc.encode(jsonrpc.notification(method, params)).decode()
        number = await _keep(server, text)
        await bus.publish(of_server(server), {"method": method, "text": text, "number": number})

    async def say_to(
        self, server: Server, session_id: str, method: str, params: Json | None
    ) -> None:
        """Tell the client of one session, if its revision knows such a notification."""
        message = jsonrpc.notification(method, params)
        if CONNECTION_BOUND in session_id:
            await bus.publish(of_session(address(session_id)), {"event": "said", "said": message})
            return
        session = await stores.sessions().load(session_id)
        if session is not None and session.server == server.name and supports(session, method):
            await post_to_outbox(session.address, message)

    async def updated(self, server: Server, uri: str) -> None:
        """Tell the sessions that subscribed to the resource, and the streams that listen."""
        method, params = "notifications/resources/updated", {"uri": uri}
        await bus.publish(of_resource(server, uri), {"method": method, "uri": uri})
        if server.revisions(Statefulness.SESSION):
            try:
                found = await stores.sessions().subscribers(server.name, uri)
                await post_each_to_outbox(found, jsonrpc.notification(method, params))
            except Exception:
                logger.exception("The sessions that subscribed to %s cannot be told", uri)

    async def ping(self, server: Server, session_id: str, timeout: float) -> None:
        """Ask one client whether it is there, on its session's own stream."""
        if CONNECTION_BOUND in session_id:
            raise ValueError("A session that ends with its connection is there, or has ended")
        session = await stores.sessions().load(session_id)
        if session is None or session.server != server.name:
            raise LookupError("There is no such session")

        def write(message: dict[str, Any]) -> None:
            bus.spawn(post_to_outbox(session.address, message))

        await PendingRequests().ask(
            ResponseRoute(server, session), write, "ping", {}, timeout=timeout
        )

    def wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do it now; raises RuntimeError in a thread that runs an event loop."""
        if bus.running_loop() is not None:
            coroutine.close()
            raise RuntimeError("This would wait for its own event loop: await its twin with 'a'")
        async_to_sync(_await)(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do it now, or soon in a thread that runs an event loop."""
        if bus.running_loop() is None:
            self.wait(coroutine)
        else:
            bus.spawn(coroutine)

    def changed(self, server: Server, category: str) -> None:
        """Tell every client soon; of what changes meanwhile it is told together."""
        method, loop = list_changed(category), bus.any_loop()
        if loop is None:
            self.run(self.say(server, method))
        else:
            loop.call_soon_threadsafe(self._note, loop, server, method)

    def _note(self, loop: asyncio.AbstractEventLoop, server: Server, method: str) -> None:
        """Remember what is to be said, in the loop's own thread."""
        # By loop: what one did not come to say when it ended is not for another to say.
        pending = self._pending.setdefault(loop, {})
        if not pending:
            bus.spawn(self._say_pending(loop))
        pending[server, method] = None

    async def _say_pending(self, loop: asyncio.AbstractEventLoop) -> None:
        for server, method in self._pending.pop(loop, {}):
            await self.say(server, method)


async def position(server: Server) -> int:
    """How far the server's log has come: what is said from now on has higher numbers."""
    events = await stores.events().after(log_of(server), LOG, 0)
    return events[-1].number if events else 0


async def post_to_outbox(session: str, *messages: Json) -> None:
    """Leave messages for the session of this address, for the stream that may speak."""
    try:
        texts = [jsonrpc.encode(message).decode() for message in messages]
        await stores.events().append(session, OUTBOX, texts)
    except Exception:
        logger.exception("A session cannot be told")
        return
    await send_to_session(session, "posted")


async def post_each_to_outbox(sessions: Iterable[str], message: Json) -> None:
    """Leave a message for each of the sessions, some at a time."""
    waiting = [*sessions]
    while waiting:
        now, waiting = waiting[:WITHOUT_WAITING], waiting[WITHOUT_WAITING:]
        await asyncio.gather(*(post_to_outbox(session, message) for session in now))


async def send_to_session(session: str, event: str, **facts: Any) -> None:
    """Let everything that belongs to the session hear of an event, on every worker."""
    await bus.publish(of_session(session), {"event": event, **facts})


async def components_changed(server: Server, session: str, changes: Iterable[Change]) -> None:
    """Tell a session, by its address, which of its lists its own components have changed."""
    messages = lists_changed(server, changes)
    if messages:
        await post_to_outbox(session, *messages)


def lists_changed(server: Server, changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The announcements of the lists which changes of a session's own components are about.

    A list that the server does not declare is nothing which a client would read again.
    """
    kinds = [kind for change in changes if change.area == "components" for kind in _kinds(change)]
    if not kinds:
        return []
    changed, capabilities = {CATEGORIES[kind] for kind in kinds}, server.get_capabilities()
    categories = [each for each in dict.fromkeys(CATEGORIES.values()) if each in changed]
    declared = [each for each in categories if has_flag(capabilities, each)]
    return [jsonrpc.notification(list_changed(each)) for each in declared]


def _kinds(change: Change) -> list[str]:
    return change.value if change.action == "clear" else [change.key.partition(":")[0]]


def advertised(server: Server) -> list[str]:
    """The announcements which a session is told first: one for each list that may change."""
    capabilities = server.get_capabilities()
    categories = dict.fromkeys(CATEGORIES.values())
    return [list_changed(each) for each in categories if has_flag(capabilities, each)]


def has_flag(capabilities: Mapping[str, Any], category: str, flag: str = "listChanged") -> bool:
    """Whether a capability is advertised with this flag."""
    return bool(capabilities.get(category, {}).get(flag))


def supports(session: Session, method: str) -> bool:
    """Whether the session's revision has this notification; methods of one's own always pass."""
    announcements = BY_VERSION[session.version].server_notifications
    return method in announcements or not method.startswith("notifications/")


async def _keep(server: Server, text: str) -> int | None:
    """Write into the server's log; the number there, or None where nothing could be kept."""
    if not server.revisions(Statefulness.SESSION):
        return None
    try:
        return await stores.events().append(log_of(server), LOG, [text])
    except Exception:
        logger.exception("An announcement cannot be kept for those who do not listen now")
        return None


async def _await(coroutine: Coroutine[Any, Any, None]) -> None:
    await coroutine
