"""The notifications that a Server sends outside a request; ``pubsub.publisher`` delivers them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.core.ports import Port
from django_mcp.core.protocol.texts import resolved
from django_mcp.core.server.extensions import INSTALLED

if TYPE_CHECKING:
    from django_mcp.core.protocol.errors import Json
    from django_mcp.core.server.server import Server

logger = logging.getLogger("django_mcp")


class Everyone(Enum):
    """The recipients of a notification without a named session."""

    EVERYONE = auto()


EVERYONE = Everyone.EVERYONE

CATEGORIES: Mapping[str, str] = {
    "tool": "tools",
    "resource": "resources",
    "resource_template": "resources",
    "prompt": "prompts",
}
"""The list of the components of each kind."""


def list_changed(category: str) -> str:
    return f"notifications/{category}/list_changed"


class NotificationPublisher(Protocol):
    """Delivers notifications to connected clients, on whichever worker they are."""

    async def broadcast(self, server: Server, method: str, params: Json | None = None) -> None: ...

    async def send_to_session(
        self, server: Server, session_id: str, method: str, params: Json | None
    ) -> None: ...

    async def resource_updated(self, server: Server, uri: str) -> None: ...

    async def ping(self, server: Server, session_id: str, timeout: float) -> None: ...

    async def request(
        self, server: Server, session_id: str, method: str, params: Json, timeout: float
    ) -> Any:
        """Send a request on the stream of a session that belongs to no request; return its result.

        Raises LookupError without such a session.
        """

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine for synchronous code, or soon in a thread that runs an event loop."""

    def wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine for synchronous code which needs its outcome."""

    def list_changed(self, server: Server, category: str) -> None:
        """Notify every client soon that a list has changed: once for several changes."""

    def resource_changed(self, server: Server, uri: str) -> None:
        """Notify the subscribers of a resource soon: once for several changes."""


PUBLISHER: Port[NotificationPublisher | None] = Port("publishes notifications", default=None)
"""Without it, notifications are dropped."""


class Notifications:
    """The notifications of one server.

    They may be sent from anywhere in the project: a view, a signal receiver, a command or a
    handler, in every process. The synchronous method waits until the notification is published,
    except in a thread that runs an event loop, where it is published soon afterwards. A delivery
    error is logged, not raised. Clients read a changed list at once: within a transaction,
    notify with ``transaction.on_commit``.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def publisher(self) -> NotificationPublisher | None:
        return PUBLISHER.get()

    async def notify_tools_list_changed(self) -> None:
        """Notify every client that the list of tools has changed."""
        await self._broadcast(list_changed("tools"))

    async def notify_prompts_list_changed(self) -> None:
        """Notify every client that the list of prompts has changed."""
        await self._broadcast(list_changed("prompts"))

    async def notify_resources_list_changed(self) -> None:
        """Notify every client that the list of resources or of templates has changed."""
        await self._broadcast(list_changed("resources"))

    async def notify_resource_updated(self, uri: str) -> None:
        """Notify the clients which subscribed to ``uri`` that its contents have changed."""
        if self.publisher is not None:
            await self.publisher.resource_updated(self._server, uri)

    def send_notification(
        self,
        method: str,
        params: Json | None = None,
        *,
        session_id: str | Everyone | None = EVERYONE,
    ) -> Coroutine[Any, Any, None]:
        """Send any notification to the client of one session, or to all that have sessions.

        Raises ValueError for a session id of None.
        """
        if session_id is None:
            raise ValueError(
                "None is not a session id. A client without a session is notified while its "
                "request is answered, with frame.client.notify(); omit session_id to notify every "
                "client."
            )
        return self._send(method, resolved(params), session_id)

    async def ping(self, session_id: str, *, timeout: float = 10.0) -> None:
        """Send a ping to the client of a session and wait for its response.

        Raises TimeoutError, McpError for an error, ConnectionError if the event store fails, and,
        without ``a``, RuntimeError in a thread that runs an event loop.
        """
        if self.publisher is not None:
            await self.publisher.ping(self._server, session_id, timeout)

    def component_changed(self, kind: str) -> None:
        """Notify clients of a component added or removed after the site has started."""
        if self._server.is_configured and self.publisher is not None:
            category = CATEGORIES.get(kind) or INSTALLED.category(kind)
            self.publisher.list_changed(self._server, category)

    def resources_changed(self, uris: Iterable[str], *, is_list_changed: bool) -> None:
        """Notify clients soon of changed resources, and of their list, and return at once."""
        if self.publisher is not None:
            for uri in uris:
                self.publisher.resource_changed(self._server, uri)
            if is_list_changed:
                self.publisher.list_changed(self._server, "resources")

    def run(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        coroutine = function()
        if self.publisher is None:
            coroutine.close()
        else:
            self.publisher.run(coroutine)

    def wait(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self.publisher is not None:
            self.publisher.wait(function())

    async def _send(self, method: str, params: Json | None, session_id: str | Everyone) -> None:
        if session_id is EVERYONE:
            await self._broadcast(method, params)
        elif self.publisher is not None:
            await self.publisher.send_to_session(self._server, session_id, method, params)

    async def _broadcast(self, method: str, params: Json | None = None) -> None:
        if self.publisher is not None:
            await self.publisher.broadcast(self._server, method, params)
