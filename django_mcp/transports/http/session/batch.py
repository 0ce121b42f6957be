"""Batches over HTTP: each request is answered like any other, all responses in one array."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.dispatch import dispatcher
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Request, RequestId
from django_mcp.pubsub.pending_requests import ResponseRoute
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange


class BatchExchange(SessionExchange):
    """The Exchange of one request in a batch, which writes to the response of the batch."""

    def __init__(self, batch: SessionExchange, replies: list[bytes], response_route: ResponseRoute):
        super().__init__(_unused, may_stream=batch.may_stream, response_route=response_route)
        self._batch = batch
        self._replies = replies

    async def flush(self) -> None:
        """Wait until the response of the batch has room again."""
        await self._batch.flush()

    def keep_alive(self) -> None:
        """Send a keepalive comment on the stream of the batch."""
        self._batch.keep_alive()

    def disconnected(self) -> None:
        """Note that the client disconnected."""
        super().disconnected()
        self._batch.disconnected()

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        """Keep the response until all are there."""
        self._replies.append(dispatcher.encode(message))
        self.release()

    def _enqueue(self, event: bytes) -> None:
        self._batch.push(event)


async def _unused(_: dict[str, Any]) -> None:
    """A request in a batch has no response of its own."""


class Disconnect:
    """Waits for the disconnect once, for all requests of a batch."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._waiting: asyncio.Task[dict[str, Any]] | None = None

    async def receive(self) -> dict[str, Any]:
        """The message ``http.disconnect``."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._wait())
        return await asyncio.shield(self._waiting)

    def stop(self) -> None:
        """Stop waiting."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self) -> dict[str, Any]:
        while (message := await self._receive())["type"] != "http.disconnect":
            pass
        return message


async def answer(
    requests: Sequence[Request],
    errors: Sequence[InvalidRequest],
    batch: SessionExchange,
    response_route: ResponseRoute,
    receive: Receive,
    answer_one: Callable[[Request, SessionExchange, Receive], Awaitable[None]],
    to_error: Callable[[McpError, RequestId | None], dict[str, Any]],
) -> None:
    """Answer the requests concurrently, and send all responses when the last one is there."""
    replies = [jsonrpc.encode(to_error(error, error.request_id)) for error in errors]
    client = Disconnect(receive)

    async def one(request: Request) -> None:
        part = BatchExchange(batch, replies, response_route)
        try:
            await answer_one(request, part, client.receive)
        except McpError as error:
            replies.append(jsonrpc.encode(to_error(error, request.id)))

    try:
        await asyncio.gather(*map(one, requests))
    finally:
        client.stop()
    await batch.finish_all(replies)
