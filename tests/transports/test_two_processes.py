"""Session state is the same in every process: two workers with one database."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import ROOT
from tests.running_site import RunningSite, create_tables, serving
from tests.transports.http_peer import ACCEPT, PRIMED
from tests.transports.wire import CAPABILITIES, STATELESS, VERSION
from tests.waiting import SECONDS

TIMEOUT = SECONDS


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[RunningSite, RunningSite]]:
    """Two processes of the example site."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        environment = {**os.environ}
        environment.pop("EXAMPLE_REDIS_URL", None)
        environment |= {
            "DJANGO_SETTINGS_MODULE": "example_site.settings",
            "EXAMPLE_DATABASE": str(Path(folder) / "db.sqlite3"),
        }
        python = Path(sys.executable)
        create_tables(python, environment)
        serve = ("example_site.asgi:application", python, ROOT, environment)
        yield stack.enter_context(serving(*serve)), stack.enter_context(serving(*serve))


class Client:
    """A client that chooses the worker for each of its requests."""

    def __init__(self, workers: tuple[RunningSite, RunningSite]) -> None:
        self.urls = [worker.url("/mcp") for worker in workers]
        self.headers = {"accept": ACCEPT}
        self._ids = count(1)
        params = {
            "protocolVersion": PRIMED,
            "capabilities": {},
            "clientInfo": {"name": "two", "version": "1"},
        }
        reply = self._post(0, "initialize", params)
        self.headers["mcp-session-id"] = reply.headers["mcp-session-id"]

    def result(self, worker: int, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._post(worker, method, params).json()["result"]
        return result

    def call(self, worker: int, tool: str, **arguments: Any) -> str:
        result = self.result(worker, "tools/call", name=tool, arguments=arguments)
        return str(result["content"][0]["text"])

    def notes(self, worker: int) -> set[str]:
        listed = self.result(worker, "resources/list")["resources"]
        return {each["name"] for each in listed if each["uri"].startswith("note:")}

    def _post(self, worker: int, method: str, params: Any) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return httpx.post(
            self.urls[worker], json=message, headers=self.headers, timeout=TIMEOUT
        ).raise_for_status()


@pytest.fixture
def client(workers: tuple[RunningSite, RunningSite]) -> Client:
    return Client(workers)


def test_assigns_of_one_worker_are_visible_on_the_other(client: Client) -> None:
    client.call(0, "calculator", operation="add", a=40, b=2)

    assert client.call(1, "last_calculation") == "42"


def test_component_registered_on_one_worker_is_served_by_the_other(client: Client) -> None:
    client.call(0, "take_note", title="milk", text="Two pints")

    assert client.notes(1) == {"milk"}
    (contents,) = client.result(1, "resources/read", uri="note://milk")["contents"]
    assert contents["text"] == "Two pints"


def test_concurrent_calls_on_both_workers_lose_no_update(
    client: Client,
) -> None:
    titles = [f"note-{number}" for number in range(12)]

    def take(numbered: tuple[int, str]) -> str:
        number, title = numbered
        return client.call(number % 2, "take_note", title=title, text=title)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(take, enumerate(titles))) == ["Noted."] * 12

    assert client.notes(0) == client.notes(1) == {*titles}
    read = [client.result(1, "resources/read", uri=f"note://{title}") for title in titles]
    assert [each["contents"][0]["text"] for each in read] == titles


def test_assigns_and_components_are_not_visible_in_another_session(
    workers: tuple[RunningSite, RunningSite],
) -> None:
    one, other = Client(workers), Client(workers)
    one.call(0, "take_note", title="mine", text="secret")
    one.call(0, "calculator", operation="add", a=1, b=1)

    assert other.notes(0) == other.notes(1) == set()
    assert "Nothing was calculated" in other.call(0, "last_calculation")


MULTI_ROUND_TRIP_TOOL = "test_input_required_result_multi_round"
RESPONSES = {"step1": {"name": "Ada"}, "step2": {"color": "green"}}


def accept_result(key: str) -> dict[str, Any]:
    return {"action": "accept", "content": RESPONSES[key]}


def test_multi_round_trip_call_continues_on_alternating_workers(
    workers: tuple[RunningSite, RunningSite],
) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
    params: dict[str, Any] = {
        "name": MULTI_ROUND_TRIP_TOOL,
        "arguments": {},
        "_meta": {VERSION: STATELESS, CAPABILITIES: capabilities},
    }
    headers = {
        "accept": ACCEPT,
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": MULTI_ROUND_TRIP_TOOL,
    }
    requested: list[str] = []
    for round_ in range(len(RESPONSES) + 1):
        message = {"jsonrpc": "2.0", "id": round_, "method": "tools/call", "params": params}
        url = workers[round_ % 2].url("/conformance")
        reply = httpx.post(url, json=message, headers=headers, timeout=TIMEOUT).raise_for_status()
        result = reply.json()["result"]
        if result["resultType"] == "complete":
            break
        (key,) = result["inputRequests"]
        requested.append(key)
        params["inputResponses"] = {key: accept_result(key)}
        params["requestState"] = result["requestState"]

    assert requested == [*RESPONSES]
    assert "Ada" in result["content"][0]["text"]
    assert "green" in result["content"][0]["text"]


def test_multi_round_trip_tool_sends_input_requests_in_a_session(
    workers: tuple[RunningSite, RunningSite],
) -> None:
    url = workers[0].url("/conformance")
    headers = {"accept": ACCEPT}
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "live", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    opened = httpx.post(url, json=opening, headers=headers, timeout=TIMEOUT)
    headers["mcp-session-id"] = opened.headers["mcp-session-id"]
    call = {"name": MULTI_ROUND_TRIP_TOOL, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answers = iter(RESPONSES)
    with httpx.stream("POST", url, json=message, headers=headers, timeout=TIMEOUT) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: {"):
                continue
            message = json.loads(line.removeprefix("data: "))
            if message.get("method") == "elicitation/create":
                reply = {
                    "jsonrpc": "2.0",
                    "id": message["id"],
                    "result": accept_result(next(answers)),
                }
                httpx.post(url, json=reply, headers=headers, timeout=TIMEOUT).raise_for_status()
            elif message.get("id") == 1:
                result = message["result"]

    assert "Ada" in result["content"][0]["text"]
    assert "green" in result["content"][0]["text"]
