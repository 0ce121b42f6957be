"""The experimental tasks client of the official Python SDK 1.x, over HTTP and stdio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.conftest import KINDS, connected
from tests.clients.real_client import Json, RealClient, SdkError
from tests.running_site import RunningSite
from tests.spec import spec

pytestmark = pytest.mark.nightly


@pytest.fixture(params=["python_1_http", "python_1_stdio"])
def client(request: pytest.FixtureRequest, site: RunningSite) -> Iterator[RealClient]:
    """A client of the server with the tools of the conformance suite."""
    with connected(KINDS[request.param], site, "conformance") as client:
        yield client


def create(client: RealClient, tool: str, **arguments: object) -> Json:
    """Call a tool as a task; return the task."""
    created = client.request("task", name=tool, arguments=arguments, ttl=60_000)
    task: Json = created["task"]
    return task


@spec("TASK-02")
def test_tasks_are_declared(client: RealClient) -> None:
    # Anonymous callers are all the same one, to whom tasks are not listed.
    wanted: Json = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    # The SDK fails if it exits while it reads the notifications of a new session.
    client.request("tools/list")

    assert client.connected["capabilities"]["tasks"] == wanted


@spec("TASK-12")
def test_task_runs_and_is_polled_until_its_end(client: RealClient) -> None:
    task = create(client, "slow_compute", seconds=0.5, label="sum")
    done = client.request("tasks/poll", taskId=task["taskId"])
    result = client.request("tasks/result", taskId=task["taskId"])

    assert (task["status"], task["ttl"], done["status"]) == ("working", 60_000, "completed")
    assert result["content"][0]["text"] == "sum: done after 0.5 s"
    related = result["_meta"]["io.modelcontextprotocol/related-task"]
    assert related == {"taskId": task["taskId"]}


@spec("TASK-43")
def test_result_is_awaited_while_the_task_runs(client: RealClient) -> None:
    task = create(client, "slow_compute", seconds=0.5)
    result = client.request("tasks/result", taskId=task["taskId"])

    assert result["content"][0]["text"] == "computation: done after 0.5 s"


@spec("TASK-52")
def test_task_requests_input_on_the_stream_of_its_result(client: RealClient) -> None:
    task = create(client, "confirm_delete", filename="notes.txt")
    polled = client.request("tasks/poll", taskId=task["taskId"])
    waiting = client.start("tasks/result", taskId=task["taskId"])
    request = client.next_request()
    client.answer(request, {"action": "accept", "content": {"confirm": True}})
    result = client.until_done(waiting)[-1]["result"]

    assert polled["status"] == "input_required"
    assert request["params"]["message"] == "Delete notes.txt?"
    assert result["content"][0]["text"] == "notes.txt was deleted."


def test_tasks_of_anonymous_callers_are_not_listed(client: RealClient) -> None:
    create(client, "slow_compute", seconds=60)
    with pytest.raises(SdkError) as caught:
        client.request("tasks/list")

    assert caught.value.args[0]["message"] == "This server does not declare tasks.list"


@spec("TASK-80")
def test_task_is_cancelled(client: RealClient) -> None:
    task = create(client, "slow_compute", seconds=60)
    cancelled = client.request("tasks/cancel", taskId=task["taskId"])
    with pytest.raises(SdkError) as caught:
        client.request("tasks/cancel", taskId=task["taskId"])

    assert cancelled["status"] == "cancelled"
    assert caught.value.code == -32602
