"""Requests to the client of a session, whose response may reach any worker.

The id of a request is a signed mailbox address, bound to the session and its principal: the worker
which receives the response can deliver it, and nobody can respond for another client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import ClientError, Json
from django_mcp.protocol.jsonrpc import Response
from django_mcp.pubsub import bus

if TYPE_CHECKING:
    from django_mcp.frame.session import Session
    from django_mcp.server.server import Server

Write = Callable[[dict[str, Any]], None]

MAILBOX = "mailbox"
"""What the ids of requests to the client are signed for."""


class Route(Protocol):
    """The way back for a response: the id of its request leads to the receiver."""

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        """The id for a request whose response goes to ``receiver``, and a function to close it."""


@dataclass(frozen=True, slots=True)
class ResponseRoute:
    """The session of one principal on one server, whose responses may reach any worker."""

    server: Server
    session: Session

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        here = bus.here()
        address = await here.open_mailbox(receiver)
        principal, session = self.session.principal, self.session.address
        request_id = self.server.sign(MAILBOX, principal, address, session)
        return request_id, lambda: here.close_mailbox(address)

    def address(self, request_id: Any) -> str | None:
        """The mailbox address in an id that this client received, or None for any other id."""
        if not isinstance(request_id, str):
            return None
        principal, session = self.session.principal, self.session.address
        return self.server.unsign(MAILBOX, principal, request_id, session)


class ConnectionRoute:
    """A connection, over which the responses to its own requests arrive."""

    def __init__(self) -> None:
        self._receivers: dict[str, bus.Receiver] = {}
        self._numbers = count(1)

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        request_id = f"question-{next(self._numbers)}"
        self._receivers[request_id] = receiver
        return request_id, lambda: self._receivers.pop(request_id, None)

    def deliver(self, response: Response) -> None:
        """Pass a response on, if its request is still pending (CANC-08)."""
        if (receiver := self._receivers.get(str(response.id))) is not None:
            receiver(payload_of(response))


class PendingRequests:
    """The requests of one call to its client."""

    def __init__(self) -> None:
        self._pending: dict[asyncio.Future[Json], tuple[str, Write]] = {}

    async def send_request(
        self, route: Route, write: Write, method: str, params: Json, *, timeout: float
    ) -> Any:
        """Send a request, and return the result in the response.

        Raises ClientError for an error in the response and TimeoutError without one. Then, and
        when the call is cancelled, the request is cancelled (LIFE-24).
        """
        response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        request_id, close = await route.open(
            lambda message: None if response.done() else response.set_result(message)
        )
        self._pending[response] = request_id, write
        try:
            write(jsonrpc.request(request_id, method, params))
            async with asyncio.timeout(timeout):
                return read(await response)
        except TimeoutError:
            self._cancel(response, "No answer came in time")
            raise TimeoutError(f"The client did not answer {method} in {timeout:g} s") from None
        except asyncio.CancelledError:
            self._cancel(response, "The call was cancelled")
            raise
        finally:
            self._pending.pop(response, None)
            close()

    def abandon(self, reason: str, only: Collection[str] | None = None) -> None:
        """Cancel all requests, or those with these ids; each of them raises ConnectionError."""
        for response, (request_id, _) in tuple(self._pending.items()):
            if only is None or request_id in only:
                self._cancel(response, reason)
                if not response.done():
                    response.set_exception(ConnectionError(reason))

    @property
    def ids(self) -> list[str]:
        return [request_id for request_id, _ in self._pending.values()]

    def _cancel(self, response: asyncio.Future[Json], reason: str) -> None:
        """Notify the client, once."""
        if response in self._pending:
            request_id, write = self._pending.pop(response)
            params = {"requestId": request_id, "reason": reason}
            write(jsonrpc.notification("notifications/cancelled", params))


def read(response: Json) -> Any:
    """The result in a response; raises an error in it as ClientError, whatever its code."""
    if (error := response.get("error")) is not None:
        raise ClientError(error["message"], code=error["code"], data=error.get("data"))
    return response["result"]


async def deliver(route: ResponseRoute, response: Response) -> bus.Delivery | None:
    """Deliver the client's response; None for an id that it never received.

    A response which comes too late is dropped (CANC-08).
    """
    address = route.address(response.id)
    return None if address is None else await bus.send(address, payload_of(response))


def payload_of(response: Response) -> dict[str, Any]:
    return {"result": response.result} if response.error is None else {"error": response.error}
