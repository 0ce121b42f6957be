"""Asking a client in its session, and waiting for an answer that may reach any worker.

The id of such a question is a sealed return address, bound to the session and to its owner:
whichever worker receives the answer can deliver it, and nobody can answer for somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


class PendingRequest(Protocol):
    """Who is asked: gives each question an id, and its answer a way back."""

    async def expect(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], None]]:
        """The id for a question whose answer goes to ``receiver``, and how to stop waiting."""
        ...


@dataclass(frozen=True, slots=True)
class ResponseRoute:
    """The session of one principal on one server, whose answers may reach any worker."""

    server: Server
    session: Session

    async def expect(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], None]]:
        """An id which tells where the answer belongs, and nothing to anybody else."""
        ears = bus.here()
        address = await ears.open_mailbox(receiver)
        identity = self.server.signer.sign(self._purpose, address)
        return identity, lambda: ears.close_mailbox(address)

    def unsign(self, identity: Any) -> str | None:
        """The address in an id that this client was given, or None for any other id."""
        if not isinstance(identity, str):
            return None
        return self.server.signer.unsign(self._purpose, identity)

    @property
    def _purpose(self) -> str:
        session = self.session
        return f"question:{self.server.name}:{session.address}:{session.principal}"


class Returns:
    """A client on a connection of its own, by which its answers come back."""

    def __init__(self) -> None:
        self._receivers: dict[str, bus.Receiver] = {}
        self._numbers = count(1)

    async def expect(self, receiver: bus.Receiver, /) -> tuple[str, Callable[[], None]]:
        """An id which this connection has not used before."""
        identity = f"question-{next(self._numbers)}"
        self._receivers[identity] = receiver
        return identity, lambda: self._drop(identity)

    def answered(self, response: Response) -> None:
        """Take an answer to where it is waited for, if it still is (CANC-08)."""
        receiver = self._receivers.get(str(response.id))
        if receiver is not None:
            receiver(payload_of(response))

    def _drop(self, identity: str) -> None:
        self._receivers.pop(identity, None)


class PendingRequests:
    """The questions of one call that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[Json], Callable[[str], None]] = {}

    async def ask(
        self, asked: PendingRequest, write: Write, method: str, params: Json, *, timeout: float
    ) -> Any:
        """Ask, and return the result of the answer.

        Raises McpError for an answer that is an error and TimeoutError for none; then, and when
        the call is cancelled, the client is told that nobody waits any more (LIFE-24).
        """
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        identity, stop_waiting = await asked.expect(lambda message: _resolve(answer, message))
        self._waiting[answer] = lambda reason: write(_withdrawal(identity, reason))
        try:
            write(jsonrpc.request(identity, method, params))
            async with asyncio.timeout(timeout):
                response = await answer
        except TimeoutError:
            self._withdraw(answer, "No answer came in time")
            raise TimeoutError(f"The client did not answer {method} in {timeout:g} s") from None
        except asyncio.CancelledError:
            self._withdraw(answer, "The call was cancelled")
            raise
        finally:
            self._waiting.pop(answer, None)
            stop_waiting()
        return read(response)

    def abandon(self, reason: str) -> None:
        """Let nobody wait any more, and say so: each question raises ConnectionError."""
        for answer in tuple(self._waiting):
            self._withdraw(answer, reason)
            if not answer.done():
                answer.set_exception(ConnectionError(reason))

    def _withdraw(self, answer: asyncio.Future[Json], reason: str) -> None:
        """Tell the client, once."""
        withdraw = self._waiting.pop(answer, None)
        if withdraw is not None:
            withdraw(reason)


def read(response: Json) -> Any:
    """The result in a response; raises the error in it as ClientRefused, whatever its code."""
    error = response.get("error")
    if error is not None:
        raise ClientError(error["message"], code=error["code"], data=error.get("data"))
    return response["result"]


async def answered(response_route: ResponseRoute, response: Response) -> bool:
    """Take the client's answer to where it is waited for; False for an id that we never gave.

    An answer which comes too late is dropped (CANC-08).
    """
    address = response_route.unsign(response.id)
    if address is None:
        return False
    await bus.send(address, payload_of(response))
    return True


def payload_of(response: Response) -> dict[str, Any]:
    """What the asker needs of a response."""
    if response.error is not None:
        return {"error": response.error}
    return {"result": response.result}


def _resolve(answer: asyncio.Future[Json], message: Json) -> None:
    if not answer.done():
        answer.set_result(message)


def _withdrawal(identity: str, reason: str) -> dict[str, Any]:
    return jsonrpc.notification(
        "notifications/cancelled", {"requestId": identity, "reason": reason}
    )
