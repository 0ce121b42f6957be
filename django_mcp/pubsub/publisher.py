"""Publishing notifications to the sessions and streams they concern, on any worker.

A message for one session is appended to its outbox, from which the active stream of the session
takes it. A message for every session of a server is appended once to the log of the server, which
each session reads from its own position. A hint on the message bus wakes the streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from asgiref.sync import async_to_sync

from django_mcp import registry, signals, stores
from django_mcp.concurrency.coroutines import result_of
from django_mcp.concurrency.loops import running_loop
from django_mcp.frame.session import Change, Session, address
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import Json
from django_mcp.protocol.revisions import BY_VERSION, Statefulness
from django_mcp.pubsub import bus, channel_layer
from django_mcp.pubsub.pending_requests import PendingRequests, ResponseRoute
from django_mcp.pubsub.resource_updates import AT_ONCE, ResourceUpdates
from django_mcp.pubsub.store_retries import StoreRetries
from django_mcp.runtime import background
from django_mcp.server.notifications import CATEGORIES, list_changed
from django_mcp.stores.base import StoreFull, digest

if TYPE_CHECKING:
    from django_mcp.server.server import Server

Loop: TypeAlias = asyncio.AbstractEventLoop

OUTBOX = "outbox"
"""The stream of a session with the messages which no stream to the client has taken yet."""
LOG = "log"
"""The stream of a server with the messages for every client."""
UPDATES = "updates"
"""The stream of a server with the URIs of resources that were updated."""
LOGS = LOG, UPDATES
"""The streams of a server, which no session has."""
SESSIONS_AT_ONCE = 50
"""How many outboxes are appended to in one operation of the store."""
NUMBERS_PER_SECOND = 1000
"""The numbers of a log that begins anew are higher than all of the log which was lost with its
store, so that readers of the old one see that it has gone: they begin with so many for each second
since 1970, more than are ever appended."""

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


def name_of(server: Server, stream: str) -> str:
    """The name of a log of the server, by which messages on the bus refer to it."""
    return f"{log_of(server)}.{stream}"


def of_task(task_id: str) -> str:
    """The group of those who wait for changes of a task."""
    return bus.group("task", task_id)


UPDATED = "notifications/resources/updated"


class Pending(NamedTuple):
    """A notification that is published soon; equal ones are published once."""

    server: Server
    method: str
    uri: str | None = None
    """The resource, of an update."""


class ChannelsPublisher:
    """The publisher of a Django site, over the event store and the channel layer."""

    def __init__(self) -> None:
        # By loop, because a loop may end before it has sent its notifications.
        self._pending: WeakKeyDictionary[Loop, dict[Pending, None]] = WeakKeyDictionary()
        self._updates: WeakKeyDictionary[Loop, ResourceUpdates] = WeakKeyDictionary()

    async def broadcast(self, server: Server, method: str, params: Json | None = None) -> None:
        """Send a notification to every client.

        While the store does not answer, a changed list is announced at once and stored later; a
        custom notification waits until it is stored, so that nobody receives it twice.
        """
        text = jsonrpc.encode(jsonrpc.notification(method, params)).decode()
        message = {"method": method, "text": text, "number": None}
        if not (server.revisions(Statefulness.SESSION) or is_logged()):
            await bus.publish(of_server(server), message)
            return
        try:
            await _broadcast(server, message)
        except Exception:
            log_repeated(logging.ERROR, NOT_STORED, server.name, exc_info=True)
            later, publish = partial(_broadcast, server, message), bus.publish
            if method in METHODS:
                _retries().add_message(later, key=(server, method))
                await publish(of_server(server), message)
            else:
                give_up = partial(publish, of_server(server), message)
                _retries().add_message(later, give_up=give_up)

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

    async def resource_updated(self, server: Server, *uris: str) -> None:
        """Notify the sessions and the listen streams which subscribed to the resources."""
        loop = asyncio.get_running_loop()
        if (updates := self._updates.get(loop)) is None:
            updates = self._updates[loop] = ResourceUpdates(_publish_updates)
        await updates.add(server, uris)

    async def ping(self, server: Server, session_id: str, timeout: float) -> None:
        if CONNECTION_BOUND in session_id:
            raise ValueError("A session that ends with its connection needs no ping")
        session = await stores.sessions().load(session_id)
        if session is None or session.server != server.name:
            raise LookupError("Session not found")

        def write(message: dict[str, Any]) -> None:
            background.spawn(post_to_outbox(session.address, message))

        route = ResponseRoute(server, session)
        await PendingRequests().send_request(route, write, "ping", {}, timeout=timeout)

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
        self._publish_soon(Pending(server, list_changed(category)))

    def resource_changed(self, server: Server, uri: str) -> None:
        """Notify the subscribers of a resource soon, once for all changes until then."""
        self._publish_soon(Pending(server, UPDATED, uri))

    def _publish_soon(self, pending: Pending) -> None:
        loop = bus.any_loop()
        if loop is None:
            self.run(self._publish(pending))
        else:
            loop.call_soon_threadsafe(self._schedule, loop, pending)

    def _schedule(self, loop: Loop, pending: Pending) -> None:
        if not (waiting := self._pending.setdefault(loop, {})):
            background.spawn_accepted(self._publish_pending(loop))
        waiting[pending] = None

    async def _publish_pending(self, loop: Loop) -> None:
        updates: dict[Server, list[str]] = {}
        for pending in self._pending.pop(loop, {}):
            if pending.uri is None:
                await self._publish(pending)
            else:
                updates.setdefault(pending.server, []).append(pending.uri)
        for server, uris in updates.items():
            await self.resource_updated(server, *uris)

    async def _publish(self, pending: Pending) -> None:
        if pending.uri is None:
            await self.broadcast(pending.server, pending.method)
        else:
            await self.resource_updated(pending.server, pending.uri)


NOT_STORED = "A notification cannot be appended to the log of %s"


def is_logged() -> bool:
    """Whether other workers read in the event store what messages to them have lost."""
    return stores.events().is_shared and channel_layer.shared() is not None


async def _broadcast(server: Server, message: Json) -> None:
    """Append a message to the log of the server, and publish it with its number."""
    number = await _append(server, LOG, [message["text"]])
    numbered = {**message, "log": name_of(server, LOG), "number": number}
    await bus.publish(of_server(server), numbered)


async def _append(server: Server, stream: str, texts: Sequence[str]) -> int:
    """Append to a log of the server; return the number of the last entry."""
    store = stores.events()
    first = int(store.now() * NUMBERS_PER_SECOND)
    return await store.append(log_of(server), stream, texts, first=first)


async def _publish_updates(server: Server, uris: Sequence[str]) -> None:
    """Store and publish updates of resources; what the store refuses is stored later."""
    numbers: Sequence[Json] = [{} for _ in uris]
    is_stored = True
    try:
        numbers = await _log_updates(server, uris)
    except Exception:
        log_repeated(logging.ERROR, NOT_STORED, server.name, exc_info=True)
        # Later, with the messages to sessions: nobody waits twice for a store that hangs.
        _retries().add_updates(server, uris)
        is_stored = False
    for uri, number in zip(uris, numbers, strict=True):
        bus.publish_soon(of_resource(server, uri), {"method": UPDATED, "uri": uri, **number})
    try:
        if is_stored:  # Otherwise they are notified when it is.
            await _notify_subscribers(server, uris)
    except Exception:
        text = "The sessions that subscribed to a resource of %s cannot be notified"
        log_repeated(logging.ERROR, text, server.name, exc_info=True)
        _retries().add_updates(server, uris)
    await bus.flush()


async def _store_updates(server: Server, uris: Sequence[str]) -> None:
    """Store updates that were published before; workers which missed them read the log."""
    for start in range(0, len(uris), AT_ONCE):
        some = uris[start : start + AT_ONCE]
        await _log_updates(server, some)
        await _notify_subscribers(server, some)


async def _log_updates(server: Server, uris: Sequence[str]) -> list[Json]:
    """Append updates to the log of the server; return what messages on the bus say of each."""
    if not is_logged():
        return [{} for _ in uris]
    last = await _append(server, UPDATES, uris)
    name = name_of(server, UPDATES)
    return [{"log": name, "number": number} for number in range(last - len(uris) + 1, last + 1)]


async def _notify_subscribers(server: Server, uris: Sequence[str]) -> None:
    """Notify the sessions which subscribed to the resources."""
    if not server.revisions(Statefulness.SESSION):
        return
    messages: dict[str, list[str]] = {}
    for uri, found in (await stores.sessions().subscribers_of_each(server.name, uris)).items():
        text = jsonrpc.encode(jsonrpc.notification(UPDATED, {"uri": uri})).decode()
        for session in found:
            messages.setdefault(session, []).append(text)
    sessions = sorted(messages)
    for start in range(0, len(sessions), SESSIONS_AT_ONCE):
        some = {each: messages[each] for each in sessions[start : start + SESSIONS_AT_ONCE]}
        full = await stores.events().append_to_each(OUTBOX, some)
        if full:
            log_repeated(logging.WARNING, TOO_MANY_STREAMS, times=len(full))
        for session in some.keys() - set(full):
            publish_to_session(session, "posted")


TOO_MANY_STREAMS = "A session has too many open streams, and is not notified"


def _retries() -> StoreRetries:
    """What the store refused in the running event loop."""
    loop = asyncio.get_running_loop()
    if (found := _all_retries.get(loop)) is None:
        found = _all_retries[loop] = StoreRetries(_store_updates)
    return found


_all_retries: WeakKeyDictionary[Loop, StoreRetries] = WeakKeyDictionary()


async def position(server: Server) -> int:
    """The last number in the server's log."""
    return await stores.events().last(log_of(server), LOG) or 0


