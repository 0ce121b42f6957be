"""What a Server tells its clients without being asked, and the port which carries it.

How it reaches them, on which worker and over which transport, is the business of ``announce``.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from django_mcp.protocol.revisions import NEWEST
from django_mcp.protocol.strict import messages as strict

if TYPE_CHECKING:
    from django_mcp.protocol.errors import Json
    from django_mcp.server.server import Server


logger = logging.getLogger("django_mcp")


class Everyone(Enum):
    """Whom an announcement is for when no session is named."""

    EVERYONE = auto()


EVERYONE = Everyone.EVERYONE

CATEGORIES: Mapping[str, str] = {
    "tool": "tools",
    "resource": "resources",
    "resource_template": "resources",
    "prompt": "prompts",
}
"""The list that a client reads again when a component of this kind has changed."""


def list_changed(category: str) -> str:
    """The notification that says so."""
    return f"notifications/{category}/list_changed"


class NotificationPublisher(Protocol):
    """Carries announcements to the clients that listen, wherever they are connected."""

    async def broadcast(self, server: Server, method: str, params: Json | None = None) -> None:
        """Tell every client of the server."""
        ...

    async def send_to_session(
        self, server: Server, session_id: str, method: str, params: Json | None
    ) -> None:
        """Tell the client of one session."""
        ...

    async def resource_updated(self, server: Server, uri: str) -> None:
        """Tell those who want to hear of this resource."""
        ...

    async def ping(self, server: Server, session_id: str, timeout: float) -> None:
        """Ask one client whether it is there."""
        ...

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Have a coroutine done for synchronous code."""
        ...

    def wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Have a coroutine done for synchronous code which must know how it ended."""
        ...

    def list_changed(self, server: Server, category: str) -> None:
        """Tell every client soon that a list has changed: once for several changes."""
        ...


class Notifications:
    """The part of a Server which tells clients something.

    It may be used from anywhere in the project: from a view, a signal receiver, a command or a
    handler, in every process. The method without ``a`` waits until the announcement is made,
    except in a thread that runs an event loop, where it is made soon afterwards. An
    announcement which cannot be carried is logged and never raised. Clients that hear of a
    change ask for it at once: within a transaction, announce with ``transaction.on_commit``.
    """

    announcer: ClassVar[NotificationPublisher | None] = None
    """What carries it; the app sets it when it is ready."""
    _is_open = False

    def notify_tools_list_changed(self) -> None:
        """Tell every client that the list of tools has changed."""
        self._run(self.anotify_tools_list_changed())

    def notify_prompts_list_changed(self) -> None:
        """Tell every client that the list of prompts has changed."""
        self._run(self.anotify_prompts_list_changed())

    def notify_resources_list_changed(self) -> None:
        """Tell every client that the list of resources or of templates has changed."""
        self._run(self.anotify_resources_list_changed())

    def notify_resource_updated(self, uri: str) -> None:
        """Tell the clients which subscribed to ``uri`` that its contents have changed."""
        self._run(self.anotify_resource_updated(uri))

    def send_notification(
        self,
        method: str,
        params: Json | None = None,
        *,
        session_id: str | Everyone | None = EVERYONE,
    ) -> None:
        """Tell clients anything: one session's, or all that have sessions.

        Raises ValueError for a session id of None, since a client without a session can be
        told something only while it is answered, with ``frame.client.notify``.
        """
        self._run(self.asend_notification(method, params, session_id=_named(session_id)))

    async def anotify_tools_list_changed(self) -> None:
        """``notify_tools_list_changed`` for asynchronous code."""
        await self._say(list_changed("tools"))

    async def anotify_prompts_list_changed(self) -> None:
        """``notify_prompts_list_changed`` for asynchronous code."""
        await self._say(list_changed("prompts"))

    async def anotify_resources_list_changed(self) -> None:
        """``notify_resources_list_changed`` for asynchronous code."""
        await self._say(list_changed("resources"))

    async def anotify_resource_updated(self, uri: str) -> None:
        """``notify_resource_updated`` for asynchronous code."""
        if self.announcer is not None:
            await self.announcer.resource_updated(self._server, uri)

    async def asend_notification(
        self,
        method: str,
        params: Json | None = None,
        *,
        session_id: str | Everyone | None = EVERYONE,
    ) -> None:
        """``send_notification`` for asynchronous code."""
        named = _named(session_id)
        if self._is_unfit(method, params):
            return
        if named is EVERYONE:
            await self._say(method, params)
        elif self.announcer is not None:
            await self.announcer.send_to_session(self._server, named, method, params)

    def ping(self, session_id: str, *, timeout: float = 10.0) -> None:
        """``aping`` for synchronous code; RuntimeError in a thread that runs an event loop."""
        if self.announcer is not None:
            self.announcer.wait(self.announcer.ping(self._server, session_id, timeout))

    async def aping(self, session_id: str, *, timeout: float = 10.0) -> None:
        """Ask the client of a session whether it is there.

        Raises TimeoutError when it does not answer in time, and McpError when it answers with
        an error; what follows from that is for the caller to say.
        """
        if self.announcer is not None:
            await self.announcer.ping(self._server, session_id, timeout)

    def _changed(self, kind: str) -> None:
        """Announce a component that was added or removed while clients may be listening."""
        if self._is_open and self.announcer is not None:
            self.announcer.list_changed(self._server, CATEGORIES[kind])

    def _is_unfit(self, method: str, params: Json | None) -> bool:
        """Whether it does not fit the protocol, which strict mode looks at and logs."""
        if not self._server.limits.strict:
            return False
        misfits = strict.notification(NEWEST, method, params)
        if misfits:
            logger.error("%s does not fit the protocol: %s", method, "; ".join(misfits))
        return bool(misfits)

    async def _say(self, method: str, params: Json | None = None) -> None:
        if self.announcer is not None:
            await self.announcer.broadcast(self._server, method, params)

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self.announcer is None:
            coroutine.close()
        else:
            self.announcer.run(coroutine)

    @property
    def _server(self) -> Server:
        return self  # type: ignore[return-value]  # It is the part of one.


def _named(session_id: str | Everyone | None) -> str | Everyone:
    if session_id is None:
        raise ValueError(
            "None names no session. A client without a session is told something while it is "
            "answered, with frame.client.notify(); leave session_id out to tell every client."
        )
    return session_id
