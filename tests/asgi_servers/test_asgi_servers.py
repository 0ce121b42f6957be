"""The mounted application under common ASGI servers, with and without lifespan support."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asgi_servers.programs import APPLICATION, BARE
from tests.http_client import TIMEOUT, call, connect, message, result
from tests.processes import server
from tests.waiting import wait_until

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


@pytest.fixture(params=SERVERS, scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with server(SERVERS[request.param], environment=BARE) as running:
        yield running.port


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_call_is_answered(port: int, tool: str) -> None:
    assert result(port, tool, a=1, b=2) == 3


@pytest.mark.parametrize("tool", ["interrupt", "interrupt_thread"])
def test_keyboard_interrupt_of_a_handler_ends_no_worker(port: int, tool: str) -> None:
    assert call(port, tool).json()["result"]["isError"]
    assert result(port, "add", a=1, b=2) == 3


def test_progress_is_streamed_before_the_result(port: int) -> None:
    response = call(port, "count")
    assert response.headers["Content-Type"] == "text/event-stream"
    lines = filter(None, response.text.splitlines())
    messages = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [each["params"]["progress"] for each in messages[:-1]] == [1, 2, 3]
    assert messages[-1]["result"]["content"][0]["text"] == "done"


def test_other_paths_are_answered_by_django(port: int) -> None:
    with connect(port) as client:
        assert client.get("/elsewhere").status_code == 404


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
