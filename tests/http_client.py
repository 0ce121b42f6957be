"""The HTTP client of tests that call a server process, and the calls that they send.

Tests of single bytes, of connections that break and of measured calls use sockets instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from tests.waiting import SECONDS

TIMEOUT = SECONDS
VERSION = "2026-07-28"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


def connect(port: int, **options: Any) -> httpx.Client:
    """A client of the server at a port, which ignores the proxies of the machine.

    It loads no certificates: that takes longer than a call.
    """
    url = f"http://127.0.0.1:{port}"
    return httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False, verify=False, **options)


def message(
    name: str, arguments: Mapping[str, Any], **capabilities: Any
) -> tuple[str, dict[str, str]]:
    """The body and headers of a tools/call in the stateless revision."""
    body, headers = stateless("tools/call", {"name": name, "arguments": arguments}, **capabilities)
    return body, {**headers, "Mcp-Name": name}


def stateless(
    method: str, params: Mapping[str, Any], **capabilities: Any
) -> tuple[str, dict[str, str]]:
    """The body and headers of a request in the stateless revision, without those of its method."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "progressToken": "t",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(body), {**HEADERS, "MCP-Protocol-Version": VERSION, "Mcp-Method": method}


def call(port: int, name: str, **arguments: Any) -> httpx.Response:
    """Call a tool on a new connection; the response has the status 200."""
    body, headers = message(name, arguments)
    with connect(port) as client:
        response = client.post("/mcp", content=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


def result(port: int, name: str, **arguments: Any) -> Any:
    """Call a tool on a new connection; return its structured content."""
    return call(port, name, **arguments).json()["result"]["structuredContent"]
