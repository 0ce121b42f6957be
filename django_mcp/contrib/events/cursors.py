"""Cursors: positions that a server has signed for one caller and one event type."""

from __future__ import annotations

from django_mcp import Frame, InvalidParams
from django_mcp.contrib.events.models import Subscription
from django_mcp.core.protocol.limits import MAX_CURSOR
from django_mcp.models import PRINCIPAL_LENGTH
from django_mcp.tasks import calls

PURPOSE = "event_cursor"


def of_frame(frame: Frame, event: str, position: int) -> str:
    key = frame.principal.key[:PRINCIPAL_LENGTH]
    return frame.server.sign(PURPOSE, key, str(position), event)


def of_subscription(subscription: Subscription, position: int) -> str:
    """Return the cursor for the caller of a subscription; raises LookupError without its server."""
    server = calls.server_named(subscription.server)
    if server is None:
        raise LookupError(f"This process has no MCP server {subscription.server!r}")
    return server.sign(PURPOSE, subscription.principal, str(position), subscription.event)


def read(frame: Frame, event: str, cursor: str) -> int:
    """Return the position; raises InvalidParams for a cursor of another server, caller or event."""
    key = frame.principal.key[:PRINCIPAL_LENGTH]
    text = None
    if 0 < len(cursor) <= MAX_CURSOR:
        text = frame.server.unsign(PURPOSE, key, cursor, event)
    if text is None or not text.isdecimal():
        raise InvalidParams("Invalid cursor")
    return int(text)
