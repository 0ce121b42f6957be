"""A tool call in the stateless revision, as one HTTP request in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django_mcp import Server
from django_mcp.routing import endpoint
from django_mcp.testing.asgi import Application, Reply, http_scope, perform

VERSION = "2026-07-28"


def scope_of(
    method: str, params: dict[str, Any], headers: Mapping[str, str] = {}, path: str = "/"
) -> tuple[dict[str, Any], bytes]:
    """The ASGI scope and the body of a request."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    sent = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
        **named,
        **headers,
    }
    return http_scope(path=path, headers=sent), json.dumps(body).encode()


async def post(
    application: Server | Application,
    method: str,
    params: dict[str, Any],
    headers: Mapping[str, str] = {},
    path: str = "/",
) -> Reply:
    if isinstance(application, Server):
        application = endpoint(application)
    return await perform(application, *scope_of(method, params, headers, path))


async def call(
    application: Server | Application, tool: str, path: str = "/", **headers: str
) -> Any:
    """The text that a tool returns; headers are named with underscores."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await post(application, "tools/call", {"name": tool}, sent, path)
    assert reply.status == 200, reply.body
    messages = [json.loads(event.data) for event in reply.events()] or [reply.json()]
    return messages[-1]["result"]["content"][0]["text"]
