"""Messages for one session, between workers: its outbox, and events for its streams and calls.

| event | from whom | what its streams and calls do |
|---|---|---|
| ``posted`` | ``post_to_outbox`` | the active stream reads the outbox |
| ``cancelled`` | the client, by another worker | the calls that it names end |
| ``initialized`` | the client is ready | streams begin to send notifications |
| ``changed`` | ``change_connection`` | the connection of the session changes it |
| ``said`` | the publisher | the connection sends the notification |
| ``taken_over`` | a principal takes an anonymous session | those of the former caller end |
| ``ended`` | ``session_ended`` | all of them end |

``appended``, ``resumed`` and ``left`` concern one stream: see ``http.session.event_log``. A
``response`` has a group of its own: see ``pending_requests``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django_mcp import signals, stores
from django_mcp.core.frame.session import Change, Session, address
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import Json
from django_mcp.core.protocol.revisions import BY_VERSION
from django_mcp.core.server.notifications import CATEGORIES, list_changed
from django_mcp.pubsub import bus
from django_mcp.stores.base import StoreFull, pack_changes

if TYPE_CHECKING:
    from django_mcp.core.server.server import Server

OUTBOX = "outbox"
"""The stream of a session with the messages which no stream to the client has taken yet."""
TOO_MANY_STREAMS = "A session has too many open streams, and is not notified"
CONNECTION_BOUND = "."
"""A character in the ids of those sessions that end with their connection, and in no others.

These sessions are in no store. Messages reach them over the message bus alone."""


def of_session(session: str) -> str:
    """The group for the streams and calls of the session with this address."""
    return bus.group("session", session)


async def post_to_outbox(session: str, *messages: Json) -> bool:
    """Append messages to the outbox of the session with this address.

    False if the store fails, or is full: that is logged, and the messages are lost.
    """
    texts = [jsonrpc.encode(message).decode() for message in messages]
    try:
        await stores.events().append(session, OUTBOX, texts)
    except StoreFull:
        log_repeated(logging.WARNING, TOO_MANY_STREAMS)
        return False
    except Exception:
        text = "A message cannot be appended to the outbox of a session, and is lost"
        log_repeated(logging.ERROR, text, exc_info=True)
        return False
    await send_to_session(session, "posted")
    return True


async def send_to_session(session: str, event: str, **facts: Any) -> None:
    """Publish an event to the streams and calls of a session, on every worker."""
    publish_to_session(session, event, **facts)
    await bus.flush()


def publish_to_session(session: str, event: str, **facts: Any) -> None:
    """``send_to_session`` without waiting."""
    bus.publish_soon(of_session(session), {"event": event, **facts})


async def change_connection(session_id: str, changes: Iterable[Change]) -> None:
    """Change a session that is in no store, on the worker which has its connection.

    Raises TypeError for an unserializable value, as a store does.
    """
    # As text: a channel layer that cannot encode a value would drop the hints of others with it.
    await send_to_session(address(session_id), "changed", changes=pack_changes(changes))


async def say_on_connection(session_id: str, message: Json) -> None:
    """Send a notification to a session that is in no store, over its connection."""
    text = jsonrpc.encode(message).decode()  # As text: see ``change_connection``.
    await send_to_session(address(session_id), "said", method=message["method"], text=text)


async def session_ended(server: Server | None, session: str, principal: str) -> None:
    """Close the streams of a session that was deleted, cancel its calls, and forget its events.

    ``server`` is None if it was removed from the registry.
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
    declared = server.get_capabilities()
    return [
        list_changed(category)
        for category in dict.fromkeys(CATEGORIES.values())
        if declared.get(category, {}).get("listChanged")
    ]


def supports(session: Session, method: str) -> bool:
    """Whether the session's revision has this notification; custom methods always pass."""
    notifications = BY_VERSION[session.version].server_notifications
    return method in notifications or not method.startswith("notifications/")
