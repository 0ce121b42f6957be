"""The mounted application under common ASGI servers, with and without lifespan support."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT, server
from tests.waiting import wait_until

TIMEOUT = 30.0
APPLICATION = "tests.asgi_servers.one_server:application"
VERSION = "2026-07-28"

SERVERS = {
    "daphne": ["daphne", "-b", "127.0.0.1", "-p", "{port}", APPLICATION],
    "uvicorn": ["uvicorn", "--port", "{port}", "--lifespan", "on", APPLICATION],
    "uvicorn without lifespan": ["uvicorn", "--port", "{port}", "--lifespan", "off", APPLICATION],
    "granian": ["granian", "--interface", "asgi", "--port", "{port}", APPLICATION],
    "granian without lifespan": [
        *("granian", "--interface", "asginl", "--port", "{port}"),
        APPLICATION,
    ],
}


BARE = {**os.environ, "DJANGO_SETTINGS_MODULE": "", "PYTHONPATH": str(ROOT)}
"""The environment of a site that configures Django itself."""


@pytest.fixture(params=SERVERS, scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with server(SERVERS[request.param], environment=BARE) as running:
        yield running.port


def message(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The body and headers of a tools/call in the stateless revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "t",
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(body), headers


def call(port: int, name: str, **arguments: Any) -> tuple[HTTPMessage, str]:
    """Call a tool; return the headers and body of the response with status 200."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("POST", "/mcp", *message(name, arguments))
    with connection.getresponse() as response:
        assert response.status == 200
        text = response.read().decode()
    connection.close()
    return response.headers, text


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_call_is_answered(port: int, tool: str) -> None:
    _, text = call(port, tool, a=1, b=2)
    assert json.loads(text)["result"]["structuredContent"] == 3


@pytest.mark.parametrize("tool", ["interrupt", "interrupt_thread"])
def test_keyboard_interrupt_of_a_handler_ends_no_worker(port: int, tool: str) -> None:
    _, text = call(port, tool)
    assert json.loads(text)["result"]["isError"]
    _, text = call(port, "add", a=1, b=2)
    assert json.loads(text)["result"]["structuredContent"] == 3


def test_progress_is_streamed_before_the_result(port: int) -> None:
    headers, text = call(port, "count")
    assert headers["Content-Type"] == "text/event-stream"
    messages = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]
    assert [each["params"]["progress"] for each in messages[:-1]] == [1, 2, 3]
    assert messages[-1]["result"]["content"][0]["text"] == "done"


def test_other_paths_are_answered_by_django(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("GET", "/elsewhere")
    with connection.getresponse() as response:
        assert response.status == 404
    connection.close()


def test_disconnect_cancels_the_call(port: int, tmp_path: Path) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    body, headers = message("wait", {"started": str(started), "ended": str(ended)})
    headers |= {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(body))}
    head = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        client.sendall("\r\n".join([*head, "", body]).encode())
        wait_until(started.exists)
        assert not ended.exists()
    wait_until(ended.exists)
