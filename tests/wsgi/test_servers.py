"""The mounted application under common WSGI servers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import migrated_file
from tests.processes import ROOT, ServerProcess, server
from tests.waiting import wait_until

TIMEOUT = 30.0
APPLICATION = "tests.wsgi.one_site:application"
VERSION = "2026-07-28"
SESSION_VERSION = "2025-11-25"
BIND = ("--bind", "127.0.0.1:{port}")

SERVERS = {
    "gunicorn": ["gunicorn", *BIND, "--workers", "2", "--preload", APPLICATION],
    "gunicorn with threads": ["gunicorn", *BIND, "--threads", "4", APPLICATION],
    "waitress": ["waitress", "--listen", "127.0.0.1:{port}", APPLICATION],
    "runserver": ["tests.wsgi.manage", "runserver", "--noreload", "127.0.0.1:{port}"],
}


def environment(folder: Path) -> dict[str, str]:
    """That of a site which configures Django itself, with its tables in a file."""
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "", "PYTHONPATH": str(ROOT)}
    database = folder / "site.sqlite3"
    migrated_file.copy(database)
    return {**variables, "SITE_DATABASE": str(database)}


@pytest.fixture(params=SERVERS, scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    variables = environment(tmp_path_factory.mktemp("site"))
    with server(SERVERS[request.param], environment=variables) as running:
        yield running


def message(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The body and headers of a tools/call in the stateless revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "progressToken": "t",
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(body), headers


def request(
    port: int, method: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[HTTPConnection, HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    usual = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    connection.request(method, "/mcp", body, {**usual, **(headers or {})})
    return connection, connection.getresponse()


def call(port: int, name: str, **arguments: Any) -> tuple[str, str]:
    """Call a tool; return the media type and the body of the response with status 200."""
    connection, response = request(port, "POST", *message(name, arguments))
    with response:
        text = response.read().decode()
        assert response.status == 200, text
    connection.close()
    return response.headers["Content-Type"], text


def result(port: int, name: str, **arguments: Any) -> Any:
    """Call a tool; return its structured content."""
    _, text = call(port, name, **arguments)
    return json.loads(text)["result"]["structuredContent"]


def messages(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_call_is_answered(running: ServerProcess, tool: str) -> None:
    assert result(running.port, tool, a=1, b=2) == 3


def test_large_body_is_received_whole(running: ServerProcess) -> None:
    assert result(running.port, "size", text="x" * 3_000_000) == 3_000_000


def test_chunked_body_is_received_whole(running: ServerProcess) -> None:
    if "runserver" in str(running.process.args):
        pytest.skip("Django's runserver reads no chunked bodies")
    body, headers = message("add", {"a": 1, "b": 2})
    connection, response = request(
        running.port, "POST", iter([body[:50].encode(), body[50:].encode()]), headers
    )
    assert json.loads(response.read())["result"]["structuredContent"] == 3
    connection.close()


def test_body_above_the_limit_is_rejected(running: ServerProcess) -> None:
    body, headers = message("size", {"text": "x" * 5_000_000})
    connection, response = request(running.port, "POST", body, headers)
    assert response.status == 413
    connection.close()


def test_progress_is_streamed_before_the_result(running: ServerProcess) -> None:
    media_type, text = call(running.port, "count")
    assert media_type == "text/event-stream"
    *progress, last = messages(text)
    assert [each["params"]["progress"] for each in progress] == [1, 2, 3]
    assert last["result"]["content"][0]["text"] == "done"


def test_synchronous_handlers_have_threads_that_keep_their_connections(
    running: ServerProcess,
) -> None:
    places = {tuple(result(running.port, "where")) for _ in range(8)}
    threads = {(process, thread) for process, thread, _ in places}
    assert "django_mcp-loop" not in {thread for _, thread in threads}
    assert len(places) == len(threads) < 8


def test_other_paths_are_answered_by_django_without_an_event_loop(tmp_path: Path) -> None:
    command = ["gunicorn", *BIND, APPLICATION]
    with server(command, environment=environment(tmp_path)) as running:
        connection = HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT)
        connection.request("GET", "/page")
        assert connection.getresponse().read() == b"MainThread"
        connection.close()


def exchange(port: int, name: str, arguments: dict[str, Any]) -> socket.socket:
    """Send a call, and return its open connection."""
    body, headers = message(name, arguments)
    headers |= {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
    }
    head = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    client = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    client.sendall("\r\n".join([*head, "", body]).encode())
    return client


def test_disconnect_cancels_a_call_that_sends(running: ServerProcess, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with exchange(running.port, "tick", {"ended": str(ended)}) as client:
        assert client.recv(1)
        assert not ended.exists()
    wait_until(ended.exists)


def test_process_whose_event_loop_ended_serves_further_requests(running: ServerProcess) -> None:
    connection, response = request(running.port, "POST", *message("end_loop", {}))
    assert response.status == 503
    connection.close()
    assert result(running.port, "add", a=1, b=2) == 3


STOPPED = {
    "gunicorn": ["gunicorn", *BIND, APPLICATION],
    "gunicorn with threads": ["gunicorn", *BIND, "--threads", "4", APPLICATION],
}


@pytest.mark.parametrize("name", STOPPED)
def test_worker_that_is_told_to_stop_finishes_its_call(name: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    answers: list[str] = []
    with server(STOPPED[name], environment=environment(tmp_path)) as running:

        def sleep() -> None:
            arguments = {"seconds": 1.5, "started": str(started)}
            answers.append(call(running.port, "sleep_in_thread", **arguments)[1])

        calling = Thread(target=sleep)
        calling.start()
        wait_until(started.exists)
        running.terminate()
        calling.join(TIMEOUT)
        running.process.wait(TIMEOUT)
    assert "slept" in answers[0]


@pytest.mark.parametrize("name", STOPPED)
def test_call_that_outlasts_the_stop_is_answered_with_an_error(name: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    answers: list[str] = []
    with server(STOPPED[name], environment=environment(tmp_path)) as running:
        arguments = {"started": str(started)}
        calling = Thread(target=lambda: answers.append(call(running.port, "wait", **arguments)[1]))
        calling.start()
        wait_until(started.exists)
        running.terminate()
        calling.join(TIMEOUT)
        running.process.wait(TIMEOUT)
    assert json.loads(answers[0])["error"]["message"] == "Cancelled"


def test_input_of_a_session_arrives_at_the_worker_that_waits_for_it(
    running: ServerProcess,
) -> None:
    headers = open_session(running.port)
    params = {"name": "ask", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    connection, response = request(running.port, "POST", json.dumps(body), headers)
    asked = next_message(response)
    assert asked["method"] == "elicitation/create"
    content = {"action": "accept", "content": {"name": "Ann"}}
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": content}
    second, accepted = request(running.port, "POST", json.dumps(answer), headers)
    assert accepted.status == 202
    second.close()
    assert next_message(response)["result"]["content"][0]["text"] == "accept: Ann"
    connection.close()


def test_session_has_no_stream_of_its_own(running: ServerProcess) -> None:
    headers = open_session(running.port)
    connection, response = request(running.port, "GET", headers=headers)
    assert response.status == 405
    assert "GET" not in response.headers["Allow"]
    connection.close()


def test_listening_is_neither_declared_nor_served(running: ServerProcess) -> None:
    assert declared_for_tools(running.port) == {}
    reply = stateless(running.port, "subscriptions/listen", {"notifications": {}})
    assert reply["error"]["code"] == -32601


def test_setting_admits_a_number_of_streams(tmp_path: Path) -> None:
    variables = {**environment(tmp_path), "SITE_STREAMS": "1"}
    with server(STOPPED["gunicorn with threads"], environment=variables) as running:
        assert declared_for_tools(running.port) == {"listChanged": True}
        first, second = open_session(running.port), open_session(running.port)
        connection, stream = request(running.port, "GET", headers=first)
        assert stream.status == 200
        rejected, response = request(running.port, "GET", headers=second)
        assert response.status == 429
        rejected.close()
        connection.close()


def declared_for_tools(port: int) -> Any:
    return stateless(port, "server/discover", {})["result"]["capabilities"]["tools"]


def stateless(port: int, method: str, params: dict[str, Any]) -> Any:
    """Send a request without a session; return the message that answers it."""
    text, headers = message("", {})
    meta = json.loads(text)["params"]["_meta"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    named = {"MCP-Protocol-Version": headers["MCP-Protocol-Version"], "Mcp-Method": method}
    connection, response = request(port, "POST", json.dumps(body), named)
    with response:
        reply = json.loads(response.read())
    connection.close()
    return reply


def open_session(port: int) -> dict[str, str]:
    """Initialize a session; return the headers of its requests."""
    params = {
        "protocolVersion": SESSION_VERSION,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    connection, response = request(port, "POST", json.dumps(body))
    with response:
        response.read()
    connection.close()
    headers = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    connection, response = request(port, "POST", json.dumps(ready), headers)
    assert response.status == 202
    connection.close()
    return headers


def next_message(response: HTTPResponse) -> Any:
    while line := response.readline().decode():
        if line.startswith("data: {"):
            return json.loads(line[6:])
    raise EOFError
