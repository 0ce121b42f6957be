"""Requests to the client of a session. Their responses may reach any worker.

The id of a request is an encrypted name. The name leads to the call that waits for the response. It
is bound to the session and its principal: nobody can respond for another client. A response that
reaches another worker is stored in the event store, and a hint is published.

A request to the client is

| state | meaning | who moves it there |
|---|---|---|
| pending | its id was sent, and a receiver waits for the response | ``send_request`` |
| answered | the receiver has the response | ``deliver``, here or through the store |
| cancelled | the client is told, once; a response is dropped | the timeout, the end of its call |
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from django_mcp import stores
from django_mcp.core.log import log_repeated
from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import ClientError, Json
from django_mcp.core.protocol.jsonrpc import Response
from django_mcp.pubsub import bus, catch_up
from django_mcp.runtime import background, request_scope
from django_mcp.stores.base import Event

if TYPE_CHECKING:
    from django_mcp.core.frame.session import Session
    from django_mcp.core.server.server import Server

Write = Callable[[dict[str, Any]], None]

REQUEST = "mailbox"
"""The purpose of the encryption of ids of requests to the client."""
RESPONSE = "response"
"""The purpose of the encryption of stored responses."""


class Route(Protocol):
    """The way back for a response: the id of its request leads to the receiver."""

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        """The id for a request, and a function to close it; ``receiver`` gets the response."""


class ResponseRoute(NamedTuple):
    """The session of one principal on one server; responses may reach any worker."""

    server: Server
    session: Session

    async def open(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], object]]:
        expected = ExpectedResponse(self, secrets.token_urlsafe(12), receiver)
        request_id = self.server.sign(
            REQUEST, self.session.principal, expected.name, self.session.address
        )
        try:
            await expected.open()
        except BaseException:
            expected.close()
            raise
        return request_id, expected.close

    def name_in(self, request_id: Any) -> str | None:
        """The name in an id that this client received, or None for any other id."""
        if not isinstance(request_id, str):
            return None
        return self.server.unsign(REQUEST, self.session.principal, request_id, self.session.address)


class ExpectedResponse:
    """A response: a message to its group in the process that waits, or an event of the store.

    The event is the only one of its stream. It is encrypted, because only the waiting call may
    read the answers of the client's user.
    """

    def __init__(
        self, route: ResponseRoute, name: str, receiver: bus.Receiver | None = None
    ) -> None:
        self.name = name
        self._stream = f"response.{name}"
        self._group = bus.group("response", name)
        self._route = route
        self._receiver = receiver

    async def open(self) -> None:
        """Wait for the response; ``close`` must follow."""
        await bus.here().subscribe(self._group, self._receive)
        if stores.events().is_shared:
            catch_up.here().follow(self._route.session.address, self._stream, self._changed)

    def close(self) -> None:
        bus.here().unsubscribe(self._group, self._receive)
        catch_up.here().unfollow(self._route.session.address, self._stream, self._changed)

    def deliver_here(self, payload: Json) -> bool:
        """Deliver it in this process; whether somebody waits for it there."""
        return bus.publish_here(self._group, {"payload": payload})

    async def store(self, payload: Json) -> None:
        """Store it for the process that waits, unless the client has sent one before."""
        server, session = self._route
        if await self._is_stored():
            return
        text = jsonrpc.encode(payload).decode()
        data = server.sign(RESPONSE, session.principal, text, session.address, self.name)
        await stores.events().append(session.address, self._stream, [data])
        bus.publish_soon(self._group, {"event": "response"})
        await stores.events().close(session.address, self._stream)

    async def _is_stored(self) -> bool:
        """Whether the client has sent it before. While the store cannot be read, it has not."""
        try:
            events = await stores.events().after(self._route.session.address, self._stream, 0)
        except Exception:
            return False
        return any(self._text_of(event) is not None for event in events or ())

    def _text_of(self, event: Event) -> str | None:
        """The response in an event of the stream; None for one that somebody else has written."""
        server, session = self._route
        return server.unsign(RESPONSE, session.principal, event.data, session.address, self.name)

    def _receive(self, message: bus.Message) -> None:
        if "payload" not in message:
            background.spawn(self._read())
        elif self._receiver is not None:
            self._receiver(message["payload"])

    def _changed(self, number: int | None) -> None:
        if number:
            background.spawn(self._read())

    async def _read(self) -> None:
        session = self._route.session
        try:
            events = await stores.events().after(session.address, self._stream, 0) or ()
        except Exception:
            problem = "A client's response cannot be read from the store; trying again"
            log_repeated(logging.ERROR, problem, exc_info=True)
            catch_up.here().read_again(session.address, self._stream)
            return
        for event in events:
            text = self._text_of(event)
            if text is not None and self._receiver is not None:
                self._receiver(jsonrpc.decode(text))


class ConnectionRoute:
    """A connection; the responses to its own requests arrive over it."""

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

        def receive(message: Json) -> None:
            if not response.done():
                response.set_result(message)

        request_id, close = await route.open(receive)
        self._pending[response] = (request_id, write)
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


async def deliver(route: ResponseRoute, response: Response) -> bool | None:
    """Deliver the client's response; None for an id that it never received.

    A response which comes too late is dropped (CANC-08). One for another worker is stored, so that
    the worker finds it without the channel layer, too; False if the store fails.
    """
    name = route.name_in(response.id)
    if name is None:
        return None
    payload = payload_of(response)
    expected = ExpectedResponse(route, name)
    if expected.deliver_here(payload) or not stores.events().is_shared:
        return True
    try:
        await expected.store(payload)
    except Exception:
        text = "A client's response cannot be stored for the worker that waits for it"
        log_repeated(logging.ERROR, text, exc_info=True)
        return False
    return True


def payload_of(response: Response) -> dict[str, Any]:
    return {"result": response.result} if response.error is None else {"error": response.error}
