"""Several messages in one JSON array, which one revision has (RPC-B1 to -B6).

Each request of a batch is a call like any other; only their responses travel together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.dispatch import dispatcher
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Message, Request, RequestId, Response
from django_mcp.pubsub.pending_requests import ResponseRoute
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange

NO_BATCHES = "Send one message at a time: this revision has no batches"


def read(values: Sequence[Any]) -> tuple[list[Message], list[InvalidRequest]]:
    """The messages of a batch, and what is wrong with those that are none.

    Raises InvalidRequest for a batch which is wrong as a whole.
    """
    if not values:
        raise InvalidRequest("A batch has at least one message")
    messages: list[Message] = []
    errors: list[InvalidRequest] = []
    for value in values:
        try:
            messages.append(_element(value))
        except InvalidRequest as error:
            errors.append(error)
    answers = [message for message in messages if isinstance(message, Response)]
    if answers and len(answers) < len(messages):
        raise InvalidRequest("A batch holds responses, or requests and notifications, not both")
    return messages, errors


def _element(value: Any) -> Message:
    message = jsonrpc.read(value)
    if isinstance(message, Request) and message.method == "initialize":
        raise InvalidRequest("initialize is sent alone", request_id=message.id)
    return message


class BatchExchange(SessionExchange):
    """The Exchange of one request in a batch: what it says travels with the whole."""

    def __init__(self, whole: SessionExchange, replies: list[bytes], response_route: ResponseRoute):
        super().__init__(_unused, may_stream=whole.may_stream, response_route=response_route)
        self._whole = whole
        self._replies = replies

    async def flush(self) -> None:
        """Wait until the stream of the whole has room again."""
        await self._whole.flush()

    def keep_alive(self) -> None:
        """Send a sign of life on the stream of the whole."""
        self._whole.keep_alive()

    def disconnected(self) -> None:
        """Note that the client has gone."""
        super().disconnected()
        self._whole.disconnected()

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        """Keep the answer until all are there."""
        self._replies.append(dispatcher.encode(message))
        self.release()

    def _enqueue(self, event: bytes) -> None:
        self._whole.push(event)


async def _unused(_: dict[str, Any]) -> None:
    """A request in a batch has no response of its own."""


class Disconnect:
    """The one who waits for the client to go, for all requests of a batch."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._waiting: asyncio.Task[dict[str, Any]] | None = None

    async def receive(self) -> dict[str, Any]:
        """The message that the client has gone."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._wait())
        return await asyncio.shield(self._waiting)

    def stop(self) -> None:
        """Wait no longer."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self) -> dict[str, Any]:
        while (message := await self._receive())["type"] != "http.disconnect":
            pass
        return message


async def answer(
    requests: Sequence[Request],
    errors: Sequence[InvalidRequest],
    whole: SessionExchange,
    response_route: ResponseRoute,
    receive: Receive,
    answer_one: Callable[[Request, SessionExchange, Receive], Awaitable[None]],
    refuse: Callable[[McpError, RequestId | None], dict[str, Any]],
) -> None:
    """Answer the requests at once, and send all responses when the last one is there."""
    replies = [jsonrpc.encode(refuse(error, error.request_id)) for error in errors]
    client = Disconnect(receive)

    async def one(request: Request) -> None:
        part = BatchExchange(whole, replies, response_route)
        try:
            await answer_one(request, part, client.receive)
        except McpError as error:
            replies.append(jsonrpc.encode(refuse(error, request.id)))

    try:
        await asyncio.gather(*map(one, requests))
    finally:
        client.stop()
    await whole.finish_all(replies)


def requests_of(messages: Sequence[Message]) -> list[Request]:
    """The messages to be answered."""
    return [message for message in messages if isinstance(message, Request)]
