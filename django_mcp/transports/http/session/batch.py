"""Batches over HTTP: each request is answered like any other, all responses in one array."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.dispatch.reply import encode_reply
from django_mcp.protocol import jsonrpc
from django_mcp.protocol.errors import AuthenticationRequired, InvalidRequest, McpError
from django_mcp.protocol.jsonrpc import Request, RequestId
from django_mcp.protocol.revisions import BY_VERSION, Revision
from django_mcp.transports import session_engine
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange


class BatchExchange(SessionExchange):
    """The Exchange of one request in a batch, which writes to the response of the batch."""

    def __init__(self, batch: SessionExchange, replies: list[bytes]) -> None:
        super().__init__(batch._send, may_stream=batch._may_stream, route=batch.route)
        self._writer = batch._writer
        self._replies = replies
        self.challenge: AuthenticationRequired | None = None
        """The error which is its response, if that is a challenge."""

    def answer(
        self, message: dict[str, Any], error: McpError | None, revision: Revision
    ) -> Awaitable[None]:
        if isinstance(error, AuthenticationRequired):
            self.challenge = error
        return self.finish(message)

    async def finish(self, message: dict[str, Any], status: int = 200) -> None:
        self._replies.append(encode_reply(message, self.answers))
        self.release()

    async def finish_cancelled(self, message: dict[str, Any]) -> None:
        self.release()


async def answer(
    requests: Sequence[Request],
    errors: Sequence[InvalidRequest],
    batch: SessionExchange,
    receive: Receive,
    answer_one: Callable[[Request, SessionExchange, Receive], Awaitable[None]],
) -> None:
    """Answer the requests, some at a time, and send all responses when the last one is there.

    The response is a challenge if that of each request is one: then nothing has been done, and a
    client may send the batch again.
    """
    replies: list[bytes] = []
    parts = [BatchExchange(batch, replies) for _ in requests]

    def fail(error: McpError, request_id: RequestId | None) -> None:
        revision = BY_VERSION[batch.route.session.version]
        replies.append(jsonrpc.encode(jsonrpc.error(request_id, revision.error(error))))

    # The disconnect is received once, for all requests.
    disconnect = asyncio.ensure_future(_disconnect(receive))
    running = asyncio.Semaphore(session_engine.concurrent_in_batch())

    async def one(request: Request, part: BatchExchange) -> None:
        try:
            async with running:
                await answer_one(request, part, lambda: asyncio.shield(disconnect))
        except McpError as error:
            fail(error, request.id)

    for error in errors:
        fail(error, error.request_id)
    try:
        await asyncio.gather(*map(one, requests, parts))
    finally:
        disconnect.cancel()
    challenges = [part.challenge for part in parts if part.challenge is not None]
    status = 200
    if challenges and len(challenges) == len(replies):
        revision = BY_VERSION[batch.route.session.version]
        challenge = AuthenticationRequired.for_all(challenges)
        batch.add_headers_of(challenge, revision)
        status = revision.http_status(challenge)
    await batch.finish_all(replies, status)


async def _disconnect(receive: Receive) -> dict[str, Any]:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message
