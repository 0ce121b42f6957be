"""What a server's author has a say in while a session lives: the hooks of its notifications.

Where the session is kept, and how its client is told something, the transports say.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from django_mcp.dispatch.invocation import call_hook
from django_mcp.frame.session import Change, Session
from django_mcp.protocol.jsonrpc import Notification
from django_mcp.transports import frames


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWriter:
    """Keeps what hooks change in a session."""

    keep: Callable[[Sequence[Change]], Awaitable[Session | None]]
    """Applies changes: the session as it is then, or None when it has ended."""
    tell: Callable[[Sequence[Change]], Awaitable[None]]
    """Tells the client of those of them which it has to know."""


async def initialized(
    call: frames.IncomingRequest, message: Notification, session: Session, keeper: SessionWriter
) -> bool:
    """Note that the client is ready, once the server's ``init`` was called, which is so once.

    False when that failed, and the session has to be ended.
    """
    if not call.server.has_hook("init"):
        await keeper.keep([frames.INITIALIZED])
        return True
    token = secrets.token_urlsafe(9)
    after = await keeper.keep([Change("initializer", "claim", value=token)])
    if after is None or after.initializer != token:
        return True
    try:
        await _init(call, message, replace(after, initialized=True), keeper)
    except Exception as error:
        call.server.report("The init of a session failed, which is ended", error)
        return False
    return True


async def _init(
    call: frames.IncomingRequest, message: Notification, session: Session, keeper: SessionWriter
) -> None:
    frame = await frames.prepared(frames.in_session(call, message, session))
    frame = await call_hook(call.server.init, session.client_info, frame=frame)
    # Not before, lest a stream begins to announce what is there.
    await keeper.keep([frames.INITIALIZED, *frame.changes])
    if not call.server.notify_lists_on_initialize:
        await keeper.tell(frame.changes)


async def notified(
    call: frames.IncomingRequest, message: Notification, session: Session, keeper: SessionWriter
) -> None:
    """Give a notification to the server's author."""
    server = call.server
    if not server.has_hook("handle_notification"):
        return
    try:
        frame = await frames.prepared(frames.in_session(call, message, session))
        hook = server.handle_notification
        frame = await call_hook(hook, message.method, message.params, frame=frame)
        if frame.changes:
            await keeper.keep(frame.changes)
            await keeper.tell(frame.changes)
    except Exception as error:
        server.report(f"handle_notification failed for {message.method}", error)
