"""Session state is the same in every process: two workers with one database."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import ROOT
from tests.running_site import RunningSite, create_tables, serving
from tests.waiting import SECONDS
from tests.wire.live import SyncLiveClient
from tests.wire.messages import NEWEST_SESSION, response, text_of

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


class TwoProcessesClient:
    """A client that chooses the worker for each of its requests."""

    def __init__(self, workers: tuple[RunningSite, RunningSite], http: httpx.Client) -> None:
        self.at = [SyncLiveClient(http, each.url("/mcp"), NEWEST_SESSION) for each in workers]
        self.at[0].initialize()
        self.at[1].session = self.at[0].session

    def call(self, worker: int, tool: str, **arguments: Any) -> str:
        result = self.at[worker].result("tools/call", name=tool, arguments=arguments)
        return text_of(result)

    def notes(self, worker: int) -> set[str]:
        listed = self.at[worker].result("resources/list")["resources"]
        return {each["name"] for each in listed if each["uri"].startswith("note:")}


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False) as http:
        yield http


@pytest.fixture
def client(workers: tuple[RunningSite, RunningSite], http: httpx.Client) -> TwoProcessesClient:
    return TwoProcessesClient(workers, http)


def test_assigns_of_one_worker_are_visible_on_the_other(client: TwoProcessesClient) -> None:
    client.call(0, "calculator", operation="add", a=40, b=2)

    assert client.call(1, "last_calculation") == "42"


def test_component_registered_on_one_worker_is_served_by_the_other(
    client: TwoProcessesClient,
) -> None:
    client.call(0, "take_note", title="milk", text="Two pints")

    assert client.notes(1) == {"milk"}
    (contents,) = client.at[1].result("resources/read", uri="note://milk")["contents"]
    assert contents["text"] == "Two pints"


def test_concurrent_calls_on_both_workers_lose_no_update(
    client: TwoProcessesClient,
) -> None:
    titles = [f"note-{number}" for number in range(12)]

    def take(numbered: tuple[int, str]) -> str:
        number, title = numbered
        return client.call(number % 2, "take_note", title=title, text=title)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(take, enumerate(titles))) == ["Noted."] * 12

    assert client.notes(0) == client.notes(1) == {*titles}
    read = [client.at[1].result("resources/read", uri=f"note://{title}") for title in titles]
    assert [each["contents"][0]["text"] for each in read] == titles


def test_assigns_and_components_are_not_visible_in_another_session(
    workers: tuple[RunningSite, RunningSite], http: httpx.Client
) -> None:
    one, other = TwoProcessesClient(workers, http), TwoProcessesClient(workers, http)
    one.call(0, "take_note", title="mine", text="secret")
    one.call(0, "calculator", operation="add", a=1, b=1)

    assert other.notes(0) == other.notes(1) == set()
    assert "Nothing was calculated" in other.call(0, "last_calculation")


MULTI_ROUND_TRIP_TOOL = "test_input_required_result_multi_round"
RESPONSES = {"step1": {"name": "Ada"}, "step2": {"color": "green"}}


def accept_result(key: str) -> dict[str, Any]:
    return {"action": "accept", "content": RESPONSES[key]}


def test_multi_round_trip_call_continues_on_alternating_workers(
    workers: tuple[RunningSite, RunningSite], http: httpx.Client
) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
    params: dict[str, Any] = {"name": MULTI_ROUND_TRIP_TOOL, "arguments": {}}
    requested: list[str] = []
    for round_ in range(len(RESPONSES) + 1):
        url = workers[round_ % 2].url("/conformance")
        client = SyncLiveClient(http, url, capabilities=capabilities)
        result = client.result("tools/call", **params)
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
    workers: tuple[RunningSite, RunningSite], http: httpx.Client
) -> None:
    answers = iter(RESPONSES)
    url = workers[0].url("/conformance")
    client = SyncLiveClient(http, url, "2025-06-18", capabilities={"elicitation": {}})
    client.initialize()
    call = client.call(MULTI_ROUND_TRIP_TOOL)
    with client.open_post(call) as lines:
        for line in lines:
            if not line.startswith("data: {"):
                continue
            message = json.loads(line.removeprefix("data: "))
            if message.get("method") == "elicitation/create":
                answer = response(message["id"], accept_result(next(answers)))
                client.post(answer).raise_for_status()
            elif message.get("id") == call["id"]:
                result = message["result"]

    assert "Ada" in result["content"][0]["text"]
    assert "green" in result["content"][0]["text"]