async def renew_logs(_: float = 0.0) -> None:
    """Keep the logs of this site's servers, whose numbers would start anew when they expire."""
    for server in registry.servers():
        for stream in LOGS:
            await stores.events().append(log_of(server), stream, (), create=False)


async def post_to_outbox(session: str, *messages: Json) -> None:
    """Append messages to the outbox of the session with this address, or try again later."""
    texts = [jsonrpc.encode(message).decode() for message in messages]
    try:
        await _post(session, texts)
    except StoreFull:
        log_repeated(logging.WARNING, TOO_MANY_STREAMS)
    except Exception:
        text = "A message cannot be appended to the outbox of a session"
        log_repeated(logging.ERROR, text, exc_info=True)
        _retries().add_message(partial(_post, session, texts))


async def _post(session: str, texts: Sequence[str]) -> None:
    await stores.events().append(session, OUTBOX, texts)
    await send_to_session(session, "posted")


async def send_to_session(session: str, event: str, **facts: Any) -> None:
    """Publish an event to the streams and calls of a session, on every worker."""
    publish_to_session(session, event, **facts)
    await bus.flush()


def publish_to_session(session: str, event: str, **facts: Any) -> None:
    """``send_to_session`` without waiting."""
    bus.publish_soon(of_session(session), {"event": event, **facts})


async def change_connection(session_id: str, changes: Iterable[Change]) -> None:
    """Change a session that is in no store, on the worker which has its connection."""
    listed = [[each.area, each.action, each.key, each.value] for each in changes]
    await send_to_session(address(session_id), "changed", changes=listed)


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
