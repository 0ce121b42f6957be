"""Requests to the client of a session, whose response may reach any worker.

The id of a request is a signed mailbox address, bound to the session and its principal: the worker
which receives the response can deliver it, and nobody can respond for another client. On another
worker than the one that waits, the response is stored in the event store, and a hint is published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django_mcp import stores
from django_mcp.log import log_repeated
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import ClientError, Json
from django_mcp.protocol.jsonrpc import Response
from django_mcp.pubsub import bus, catch_up
from django_mcp.runtime import background, request_scope

if TYPE_CHECKING:
    from django_mcp.frame.session import Session
    from django_mcp.server.server import Server

Write = Callable[[dict[str, Any]], None]

MAILBOX = "mailbox"
"""What the ids of requests to the client are signed for."""
RESPONSE = "response"
"""What stored responses are encrypted for."""


class Route(Protocol):
    """The way back for a response: the id of its request leads to the receiver."""

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        """The id for a request whose response goes to ``receiver``, and a function to close it."""


class ResponseRoute(NamedTuple):
    """The session of one principal on one server, whose responses may reach any worker."""

    server: Server
    session: Session

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        here = bus.here()
        address = await here.open_mailbox(receiver)
        principal, session = self.session.principal, self.session.address
        request_id = self.server.sign(MAILBOX, principal, address, session)
        if not stores.events().is_shared:
            return request_id, lambda: here.close_mailbox(address)
        stored = StoredResponse(self, address, receiver)
        await here.subscribe(stored.group, stored.hinted)
        catch_up.here().follow(session, stored.stream, stored.changed)

        def close() -> None:
            here.close_mailbox(address)
            here.unsubscribe(stored.group, stored.hinted)
            catch_up.here().unfollow(session, stored.stream, stored.changed)

        return request_id, close

    def address(self, request_id: Any) -> str | None:
        """The mailbox address in an id that this client received, or None for any other id."""
        if not isinstance(request_id, str):
            return None
        principal, session = self.session.principal, self.session.address
        return self.server.unsign(MAILBOX, principal, request_id, session)


class StoredResponse:
    """A response in the event store: the only event of a stream that is named after its mailbox.

    It is encrypted, because nothing but the waiting call may read what the client's user says.
    """

    def __init__(
        self, route: ResponseRoute, address: str, receiver: bus.Receiver | None = None
    ) -> None:
        mailbox = address.rpartition("/")[2]
        self.stream = f"response.{mailbox}"
        self.group = bus.group("response", mailbox)
        self._route = route
        self._mailbox = mailbox
        self._receiver = receiver

    async def write(self, payload: Json) -> None:
        server, session = self._route
        text = jsonrpc.encode(payload).decode()
        data = server.sign(RESPONSE, session.principal, text, session.address, self._mailbox)
        await stores.events().append(session.address, self.stream, [data])
        bus.publish_soon(self.group, {"event": "response"})
        await stores.events().close(session.address, self.stream)

    def hinted(self, _: bus.Message) -> None:
        background.spawn(self._read())

    def changed(self, number: int | None) -> None:
        if number:
            background.spawn(self._read())

    async def _read(self) -> None:
        server, session = self._route
        try:
            events = await stores.events().after(session.address, self.stream, 0) or ()
        except Exception:
            problem = "A client's response cannot be read from the store; trying again"
            log_repeated(logging.ERROR, problem, exc_info=True)
            catch_up.here().read_again(session.address, self.stream)
            return
        for event in events:
            text = server.unsign(
                RESPONSE, session.principal, event.data, session.address, self._mailbox
            )
            if text is not None and self._receiver is not None:
                self._receiver(jsonrpc.decode(text))


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
        when the call is cancelled, the request is cancelled (LIFE-24). Meanwhile the call has no
        database connection, except in a transaction.
        """
        await request_scope.release_thread()
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

    def abandon(self, reason: str) -> None:
        """Cancel all requests; each of them raises ConnectionError."""
        for response in tuple(self._pending):
            self._cancel(response, reason)
            if not response.done():
                response.set_exception(ConnectionError(reason))

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

    A response which comes too late is dropped (CANC-08). One for another worker is stored, where
    that finds it whatever becomes of the channel layer; only without a store it is sent directly.
    """
    if (address := route.address(response.id)) is None:
        return None
    payload = payload_of(response)
    if (delivery := bus.deliver_here(address, payload)) is not None:
        return delivery
    if stores.events().is_shared:
        try:
            await StoredResponse(route, address).write(payload)
            return bus.Delivery.SENT
        except Exception:
            text = "A client's response cannot be stored for the worker that waits for it"
            log_repeated(logging.ERROR, text, exc_info=True)
    return await bus.send(address, payload)


def payload_of(response: Response) -> dict[str, Any]:
    return {"result": response.result} if response.error is None else {"error": response.error}
