"""Cancelling the calls of a session, on whichever worker they run: a note, then a hint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django_mcp import stores
from django_mcp.core.frame.session import Change, Session
from django_mcp.pubsub import channel_layer, publisher
from django_mcp.transports import session_engine
from django_mcp.transports.http.session import response


async def cancel(session: Session, params: Iterable[Mapping[str, Any]]) -> None:
    """Cancel the requests that ``notifications/cancelled`` name.

    One that names nothing is ignored (CANC-11), and so is one that overtakes its request.
    """
    calls = response.here()
    elsewhere: dict[str, str] = {}
    for cancelled in params:
        request = session_engine.read_cancellation(cancelled)
        if request is not None:
            key, given = request
            reason = given or session_engine.CLIENT_CANCELLED
            if not calls.cancel(session.address, key, reason):
                elsewhere[key] = reason
    if elsewhere and channel_layer.shared() is not None:
        # First the note, then the event: a call first subscribes and then reads the note.
        await note(session, elsewhere)
        await publisher.send_to_session(session.address, "cancelled", reasons=elsewhere)


async def note(session: Session, keys: Iterable[str]) -> None:
    """Let calls on other workers find it when they next read their session."""
    now = stores.sessions().now()
    notes = [Change("cancelled", "note", key, now) for key in keys]
    await stores.sessions().update(session.id, notes)
