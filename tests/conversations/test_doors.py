"""The transcripts over HTTP: the responses under WSGI are those under ASGI.

Each message is posted when the one before it has been answered. So transcripts need neither a
stream that stands, nor a response of the client while a call is open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_mcp.auth.anonymous import AnonymousAuthentication
from django_mcp.core.protocol.revisions import BY_VERSION, Statefulness
from django_mcp.routing import endpoint
from django_mcp.testing import asgi
from django_mcp.testing.asgi import Reply
from tests.conversations.sample_server import desk
from tests.conversations.transcripts import CLIENT, SERVER, TRANSCRIPTS, Placeholders, read
from tests.http_client import HEADERS
from tests.memory_stores import MEMORY
from tests.wsgi.requests import bridged, environ, perform

if TYPE_CHECKING:
    from pytest_django import Settings

Post = Callable[[Mapping[str, str], bytes], Awaitable[Reply]]
Transcript = list[tuple[int, Any]]
"""The status and the messages of each response."""

STANDING = {
    "announcing": "a standing stream",
    "asking": "responses of the client to an open call",
    "cancelling": "a notification about an open call",
}
"""Transcripts that are not replayed, and what they need."""
REPLAYED = [path for path in TRANSCRIPTS if path.stem not in STANDING]
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header Mcp-Name repeats."""
OF_STREAMS = {"listChanged", "subscribe"}
"""Members of capabilities that are not declared under WSGI."""


def under_asgi(application: Any) -> Post:
    async def post(headers: Mapping[str, str], body: bytes) -> Reply:
        return await asgi.perform(application, asgi.http_scope(headers=headers), body)

    return post


def under_wsgi(application: Any) -> Post:
    async def post(headers: Mapping[str, str], body: bytes) -> Reply:
        variables = environ(headers={"Host": "testserver", **headers}, body=body)
        return await asyncio.to_thread(perform, bridged(application), variables)

    return post


async def replay(path: Path, door: Callable[[Any], Post]) -> Transcript:
    """The responses to the messages of a transcript, in one session."""
    server = desk()
    server.authenticators = [AnonymousAuthentication()]
    post = door(endpoint(server))
    version = path.parent.name
    session: dict[str, str] = {}
    known = Placeholders()
    written = {id_of(line.message): line.message for line in read(path) if line.side == SERVER}
    responses = []
    for line in read(path):
        if line.side == CLIENT:
            message = known.fill(line.message)
            headers = {**HEADERS, **session, **headers_of(version, message)}
            reply = await post(headers, json.dumps(message).encode())
            if "mcp-session-id" in reply.headers:
                session["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
            received = messages(reply)
            for each in received:
                known.learn(written.get(id_of(each)), each)
            names = {value: name for name, value in known.values.items()}
            responses.append((reply.status, comparable(Placeholders(names).fill(received))))
    return responses


def id_of(message: Any) -> str | None:
    """The id of a response, as JSON."""
    is_response = isinstance(message, dict) and "id" in message and "method" not in message
    return json.dumps(message["id"]) if is_response else None


def headers_of(version: str, message: Any) -> dict[str, str]:
    if BY_VERSION[version].statefulness is not Statefulness.STATELESS:
        return {"MCP-Protocol-Version": version}
    headers = {"MCP-Protocol-Version": version}
    if isinstance(message, dict):
        method = str(message.get("method", ""))
        headers["Mcp-Method"] = method
        params = message.get("params")
        name = params.get(NAMES.get(method)) if isinstance(params, dict) else None
        if isinstance(name, str):
            headers["Mcp-Name"] = name
    return headers


def messages(reply: Reply) -> list[Any]:
    if reply.media_type == "text/event-stream":
        return [json.loads(event.data) for event in reply.events() if event.data]
    return [json.loads(reply.body)] if reply.body else []


def comparable(value: Any) -> Any:
    """Without what only servers with standing streams declare."""
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in OF_STREAMS}
        return {name: comparable(each) for name, each in kept.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", REPLAYED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_responses_under_wsgi_equal_those_under_asgi(path: Path, settings: Settings) -> None:
    settings.DJANGO_MCP = {"STORES": MEMORY}
    expected = await replay(path, under_asgi)
    assert await replay(path, under_wsgi) == expected
    assert len(expected) == sum(line.side == CLIENT for line in read(path))
