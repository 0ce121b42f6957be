"""Batches over HTTP: each request is answered like any other, all responses in one array."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from django_mcp.core.protocol import jsonrpc
from django_mcp.core.protocol.errors import AuthenticationRequired, InvalidRequest, McpError
from django_mcp.core.protocol.jsonrpc import Request, RequestId
from django_mcp.transports import session_engine
from django_mcp.transports.http.request import Receive
from django_mcp.transports.http.session.response import SessionExchange


async def answer(
    requests: Sequence[Request],
    errors: Sequence[InvalidRequest],
    batch: SessionExchange,
    answer_one: Callable[[Request, SessionExchange], Awaitable[None]],
) -> None:
    """Answer the requests, some at a time, and send all responses when the last one is there.

    The response is a challenge if that of each request is one: then nothing has been done, and a
    client may send the batch again.
    """
    replies: list[bytes] = []
    batch.open_writer()
    # They share the stream of the batch, and its responses.
    parts = [
        SessionExchange(batch, batch.mcp_session, request.id, replies=replies)
        for request in requests
    ]

    def fail(error: McpError, request_id: RequestId | None) -> None:
        revision = batch.revision
        replies.append(jsonrpc.encode(jsonrpc.error(request_id, revision.error(error))))

    # The disconnect is received once, for all requests.
    disconnect = asyncio.ensure_future(_disconnect(batch.receive))
    running = asyncio.Semaphore(session_engine.concurrent_in_batch())

    async def one(request: Request, part: SessionExchange) -> None:
        try:
            async with running:
                part.receive = lambda: asyncio.shield(disconnect)
                await answer_one(request, part)
        except McpError as error:
            fail(error, request.id)

    for error in errors:
        fail(error, error.request_id)
    try:
        await asyncio.gather(*map(one, requests, parts))
    finally:
        disconnect.cancel()
    challenges = [part.error for part in parts if isinstance(part.error, AuthenticationRequired)]
    status = 200
    if challenges and len(challenges) == len(replies):
        revision = batch.revision
        challenge = AuthenticationRequired.for_all(challenges)
        batch.add_headers_of(challenge, revision)
        status = revision.http_status(challenge)
    await batch.finish_all(replies, status)


async def _disconnect(receive: Receive) -> dict[str, Any]:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message
