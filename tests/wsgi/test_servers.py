"""The mounted application under common WSGI servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.http_client import HEADERS, TIMEOUT, call, connect, message, result, stateless
from tests.processes import ServerProcess, server
from tests.waiting import wait_until
from tests.wsgi import servers
from tests.wsgi.requests import sent_call
from tests.wsgi.servers import GUNICORN, GUNICORN_THREADS, environment

SESSION_VERSION = "2025-11-25"
WITHOUT_CHUNKED = ("runserver", "uWSGI", "uWSGI without lazy-apps")


@pytest.fixture(params=servers.NAMES, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    """The name of each server."""
    return str(request.param)


@pytest.fixture(scope="module")
def running(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("site")
    with server(servers.command(name, folder), environment=environment(folder)) as running:
        yield running


@contextmanager
def sent(
    port: int, method: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> Iterator[httpx.Response]:
    """The response to a request on a connection of its own, whose body may go on."""
    options = {"content": body, "headers": {**HEADERS, **(headers or {})}}
    with connect(port) as client, client.stream(method, "/mcp", **options) as response:
        yield response


def messages(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_tool_call_is_answered(running: ServerProcess, tool: str) -> None:
    assert result(running.port, tool, a=1, b=2) == 3


def test_large_body_is_received_whole(running: ServerProcess) -> None:
    assert result(running.port, "size", text="x" * 3_000_000) == 3_000_000


def test_chunked_body_is_received_whole(running: ServerProcess, name: str) -> None:
    if name in WITHOUT_CHUNKED:
        pytest.skip(f"{name} passes on no chunked bodies")
    body, headers = message("add", {"a": 1, "b": 2})
    parts = iter([body[:50].encode(), body[50:].encode()])
    with sent(running.port, "POST", parts, headers) as response:
        assert json.loads(response.read())["result"]["structuredContent"] == 3


def test_body_above_the_limit_is_rejected(running: ServerProcess) -> None:
    body, headers = message("size", {"text": "x" * 5_000_000})
    with sent(running.port, "POST", body, headers) as response:
        assert response.status_code == 413


def test_progress_is_streamed_before_the_result(running: ServerProcess) -> None:
    response = call(running.port, "count")
    assert response.headers["Content-Type"] == "text/event-stream"
    *progress, last = messages(response.text)
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
    with (
        server(GUNICORN, environment=environment(tmp_path)) as running,
        connect(running.port) as client,
    ):
        assert client.get("/page").text == "MainThread"


def test_connection_is_kept_unless_the_response_closes_it(running: ServerProcess) -> None:
    body, headers = message("add", {"a": 1, "b": 2})
    client = HTTPConnection("127.0.0.1", running.port, timeout=TIMEOUT)
    closes = False
    for _ in range(2):
        if not closes:
            client.request("POST", "/mcp", body, headers)
            response = client.getresponse()
            assert json.loads(response.read())["result"]["structuredContent"] == 3
            closes = response.will_close
    client.close()


def test_disconnect_cancels_a_call_that_sends(running: ServerProcess, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with sent_call(running.port, "tick", ended=str(ended)) as client:
        assert client.recv(1)
        assert not ended.exists()
    wait_until(ended.exists)


def test_process_whose_event_loop_ended_serves_further_requests(running: ServerProcess) -> None:
    with sent(running.port, "POST", *message("end_loop", {})) as response:
        assert response.status_code == 503
    assert result(running.port, "add", a=1, b=2) == 3


def test_input_of_a_session_arrives_at_the_worker_that_waits_for_it(
    running: ServerProcess,
) -> None:
    headers = open_session(running.port)
    params = {"name": "ask", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    with sent(running.port, "POST", json.dumps(body), headers) as response:
        received = streamed(response)
        question = next(received)
        assert question["method"] == "elicitation/create"
        content = {"action": "accept", "content": {"name": "Ann"}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": content}
        with sent(running.port, "POST", json.dumps(answer), headers) as accepted:
            assert accepted.status_code == 202
        assert next(received)["result"]["content"][0]["text"] == "accept: Ann"


def test_session_has_no_stream_of_its_own(running: ServerProcess) -> None:
    headers = open_session(running.port)
    with sent(running.port, "GET", headers=headers) as response:
        assert response.status_code == 405
        assert "GET" not in response.headers["Allow"]


def test_listening_is_neither_declared_nor_served(running: ServerProcess) -> None:
    assert declared_for_tools(running.port) == {}
    reply = ask(running.port, "subscriptions/listen", {"notifications": {}})
    assert reply["error"]["code"] == -32601


def test_setting_admits_a_number_of_streams(tmp_path: Path) -> None:
    variables = environment(tmp_path, SITE_STREAMS="1")
    with server(GUNICORN_THREADS, environment=variables) as running:
        assert declared_for_tools(running.port) == {"listChanged": True}
        first, second = open_session(running.port), open_session(running.port)
        with sent(running.port, "GET", headers=first) as stream:
            assert stream.status_code == 200
            with sent(running.port, "GET", headers=second) as rejected:
                assert rejected.status_code == 429


def test_thread_of_a_client_that_has_gone_is_free_for_the_next_stream(tmp_path: Path) -> None:
    variables = environment(tmp_path, SITE_STREAMS="1")
    with server(GUNICORN_THREADS, environment=variables) as running:
        headers = open_session(running.port)
        with sent(running.port, "GET", headers=open_session(running.port)) as stream:
            assert stream.status_code == 200

        def is_open() -> bool:
            with sent(running.port, "GET", headers=headers) as stream:
                if stream.status_code == 429:
                    assert stream.headers["retry-after"] == "2"
                return stream.status_code == 200

        # Without a request it takes two keepalive comments, which is half a minute.
        wait_until(is_open, seconds=12, pause=0.5)


def declared_for_tools(port: int) -> Any:
    return ask(port, "server/discover", {})["result"]["capabilities"]["tools"]


def ask(port: int, method: str, params: dict[str, Any]) -> Any:
    """Send a request without a session; return the message that answers it."""
    with sent(port, "POST", *stateless(method, params)) as response:
        return json.loads(response.read())


def open_session(port: int) -> dict[str, str]:
    """Initialize a session; return the headers of its requests."""
    params = {
        "protocolVersion": SESSION_VERSION,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with sent(port, "POST", json.dumps(body)) as response:
        headers = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    with sent(port, "POST", json.dumps(ready), headers) as response:
        assert response.status_code == 202
    return headers


def streamed(response: httpx.Response) -> Iterator[Any]:
    """The messages of a stream, each as soon as it arrives."""
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line[6:])
